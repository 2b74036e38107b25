//! How much is allowed in which time, checked when it is built.

use std::{fmt, str::FromStr, time::Duration};

/// The largest limit.
const MAX_LIMIT: u32 = 1 << 31;
/// The longest window: 400 days.
const MAX_WINDOW: u64 = 400 * 24 * 60 * 60 * 1000;
/// The largest limit of a window that remembers every request.
const MAX_EXACT: u32 = 10_000;
/// Limit times milliseconds, where an algorithm multiplies them: exact in every language, and in every store.
const MAX_PRODUCT: u64 = 1 << 53;

/// How requests are counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Algorithm {
    /// A window that starts with its first request. The cheapest; two windows side by side may let nearly twice the
    /// limit through.
    FixedWindow,
    /// Every request is remembered for one window: never more than the limit in any window. For limits up to 10,000.
    SlidingWindow,
    /// Two counts, of this window and of the one before, which weighs less the older it gets.
    SlidingCounter,
    /// Tokens that come in evenly; a full bucket holds the limit.
    TokenBucket,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::FixedWindow, Self::SlidingWindow, Self::SlidingCounter, Self::TokenBucket];

    /// The word used in JSON and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FixedWindow => "fixed-window",
            Self::SlidingWindow => "sliding-window",
            Self::SlidingCounter => "sliding-counter",
            Self::TokenBucket => "token-bucket",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no [`Algorithm`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an algorithm is `fixed-window`, `sliding-window`, `sliding-counter` or `token-bucket`")]
#[non_exhaustive]
pub struct InvalidAlgorithm;

impl FromStr for Algorithm {
    type Err = InvalidAlgorithm;

    fn from_str(text: &str) -> Result<Self, InvalidAlgorithm> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == text).ok_or(InvalidAlgorithm)
    }
}

/// How exact a limit is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Bound {
    /// Never more than the limit in any window.
    Exact,
    /// Never more than so many in any window; never more than the limit on average.
    AtMost(u64),
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => f.write_str("exact"),
            Self::AtMost(most) => write!(f, "at most {most} in any window"),
        }
    }
}

/// A limit, its window and the way of counting. A `const` of it that cannot be does not compile:
///
/// ```compile_fail
/// # use hapax_core::limit::Quota;
/// const NONE: Quota = Quota::fixed_window(0, std::time::Duration::from_secs(1));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Quota {
    algorithm: Algorithm,
    limit: u32,
    window: u64,
}

impl Quota {
    /// `limit` requests in a window that starts with the first of them.
    ///
    /// # Panics
    /// As [`new`](Self::new) fails. In a `const` the compiler says so.
    pub const fn fixed_window(limit: u32, window: Duration) -> Self {
        Self::valid(Algorithm::FixedWindow, limit, window)
    }

    /// Never more than `limit` requests, of 10,000 at most, in any window.
    ///
    /// # Panics
    /// As [`new`](Self::new) fails. In a `const` the compiler says so.
    pub const fn sliding_window(limit: u32, window: Duration) -> Self {
        Self::valid(Algorithm::SlidingWindow, limit, window)
    }

    /// `limit` requests in a window, by the counts of two windows.
    ///
    /// # Panics
    /// As [`new`](Self::new) fails. In a `const` the compiler says so.
    pub const fn sliding_counter(limit: u32, window: Duration) -> Self {
        Self::valid(Algorithm::SlidingCounter, limit, window)
    }

    /// `limit` tokens that come back evenly within a window.
    ///
    /// # Panics
    /// As [`new`](Self::new) fails. In a `const` the compiler says so.
    pub const fn token_bucket(limit: u32, window: Duration) -> Self {
        Self::valid(Algorithm::TokenBucket, limit, window)
    }

