//! Lines of a file, each within a limit.

use std::io::{self, BufRead, Read};

/// The longest line that is read. With attachments in base64 a line is large; without a limit a file that is no text
/// would be one line.
pub(crate) const MAX_BYTES: u64 = 32 * 1024 * 1024;
/// A buffer that grew beyond this for one line is given back.
const KEPT_CAPACITY: usize = 1024 * 1024;
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Reads lines one after the other. Blank ones are passed over.
pub(crate) struct Lines<R> {
    reader: R,
    line: Vec<u8>,
    next: At,
}

/// Where a line begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    /// Counted from 1; zero for a file that is one mail.
    pub(crate) line: u64,
    /// In bytes from the start of the file.
    pub(crate) offset: u64,
}

impl At {
    pub(super) const START: Self = Self { line: 1, offset: 0 };
}

/// A line without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Read(&'a [u8]),
    /// So many bytes.
    TooLong(u64),
}

impl<R: BufRead> Lines<R> {
    /// `reader` stands at `at`.
    pub(super) fn new(reader: R, at: At) -> Self {
        Self { reader, line: Vec::new(), next: at }
    }

    pub(super) fn into_inner(self) -> R {
        self.reader
    }

    /// The next line that is not blank, and where it begins.
    pub(super) fn next(&mut self) -> io::Result<Option<(At, Line<'_>)>> {
        loop {
            match self.advance()? {
                None => return Ok(None),
                Some((at, Some(bytes))) => return Ok(Some((at, Line::TooLong(bytes)))),
                Some((_, None)) if self.line.trim_ascii().is_empty() => {}
                Some((at, None)) => {
                    let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
                    return Ok(Some((at, Line::Read(line.strip_suffix(b"\r").unwrap_or(line)))));
                }
            }
        }
    }

    /// Reads a line with its end, blank or not; [`raw`](Self::raw) is then that line. Answers where it begins, and for
    /// one that is too long how many bytes it has.
    pub(super) fn advance(&mut self) -> io::Result<Option<(At, Option<u64>)>> {
        self.line.clear();
        self.line.shrink_to(KEPT_CAPACITY);
        let read = (&mut self.reader).take(MAX_BYTES + 1).read_until(b'\n', &mut self.line)? as u64;
        if read == 0 {
            return Ok(None);
        }
        let at = self.next;
        let whole = read <= MAX_BYTES || self.line.ends_with(b"\n");
        let bytes = if whole { read } else { read + self.skip_line()? };
        self.next = At { line: at.line + 1, offset: at.offset + bytes };
        if at.offset == 0 && self.line.starts_with(BOM) {
            self.line.drain(..BOM.len());
        }
        Ok(Some((at, (!whole).then_some(bytes))))
    }

    /// The line of the last [`advance`](Self::advance).
    pub(super) fn raw(&self) -> &[u8] {
        &self.line
    }

    /// Passes over the rest of a line. Answers how many bytes it had.
    fn skip_line(&mut self) -> io::Result<u64> {
        let mut skipped = 0;
        loop {
            let (used, found) = match self.reader.fill_buf() {
                Ok([]) => return Ok(skipped),
                Ok(bytes) => match bytes.iter().position(|byte| *byte == b'\n') {
                    Some(end) => (end + 1, true),
                    None => (bytes.len(), false),
                },
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.reader.consume(used);
            skipped += used as u64;
            if found {
                return Ok(skipped);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn all(bytes: &[u8]) -> Vec<(u64, u64, String)> {
        let mut lines = Lines::new(Cursor::new(bytes), At::START);
        let mut found = Vec::new();
        while let Some((at, line)) = lines.next().unwrap() {
            let text = match line {
                Line::Read(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                Line::TooLong(bytes) => format!("too long: {bytes}"),
            };
            found.push((at.line, at.offset, text));
        }
        found
    }

    #[test]
    fn lines_have_their_numbers_and_places() {
        let found = all(b"{}\r\n\n  \t\n[1]\n{\"a\":1}");
        let expected = [(1, 0, "{}"), (4, 9, "[1]"), (5, 13, "{\"a\":1}")];
        assert_eq!(found, expected.map(|(line, offset, text)| (line, offset, text.to_owned())));
    }

    #[test]
    fn byte_order_mark_is_no_part_of_the_first_line() {
        assert_eq!(all(b"\xef\xbb\xbf{}\n{}"), [(1, 0, "{}".to_owned()), (2, 6, "{}".to_owned())]);
        assert_eq!(all(b"\xef\xbb\xbf\n{}"), [(2, 4, "{}".to_owned())]);
        assert!(all(b"\xef\xbb\xbf").is_empty());
    }

    #[test]
    fn line_above_the_limit_is_passed_over_without_being_kept() {
        let most = usize::try_from(MAX_BYTES).unwrap();
        let mut bytes = vec![b'x'; most + 20];
        bytes.extend_from_slice(b"\nok\n");
        let mut lines = Lines::new(Cursor::new(&bytes), At::START);
        assert_eq!(lines.next().unwrap(), Some((At::START, Line::TooLong(MAX_BYTES + 21))));
        assert_eq!(lines.next().unwrap(), Some((At { line: 2, offset: MAX_BYTES + 21 }, Line::Read(b"ok"))));
        assert!(lines.line.capacity() <= KEPT_CAPACITY);
        assert_eq!(lines.next().unwrap(), None);
    }

    #[test]
    fn line_at_the_limit_is_read() {
        let most = usize::try_from(MAX_BYTES).unwrap();
        let mut bytes = vec![b'x'; most];
        bytes.push(b'\n');
        let mut lines = Lines::new(Cursor::new(&bytes), At::START);
        assert!(matches!(lines.next().unwrap(), Some((_, Line::Read(line))) if line.len() == most));
    }
}
