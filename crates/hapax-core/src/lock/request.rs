//! What a store of locks is asked, and what it answers.

use crate::{Key, Name, Namespace, Span, Timestamp, Token};
use std::{fmt, sync::Arc, time::Duration};

/// The number of a grant: above all numbers that were given under the same name before, whoever held it and whatever
/// the store has forgotten. A resource that remembers the largest one it has seen can refuse a holder whose lease has
/// passed.
///
/// It is the larger of the last fence + 1 and the store's time in microseconds, so it grows on even when its counter is
/// lost, as long as the clock has not gone back by more than that took. Below 2^53: every language can hold it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Fence(u64);

impl Fence {
    /// The largest.
    pub const MAX: Self = Self((1 << 53) - 1);
    /// The largest that a lock may be told to begin after: 2^53 − 2^40, so that a trillion larger ones are left.
    pub const MAX_SEED: Self = Self((1 << 53) - (1 << 40));

    /// 1 to 2^53 − 1.
    pub const fn new(number: u64) -> Result<Self, InvalidFence> {
        if number >= 1 && number <= Self::MAX.0 { Ok(Self(number)) } else { Err(InvalidFence { number }) }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The fence of a grant at `now`, after `last`.
    #[must_use]
    pub fn next(last: Option<Self>, now: Timestamp) -> Self {
        let micros = u64::try_from(now.as_millis()).unwrap_or_default().saturating_mul(1000);
        let above = last.map_or(1, |last| last.0.saturating_add(1));
        Self(above.max(micros).min(Self::MAX.0))
    }

    /// The time at which the clock has passed it.
    pub fn as_time(self) -> Timestamp {
        Timestamp::from_millis(i64::try_from(self.0 / 1000).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number is no [`Fence`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a fence is a number from 1 to 9007199254740991, not {number}")]
#[non_exhaustive]
pub struct InvalidFence {
    /// What was given.
    pub number: u64,
}

/// What a holder says of itself, for whoever looks at the lock: `worker-3:4711`. At most 200 bytes; nothing depends on
/// it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Holder(Option<Arc<str>>);

impl Holder {
    /// The longest.
    pub const MAX: usize = 200;

    /// A longer text is cut to what fits.
    pub fn new(text: &str) -> Self {
        let mut end = text.len().min(Self::MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = text.get(..end).unwrap_or_default();
        Self((!text.is_empty()).then(|| Arc::from(text)))
    }

    /// Its text; empty when it says nothing.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

/// Asks for a lock.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// Which one.
    pub name: Name,
    /// Of this call. Made once, outside any resend, and never used again after its release was sent.
    pub token: Token,
    /// For how long, unless it is renewed.
    pub lease: Span,
    /// Who asks.
    pub holder: Holder,
}

/// What a holder has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The number of this grant.
    pub fence: Fence,
    /// When the lease ends, on the store's clock.
    pub until: Timestamp,
}

/// Answer to [`Acquire`].
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acquired {
    /// The lock is the caller's.
    Yours(Grant),
    /// Another token holds it.
    Busy {
        /// The rest of its lease: at least 1 ms.
        rest: Duration,
    },
}

/// What came of a write that compares [fences](Fence).
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guarded {
    /// It was carried out: no holder with this fence, or a larger one, had written before.
    Applied,
    /// The same holder had written before; it was not carried out again.
    Repeat,
    /// A newer holder has written; it was not carried out.
    Stale,
}

/// Who holds a lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HolderInfo {
    /// What it says of itself.
    pub holder: Holder,
    /// The fence of its grant.
    pub fence: Fence,
    /// Since when, on the store's clock.
    pub since: Timestamp,
    /// When its lease ends, on the store's clock.
    pub until: Timestamp,
}

/// A lock as anybody may see it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LockInfo {
    /// Who holds it; nobody.
    pub held: Option<HolderInfo>,
    /// The last fence given, as far as the store remembers.
    pub fence: Option<Fence>,
}

/// Asks for a page of the locks that are held.
#[derive(Clone, Debug)]
pub struct ListLocks {
    /// Of this namespace.
    pub namespace: Namespace,
    /// Whose key starts so.
    pub prefix: String,
    /// After this one: the last of the page before.
    pub after: Option<Key>,
    /// At most so many.
    pub limit: usize,
}

impl ListLocks {
    /// The first hundred of a namespace.
    pub fn new(namespace: Namespace) -> Self {
        Self { namespace, prefix: String::new(), after: None, limit: 100 }
    }
}

/// Answer to [`ListLocks`].
#[derive(Clone, Debug, Default)]
pub struct LockPage {
    /// In the order of their keys.
    pub locks: Vec<(Name, HolderInfo)>,
    /// Whether there may be more.
    pub more: bool,
}
