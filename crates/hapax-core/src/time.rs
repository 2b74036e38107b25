//! Instants and durations, in whole milliseconds. Sums saturate; nothing overflows.

use std::{fmt, time::Duration};

/// Wall-clock time: milliseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From milliseconds since 1970-01-01 UTC.
    pub const fn from_millis(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since 1970-01-01 UTC.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The instant `by` later.
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How much later than `earlier` this is; zero when it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// A reading of the clock that counts from the start of the machine, suspended time included. Leases are measured with
/// it: nobody can set it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct BootTime(u64);

impl BootTime {
    /// From milliseconds since the machine started.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the machine started.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The reading `by` later.
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX)))
    }

    /// The reading `by` earlier.
    #[must_use]
    pub fn before(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(by.as_millis()).unwrap_or(u64::MAX)))
    }

    /// How much later than `earlier` this is; zero when it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// One moment on both clocks. Leases are compared on `boot`, everything long on `wall`. A store whose server has one
/// clock gives both readings from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Wall-clock time.
    pub wall: Timestamp,
    /// The clock of leases.
    pub boot: BootTime,
}

impl Now {
    /// When, on the wall clock, a lease that ends at `until` is over.
    pub fn wall_of(&self, until: BootTime) -> Timestamp {
        self.wall.after(until.since(self.boot))
    }
}

/// A duration that a store accepts: 1 ms to 400 days, in whole milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Span {
    /// The shortest.
    pub const MIN: Self = Self(1);
    /// The longest: 400 days.
    pub const MAX: Self = Self(400 * 24 * 60 * 60 * 1000);

    /// A part of a millisecond counts as a whole one.
    pub fn new(duration: Duration) -> Result<Self, InvalidDuration> {
        let whole = duration.as_nanos().div_ceil(1_000_000);
        match u64::try_from(whole) {
            Ok(ms) if (Self::MIN.0..=Self::MAX.0).contains(&ms) => Ok(Self(ms)),
            _ => Err(InvalidDuration { duration }),
        }
    }

    /// As `Duration`.
    pub const fn get(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// In milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl TryFrom<Duration> for Span {
    type Error = InvalidDuration;

    fn try_from(duration: Duration) -> Result<Self, InvalidDuration> {
        Self::new(duration)
    }
}

/// The duration is zero or beyond 400 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a duration is from 1 ms to 400 days, not {duration:?}")]
#[non_exhaustive]
pub struct InvalidDuration {
    /// What was given.
    pub duration: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_whole_milliseconds_within_bounds() {
        assert_eq!(Span::new(Duration::from_nanos(1)).unwrap(), Span::MIN);
        assert_eq!(Span::new(Duration::from_micros(1_500)).unwrap().as_millis(), 2);
        assert_eq!(Span::new(Duration::from_hours(400 * 24)).unwrap(), Span::MAX);
        assert!(Span::new(Duration::ZERO).is_err());
        assert!(Span::new(Span::MAX.get() + Duration::from_nanos(1)).is_err());
        assert!(Span::new(Duration::MAX).is_err());
    }

    #[test]
    fn sums_saturate() {
        assert_eq!(Timestamp::from_millis(i64::MAX - 1).after(Duration::MAX).as_millis(), i64::MAX);
        assert_eq!(BootTime::from_millis(u64::MAX - 1).after(Duration::MAX).as_millis(), u64::MAX);
        assert_eq!(Timestamp::from_millis(5).since(Timestamp::from_millis(9)), Duration::ZERO);
        assert_eq!(BootTime::from_millis(5).before(Duration::from_secs(1)).as_millis(), 0);
    }
}
