//! What a call answers, and what is kept under a key.

use crate::Loss;
use hapax_core::{
    Fingerprint, Timestamp, Version,
    idempotency::{Kind, Receipt, Record, RecordState},
};

/// Answer of a resolver.
#[derive(Debug)]
pub enum Verdict<T> {
    /// It happened, with this result.
    Happened(T),
    /// It did not: the effect runs now.
    DidNot,
    /// Nobody knows: the outcome stays unknown.
    CantTell,
}

/// A value and where it comes from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Answer<T> {
    /// The effect's result.
    pub value: T,
    /// Of which earlier run, when it is not of this one.
    pub replay: Option<Replay>,
    /// Whether and why the lease was lost while the effect ran. The result is kept all the same.
    pub lost: Option<Loss>,
}

impl<T> Answer<T> {
    pub(crate) fn new(value: T, replay: Option<Replay>) -> Self {
        Self { value, replay, lost: None }
    }
}

/// When the result of an earlier run was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replay {
    /// When the key was first reserved.
    pub first_at: Timestamp,
    /// When the effect ended.
    pub completed_at: Timestamp,
    /// Until when the result answers.
    pub expires_at: Timestamp,
}

impl Replay {
    /// Of a settled record.
    pub fn of(record: &Record) -> Option<Self> {
        match record.state {
            RecordState::Settled { completed_at, .. } => {
                Some(Self { first_at: record.first_at, completed_at, expires_at: record.until })
            }
            _ => None,
        }
    }
}

/// What is kept under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyState {
    /// Nothing: a call runs.
    Vacant,
    /// A call is in flight, or its process died and the lease has not passed.
    #[non_exhaustive]
    Pending {
        /// End of the lease.
        until: Timestamp,
        /// When the key was first reserved.
        first_at: Timestamp,
        /// Of the request.
        fingerprint: Fingerprint,
    },
    /// The effect happened.
    #[non_exhaustive]
    Done {
        /// Its result, encoded.
        receipt: Receipt,
        /// Until when it answers.
        until: Timestamp,
        /// When the key was first reserved.
        first_at: Timestamp,
        /// Of the request.
        fingerprint: Fingerprint,
        /// For [`Resolve::version`](crate::Resolve::version).
        version: Version,
    },
    /// The effect may have happened.
    #[non_exhaustive]
    Unknown {
        /// What is known, encoded.
        receipt: Receipt,
        /// Until when the key is held.
        until: Timestamp,
        /// When the key was first reserved.
        first_at: Timestamp,
        /// Of the request.
        fingerprint: Fingerprint,
        /// For [`Resolve::version`](crate::Resolve::version).
        version: Version,
    },
    /// Written by a newer version of hapax: held, never run.
    Unreadable,
}

impl From<Option<Record>> for KeyState {
    fn from(record: Option<Record>) -> Self {
        let Some(record) = record else { return Self::Vacant };
        let version = record.version();
        let Record { fingerprint, first_at, until, state, .. } = record;
        match state {
            RecordState::Pending => Self::Pending { until, first_at, fingerprint },
            RecordState::Settled { kind: Kind::Done, receipt, .. } => {
                Self::Done { receipt, until, first_at, fingerprint, version }
            }
            RecordState::Settled { kind: Kind::Unknown, receipt, .. } => {
                Self::Unknown { receipt, until, first_at, fingerprint, version }
            }
            _ => Self::Unreadable,
        }
    }
}
