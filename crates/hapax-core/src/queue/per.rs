//! A rate for each value of a field: each tenant, each recipient.

use crate::Span;
use std::time::Duration;

/// The most bytes of a pointer.
const LONGEST: usize = 512;

/// Why a rate for each value cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPerRate {
    /// More than 512 bytes.
    #[error("a JSON pointer has {LONGEST} bytes at most")]
    Long,
    /// Not of the form of RFC 6901.
    #[error("`{0}` is no JSON pointer: write it as /tenant, with ~0 for ~ and ~1 for / in a name")]
    NoPointer(String),
    /// No job could ever start.
    #[error("a rate is 1 at least: a pause of the queue holds everything back")]
    Zero,
}

/// So many jobs of a group start within a time, for each value that their payloads have in one place: a bucket for each.
///
/// Stores keep it, and hand out jobs as if it were not there: a worker that takes a job whose value has had its share puts it
/// off until its turn.
///
/// ```
/// use hapax_core::{Span, queue::PerRate};
/// use std::time::Duration;
///
/// let second = Span::new(Duration::from_secs(1))?;
/// let per = PerRate::new("/tenant", 50, second)?;
/// assert_eq!((per.pointer(), per.count(), per.window()), ("/tenant", 50, second));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PerRate {
    pointer: String,
    count: u32,
    window: Span,
}

impl PerRate {
    /// Of a JSON pointer (RFC 6901), 512 bytes at most: `/tenant`, or `/to/0`.
    ///
    /// # Errors
    /// It is no pointer, or the count is 0.
    pub fn new(pointer: &str, count: u32, window: Span) -> Result<Self, InvalidPerRate> {
        let is_escaped = pointer.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
        if pointer.len() > LONGEST {
            return Err(InvalidPerRate::Long);
        }
        if !pointer.starts_with('/') || !is_escaped {
            return Err(InvalidPerRate::NoPointer(pointer.into()));
        }
        if count == 0 {
            return Err(InvalidPerRate::Zero);
        }
        Ok(Self { pointer: pointer.into(), count, window })
    }

    /// Where the value is.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// How many start within the window.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Within what time.
    pub fn window(&self) -> Span {
        self.window
    }

    /// How long one takes in the bucket.
    pub fn each(&self) -> Duration {
        self.window.get() / self.count
    }

    /// As stores keep it: `count/milliseconds pointer`.
    pub fn to_text(&self) -> String {
        format!("{}/{} {}", self.count, self.window.as_millis(), self.pointer)
    }

    /// From what a store kept; `None` where a newer version of hapax wrote it.
    pub fn read(text: &str) -> Option<Self> {
        let (rate, pointer) = text.split_once(' ')?;
        let (count, window) = rate.split_once('/')?;
        let window = Span::new(Duration::from_millis(window.parse().ok()?)).ok()?;
        Self::new(pointer, count.parse().ok()?, window).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second() -> Span {
        Span::new(Duration::from_secs(1)).unwrap()
    }

    #[test]
    fn it_comes_back_as_it_was_kept() {
        for pointer in ["/tenant", "/a b/0", "/~0~1", "/", "/ü"] {
            let per = PerRate::new(pointer, 3, second()).unwrap();
            assert_eq!(PerRate::read(&per.to_text()), Some(per), "{pointer}");
        }
        for text in ["", "3/1000", "0/1000 /a", "3/0 /a", "3/1000 a", "x/1 /a"] {
            assert_eq!(PerRate::read(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_pointer_is_refused() {
        for pointer in ["", "tenant", "$.tenant", "/a~", "/a~2b", &format!("/{}", "a".repeat(LONGEST))] {
            assert!(PerRate::new(pointer, 1, second()).is_err(), "{pointer}");
        }
        assert!(PerRate::new("/a", 0, second()).is_err());
    }
}