    #[expect(
        clippy::panic,
        reason = "in a constant this is how the compiler is told; `new` is for other values"
    )]
    const fn valid(algorithm: Algorithm, limit: u32, window: Duration) -> Self {
        match Self::new(algorithm, limit, window) {
            Ok(quota) => quota,
            Err(error) => panic!("{}", error.reason()),
        }
    }

    /// For values that are not known when the program is compiled.
    ///
    /// # Errors
    /// The limit is not within 1 to 2^31, or above 10,000 for the exact window; the window is not 1 ms to 400 days in
    /// whole milliseconds; or the two together are too large for a counter or a bucket.
    pub const fn new(algorithm: Algorithm, limit: u32, window: Duration) -> Result<Self, InvalidQuota> {
        let ms = window.as_millis();
        if limit == 0 || limit > MAX_LIMIT {
            return Err(InvalidQuota::Limit);
        }
        if !window.subsec_nanos().is_multiple_of(1_000_000) {
            return Err(InvalidQuota::PartOfMillisecond);
        }
        if ms == 0 || ms > MAX_WINDOW as u128 {
            return Err(InvalidQuota::Window);
        }
        #[expect(clippy::cast_possible_truncation, reason = "compared right above")]
        let window = ms as u64;
        match algorithm {
            Algorithm::FixedWindow => {}
            Algorithm::SlidingWindow => {
                if limit > MAX_EXACT {
                    return Err(InvalidQuota::Exact);
                }
            }
            Algorithm::SlidingCounter | Algorithm::TokenBucket => {
                if (limit as u64).saturating_mul(window) >= MAX_PRODUCT {
                    return Err(InvalidQuota::Product);
                }
            }
        }
        Ok(Self { algorithm, limit, window })
    }

    /// The way of counting.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// How much is allowed in a window.
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// The window.
    pub const fn window(&self) -> Duration {
        Duration::from_millis(self.window)
    }

    /// The window in milliseconds.
    pub const fn window_ms(&self) -> u64 {
        self.window
    }

    /// How much may pass in the worst window.
    pub const fn bound(&self) -> Bound {
        match self.algorithm {
            Algorithm::SlidingWindow => Bound::Exact,
            // One is let through at a time, a window apart.
            Algorithm::TokenBucket | Algorithm::FixedWindow | Algorithm::SlidingCounter
                if self.limit == 1 =>
            {
                Bound::Exact
            }
            _ => Bound::AtMost(2 * self.limit as u64 - 1),
        }
    }

    /// The same with another limit: the share of one of several processes, say.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub const fn with_limit(&self, limit: u32) -> Result<Self, InvalidQuota> {
        Self::new(self.algorithm, limit, self.window())
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {:?} ({})", self.limit, self.window(), self.algorithm)
    }
}

/// There is no such [`Quota`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.reason())]
#[non_exhaustive]
pub enum InvalidQuota {
    /// Zero, or above 2^31.
    Limit,
    /// Zero, or above 400 days.
    Window,
    /// Not whole milliseconds.
    PartOfMillisecond,
    /// Too many to remember each.
    Exact,
    /// Limit times window is 2^53 or more.
    Product,
}

impl InvalidQuota {
    /// Which part, and the way out.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Limit => "a limit is from 1 to 2147483648",
            Self::Window => "a window is from 1 ms to 400 days",
            Self::PartOfMillisecond => "a window is in whole milliseconds",
            Self::Exact => {
                "a sliding window remembers every request, 10000 at most: use a sliding counter for larger limits"
            }
            Self::Product => {
                "limit times window in ms is 2^53 or more: use a shorter window with a smaller limit, or a fixed window"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    #[test]
    fn quotas_have_bounds_that_say_the_way_out() {
        let new = Quota::new;
        assert_eq!(new(Algorithm::FixedWindow, 0, DAY), Err(InvalidQuota::Limit));
        assert_eq!(new(Algorithm::FixedWindow, MAX_LIMIT + 1, DAY), Err(InvalidQuota::Limit));
        assert!(new(Algorithm::FixedWindow, MAX_LIMIT, 400 * DAY).is_ok());
        assert_eq!(new(Algorithm::FixedWindow, 1, 401 * DAY), Err(InvalidQuota::Window));
        assert_eq!(new(Algorithm::FixedWindow, 1, Duration::ZERO), Err(InvalidQuota::Window));
        assert_eq!(new(Algorithm::FixedWindow, 1, Duration::MAX), Err(InvalidQuota::PartOfMillisecond));
        assert_eq!(
            new(Algorithm::FixedWindow, 1, Duration::from_micros(1500)),
            Err(InvalidQuota::PartOfMillisecond)
        );
        assert!(new(Algorithm::SlidingWindow, 10_000, DAY).is_ok());
        let error = new(Algorithm::SlidingWindow, 10_001, DAY).unwrap_err();
        assert!(error.to_string().contains("sliding counter"), "{error}");
        assert!(new(Algorithm::TokenBucket, 104_000_000, DAY).is_ok());
        assert_eq!(new(Algorithm::TokenBucket, 105_000_000, DAY), Err(InvalidQuota::Product));
        assert_eq!(new(Algorithm::SlidingCounter, 105_000_000, DAY), Err(InvalidQuota::Product));
        assert_eq!(new(Algorithm::TokenBucket, MAX_LIMIT, 400 * DAY), Err(InvalidQuota::Product));
    }

    #[test]
    fn algorithms_have_words() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.as_str().parse(), Ok(algorithm));
        }
        assert_eq!("leaky".parse::<Algorithm>(), Err(InvalidAlgorithm));
        let quota = Quota::sliding_window(5, Duration::from_mins(1));
        assert_eq!(quota.to_string(), "5 in 60s (sliding-window)");
        assert_eq!(quota.bound().to_string(), "exact");
        assert_eq!(Quota::token_bucket(5, DAY).bound(), Bound::AtMost(9));
    }
}
