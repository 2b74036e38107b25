//! Why a lock was not had, or not kept.

use crate::Loss;
use hapax_core::{Category, CodeInfo, Coded, Retry, StoreError, lock::Fence};
use std::{fmt, time::Duration};

/// Why a lock was not had, or not kept. `R` is what the work under the lock gives.
#[non_exhaustive]
pub enum LockError<R = ()> {
    /// Another holds it.
    #[non_exhaustive]
    Busy {
        /// The rest of its lease. It may end earlier, or be renewed.
        retry_after: Duration,
    },
    /// It was lost before its release: another may have held it meanwhile.
    #[non_exhaustive]
    Lost {
        /// What the work gave all the same; none where it was dropped, or where there is none.
        value: Option<R>,
        /// The fence of the grant that was lost.
        fence: Fence,
        /// Why.
        cause: Loss,
    },
    /// The name or a duration cannot be used.
    #[non_exhaustive]
    Invalid {
        /// Which, and why.
        what: String,
    },
    /// The store could not give it. The work has not begun.
    #[non_exhaustive]
    StoreFailed {
        /// Why.
        source: StoreError,
    },
}

/// The codes of locks, that of the warning included.
pub const CODES: &[CodeInfo] = &[
    CodeInfo::new(
        "lock.busy",
        "conflict",
        true,
        "another holds the lock",
        "try again after `retry_after`, or ask to wait",
    ),
    CodeInfo::new(
        "lock.lost",
        "unknown",
        false,
        "the lock was lost before its release; the work may have run beside another holder's",
        "look at what it did, and compare fences where it writes",
    ),
    CodeInfo::new(
        "lock.invalid",
        "validation",
        false,
        "the name or a duration cannot be used",
        "the message names it",
    ),
    CodeInfo::new(
        "lock.store_failed",
        "unavailable",
        true,
        "the store could not give the lock; the work did not begin",
        "bring the store back and try again",
    ),
];

impl<R> LockError<R> {
    pub(super) fn invalid(what: impl fmt::Display) -> Self {
        Self::Invalid { what: what.to_string() }
    }

    /// For layers whose own step to the store failed.
    pub fn store_failed(source: StoreError) -> Self {
        Self::StoreFailed { source }
    }

    /// The same without the value.
    pub(super) fn with_value<S>(self, value: Option<S>) -> LockError<S> {
        match self {
            Self::Busy { retry_after } => LockError::Busy { retry_after },
            Self::Lost { fence, cause, .. } => LockError::Lost { value, fence, cause },
            Self::Invalid { what } => LockError::Invalid { what },
            Self::StoreFailed { source } => LockError::StoreFailed { source },
        }
    }
}

// By hand: the value need not be shown for the error to be one.
impl<R> fmt::Debug for LockError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy { retry_after } => f.debug_struct("Busy").field("retry_after", retry_after).finish(),
            Self::Lost { value, fence, cause } => f
                .debug_struct("Lost")
                .field("value", &value.as_ref().map(|_| ".."))
                .field("fence", fence)
                .field("cause", cause)
                .finish(),
            Self::Invalid { what } => f.debug_struct("Invalid").field("what", what).finish(),
            Self::StoreFailed { source } => f.debug_struct("StoreFailed").field("source", source).finish(),
        }
    }
}

impl<R> fmt::Display for LockError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy { retry_after } => write!(f, "another holds the lock for up to {retry_after:?}"),
            Self::Lost { fence, cause: Loss::Expired, .. } => {
                write!(f, "the lock with fence {fence} was lost: it could not be renewed in time")
            }
            Self::Lost { fence, .. } => {
                write!(
                    f,
                    "the lock with fence {fence} was lost: the store says that it is another's, or free"
                )
            }
            Self::Invalid { what } => f.write_str(what),
            Self::StoreFailed { .. } => f.write_str("the lock's store failed"),
        }
    }
}

impl<R> std::error::Error for LockError<R> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::StoreFailed { source } => Some(source),
            _ => None,
        }
    }
}

impl<R> Coded for LockError<R> {
    fn code(&self) -> &'static str {
        match self {
            Self::Busy { .. } => "lock.busy",
            Self::Lost { .. } => "lock.lost",
            Self::Invalid { .. } => "lock.invalid",
            Self::StoreFailed { .. } => "lock.store_failed",
        }
    }

    fn category(&self) -> Category {
        match self {
            Self::Busy { .. } => Category::Conflict,
            Self::Lost { .. } => Category::Unknown,
            Self::Invalid { .. } => Category::Validation,
            Self::StoreFailed { .. } => Category::Unavailable,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Busy { retry_after } => Retry::After(*retry_after),
            Self::Lost { .. } | Self::Invalid { .. } => Retry::Never,
            // The work has not begun, whatever became of the grant.
            Self::StoreFailed { source } => match source.retry() {
                Retry::OnlyWithSameKey => Retry::Now,
                other => other,
            },
        }
    }
}
