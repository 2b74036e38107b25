//! How far a running job is, as its handler says.

/// A note is kept up to so many bytes.
pub const MAX_NOTE: usize = 256;

const VERSION: u8 = 1;

/// How far a running job is: so many parts of so many, and a note for people.
///
/// ```
/// use hapax_core::queue::Progress;
///
/// let progress = Progress::of(3, 12).note("3 of 12 pages");
/// assert_eq!((progress.percentage(), progress.text()), (25, Some("3 of 12 pages")));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    done: u64,
    total: u64,
    note: String,
}

impl Progress {
    /// So many parts of so many are done. There is one part at least, and no more are done than there are.
    pub fn of(done: u64, total: u64) -> Self {
        let total = total.max(1);
        Self { done: done.min(total), total, note: String::new() }
    }

    /// In hundredths.
    pub fn percent(percent: u8) -> Self {
        Self::of(percent.into(), 100)
    }

    /// With a text, of which the first [`MAX_NOTE`] bytes are kept.
    #[must_use]
    pub fn note(self, text: impl Into<String>) -> Self {
        let mut note = text.into();
        note.truncate(note.floor_char_boundary(MAX_NOTE));
        Self { note, ..self }
    }

    /// How many parts are done.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Of how many; 1 or more.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The text, where there is one.
    pub fn text(&self) -> Option<&str> {
        Some(self.note.as_str()).filter(|text| !text.is_empty())
    }

    /// Whole hundredths, rounded down: 100 says that all is done.
    pub fn percentage(&self) -> u8 {
        let percent = u128::from(self.done) * 100 / u128::from(self.total);
        u8::try_from(percent).unwrap_or(100)
    }

    /// As stores keep it: `version(1)=1 done(8) total(8) note`, where numbers are big-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend(self.done.to_be_bytes());
        bytes.extend(self.total.to_be_bytes());
        bytes.extend(self.note.as_bytes());
        bytes
    }

    /// From what a store kept; `None` where nothing was said, or a newer version of hapax said it.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let ([VERSION], bytes) = bytes.split_first_chunk()? else { return None };
        let (done, bytes) = bytes.split_first_chunk()?;
        let (total, note) = bytes.split_first_chunk()?;
        let note = str::from_utf8(note).ok()?;
        Some(Self::of(u64::from_be_bytes(*done), u64::from_be_bytes(*total)).note(note))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_done_than_there_is() {
        assert_eq!(Progress::of(5, 3).percentage(), 100);
        assert_eq!((Progress::of(0, 0).percentage(), Progress::of(0, 0).total()), (0, 1));
        assert_eq!(Progress::of(999, 1000).percentage(), 99);
        assert_eq!(Progress::of(u64::MAX, u64::MAX).percentage(), 100);
        assert_eq!(Progress::percent(200), Progress::percent(100));
    }

    #[test]
    fn it_comes_back_as_it_was_said() {
        let said = Progress::of(3, 10).note("ü".repeat(MAX_NOTE));
        assert_eq!(said.text().map(str::len), Some(MAX_NOTE));
        assert_eq!(Progress::read(&said.to_bytes()), Some(said.clone()));
        for cut in 0..17 {
            assert_eq!(Progress::read(&said.to_bytes()[..cut]), None, "{cut} bytes");
        }
        assert_eq!(Progress::read(&[&[2], &said.to_bytes()[1..]].concat()), None);
    }
}
