//! What the check found, one mark an entry: seventeen bytes, in memory for most files and on the disk for long ones.

use hapax::mail::Stamp;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use tempfile::SpooledTempFile;

const LENGTH: usize = 17;
/// Thirty thousand entries.
const IN_MEMORY: usize = 512 * 1024;

const BUFFER: usize = 16 * 1024;

/// What is to be done with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// It is sent, if it still looks so.
    Send(Stamp),
    /// It is not valid.
    Invalid,
    /// `--only-failed` leaves it out.
    LeftOut,
    /// It has the key of another message before it.
    Clash,
}

/// The marks of all entries, in order.
#[derive(Debug)]
pub(crate) struct Marks(SpooledTempFile);

/// Writes marks.
#[derive(Debug)]
pub(crate) struct Marking(BufWriter<SpooledTempFile>);

/// Reads marks in order.
#[derive(Debug)]
pub(crate) struct Marked<'a>(BufReader<&'a mut SpooledTempFile>);

impl Mark {
    fn to_bytes(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let (kind, stamp) = match self {
            Self::Send(stamp) => (0, stamp.to_bytes()),
            Self::Invalid => (1, [0; 16]),
            Self::LeftOut => (2, [0; 16]),
            Self::Clash => (3, [0; 16]),
        };
        let [first, rest @ ..] = &mut bytes;
        *first = kind;
        *rest = stamp;
        bytes
    }

    fn from_bytes([kind, stamp @ ..]: [u8; LENGTH]) -> Self {
        match kind {
            0 => Self::Send(Stamp::from_bytes(stamp)),
            1 => Self::Invalid,
            2 => Self::LeftOut,
            _ => Self::Clash,
        }
    }
}

impl Marking {
    pub(crate) fn new() -> Self {
        Self(BufWriter::with_capacity(BUFFER, tempfile::spooled_tempfile(IN_MEMORY)))
    }

    pub(crate) fn push(&mut self, mark: Mark) -> io::Result<()> {
        self.0.write_all(&mark.to_bytes())
    }

    pub(crate) fn finish(self) -> io::Result<Marks> {
        Ok(Marks(self.0.into_inner().map_err(io::IntoInnerError::into_error)?))
    }
}

impl Marks {
    /// From the first on.
    pub(crate) fn read(&mut self) -> io::Result<Marked<'_>> {
        self.0.rewind()?;
        Ok(Marked(BufReader::with_capacity(BUFFER, &mut self.0)))
    }
}

impl Marked<'_> {
    /// The next one.
    pub(crate) fn next(&mut self) -> io::Result<Option<Mark>> {
        let mut bytes = [0; LENGTH];
        match self.0.read_exact(&mut bytes) {
            Ok(()) => Ok(Some(Mark::from_bytes(bytes))),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_back_from_memory_and_from_disk() {
        for count in [3, IN_MEMORY / LENGTH + 10] {
            let mark = |i: usize| match i % 4 {
                0 => Mark::Send(Stamp::from_bytes([u8::try_from(i % 251).unwrap(); 16])),
                1 => Mark::Invalid,
                2 => Mark::LeftOut,
                _ => Mark::Clash,
            };
            let mut marking = Marking::new();
            (0..count).for_each(|i| marking.push(mark(i)).unwrap());
            let mut marks = marking.finish().unwrap();
            assert_eq!(marks.0.is_rolled(), count > 3);
            let mut marked = marks.read().unwrap();
            for i in 0..count {
                assert_eq!(marked.next().unwrap(), Some(mark(i)));
            }
            assert_eq!(marked.next().unwrap(), None);
        }
    }
}
