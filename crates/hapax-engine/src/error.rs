//! hapax's own answers to a call under a key.

use crate::{Class, Classify};
use hapax_core::{BoxError, Category, CodeInfo, Coded, Retry, StoreError, Timestamp};
use std::time::Duration;

/// hapax's own answers. A certain failure of the effect is never here: it is the inner `Err`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdempotencyError {
    /// A call under this key has not ended.
    #[error("a call under this key is still in flight")]
    #[non_exhaustive]
    InFlight {
        /// The rest of its lease.
        retry_after: Duration,
    },
    /// The key holds the record of a request with another fingerprint.
    #[error("the key was used for a different request")]
    #[non_exhaustive]
    KeyReused {},
    /// The effect may have happened.
    #[error("the effect may have happened; its outcome is unknown")]
    #[non_exhaustive]
    Unknown {
        /// When it ended so.
        since: Timestamp,
        /// Whether an earlier call ended so.
        replayed: bool,
        /// What the effect, or the abort, said.
        source: Option<BoxError>,
    },
    /// The effect happened; its result cannot be given back.
    #[error("the result is kept but cannot be read")]
    #[non_exhaustive]
    Unreadable {
        /// Why.
        source: BoxError,
    },
    /// The key, the fingerprint or a duration cannot be used.
    #[error("the call is not valid")]
    #[non_exhaustive]
    Invalid {
        /// Why.
        source: BoxError,
    },
    /// The store could not reserve the key.
    #[error("the idempotency store failed; the effect did not run")]
    #[non_exhaustive]
    StoreFailed {
        /// Why.
        source: StoreError,
    },
    /// The record is not the unknown one that a verdict was meant for.
    #[error("the record has changed meanwhile; nothing was written")]
    #[non_exhaustive]
    Changed {},
    /// An equal item of the same batch failed; this copy was not run.
    #[error("an equal item of the batch failed; this one was not run")]
    #[non_exhaustive]
    CopyFailed {},
}

/// The codes of idempotency, those of warnings included.
pub const CODES: &[CodeInfo] = &[
    CodeInfo::new(
        "idempotency.in_flight",
        "conflict",
        true,
        "a call under this key has not ended",
        "try again after `retry_after`, or ask to wait",
    ),
    CodeInfo::new(
        "idempotency.key_reused",
        "validation",
        false,
        "the key holds the record of a different request",
        "use a key of its own for each request",
    ),
    CodeInfo::new(
        "idempotency.unknown",
        "unknown",
        false,
        "the effect may have happened",
        "find out, then `hapax keys resolve`, or attach a resolver",
    ),
    CodeInfo::new(
        "idempotency.aborted",
        "unknown",
        false,
        "the call was dropped or panicked after its effect began",
        "as idempotency.unknown",
    ),
    CodeInfo::new(
        "idempotency.timed_out",
        "unknown",
        false,
        "the effect did not end within its time-out",
        "as idempotency.unknown",
    ),
    CodeInfo::new(
        "idempotency.unreadable",
        "unknown",
        false,
        "the effect happened and its kept result cannot be read",
        "read it with the version or codec that wrote it; it is never run again",
    ),
    CodeInfo::new(
        "idempotency.invalid",
        "validation",
        false,
        "the key, the fingerprint or a duration cannot be used",
        "the message names the part",
    ),
    CodeInfo::new(
        "idempotency.store_failed",
        "unavailable",
        true,
        "the store could not reserve the key; the effect did not run",
        "bring the store back and try again under the same key",
    ),
    CodeInfo::new(
        "idempotency.changed",
        "conflict",
        false,
        "the record is not the one that the verdict was meant for",
        "read it again with `hapax keys get`",
    ),
    CodeInfo::new(
        "idempotency.copy_failed",
        "conflict",
        true,
        "an equal item of the same batch failed; this one was not run",
        "run it again under the same key",
    ),
    CodeInfo::new(
        "idempotency.fenced",
        "conflict",
        false,
        "the lease was lost before it could be extended",
        "nothing: a newer owner holds the key",
    ),
    CodeInfo::new(
        "idempotency.lease_lost",
        "unknown",
        false,
        "the lease was lost while the effect ran",
        "the result is kept all the same; look for a duplicate effect",
    ),
    CodeInfo::new(
        "idempotency.lease_ceiling",
        "unknown",
        false,
        "the effect ran longer than a lease is renewed",
        "split the work, or raise the ceiling",
    ),
    CodeInfo::new(
        "idempotency.complete_failed",
        "unavailable",
        true,
        "the receipt could not be stored yet (warning)",
        "it is retried in the background; keep the process until `close` returns",
    ),
    CodeInfo::new(
        "idempotency.duplicate_effect",
        "unknown",
        false,
        "two effects happened under one key (warning)",
        "a lease was shorter than its effect, or was forced: see docs/guarantees.md",
    ),
    CodeInfo::new(
        "idempotency.fingerprint_unknown",
        "validation",
        false,
        "the stored fingerprint cannot be compared and counts as equal (warning)",
        "upgrade this process",
    ),
];

impl IdempotencyError {
    /// A call is in flight.
    pub fn is_in_flight(&self) -> bool {
        matches!(self, Self::InFlight { .. })
    }

    /// The effect may have happened.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }

    /// For layers: a call that cannot be used as it is.
    pub fn invalid(source: impl Into<BoxError>) -> Self {
        Self::Invalid { source: source.into() }
    }

    pub(crate) fn in_flight(retry_after: Duration) -> Self {
        Self::InFlight { retry_after }
    }

    /// For layers whose own step to the store failed.
    pub fn store_failed(source: StoreError) -> Self {
        Self::StoreFailed { source }
    }

    pub(crate) fn unreadable(source: impl Into<BoxError>) -> Self {
        Self::Unreadable { source: source.into() }
    }

    pub(crate) fn unknown(since: Timestamp, replayed: bool, source: Option<BoxError>) -> Self {
        Self::Unknown { since, replayed, source }
    }

    pub(crate) fn key_reused() -> Self {
        Self::KeyReused {}
    }
}

impl Coded for IdempotencyError {
    fn code(&self) -> &'static str {
        match self {
            Self::InFlight { .. } => "idempotency.in_flight",
            Self::KeyReused {} => "idempotency.key_reused",
            Self::Unknown { .. } => "idempotency.unknown",
            Self::Unreadable { .. } => "idempotency.unreadable",
            Self::Invalid { .. } => "idempotency.invalid",
            Self::StoreFailed { .. } => "idempotency.store_failed",
            Self::Changed {} => "idempotency.changed",
            Self::CopyFailed {} => "idempotency.copy_failed",
        }
    }

    fn category(&self) -> Category {
        match self {
            Self::InFlight { .. } | Self::Changed {} | Self::CopyFailed {} => Category::Conflict,
            Self::KeyReused {} | Self::Invalid { .. } => Category::Validation,
            Self::Unknown { .. } | Self::Unreadable { .. } => Category::Unknown,
            Self::StoreFailed { .. } => Category::Unavailable,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::InFlight { retry_after } => Retry::After(*retry_after),
            Self::StoreFailed { .. } | Self::CopyFailed {} => Retry::OnlyWithSameKey,
            _ => Retry::Never,
        }
    }
}

/// So that a `run` inside a `run` needs no thought.
impl Classify for IdempotencyError {
    fn class(&self) -> Class {
        match self {
            Self::Unknown { .. } | Self::Unreadable { .. } => Class::Unknown,
            _ => Class::Failed,
        }
    }
}
