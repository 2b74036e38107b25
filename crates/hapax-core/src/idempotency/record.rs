//! What lies under a key: as a store keeps it ([`Entry`]) and as callers see it ([`Record`]).

use crate::{BootTime, Fingerprint, Now, Timestamp, Token, Version};
use bytes::Bytes;
use std::{borrow::Cow, fmt};

/// The name of the codec that results have unless another is asked for.
pub const JSON: &str = "json/1";

/// The kept result of an effect: opaque bytes, and the name of the codec that made them.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// Name and version of the codec. A reader of another codec holds the receipt as unreadable.
    pub codec: Cow<'static, str>,
    /// What it made.
    pub bytes: Bytes,
}

impl Receipt {
    /// A receipt.
    pub fn new(codec: impl Into<Cow<'static, str>>, bytes: impl Into<Bytes>) -> Self {
        Self { codec: codec.into(), bytes: bytes.into() }
    }

    /// As a store reads it. The name of the usual codec is not copied.
    pub fn stored(codec: &str, bytes: impl Into<Bytes>) -> Self {
        Self::new(if codec == JSON { Cow::Borrowed(JSON) } else { Cow::Owned(codec.to_owned()) }, bytes)
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Receipt({}, {} bytes)", self.codec, self.bytes.len())
    }
}

/// What is known of an effect that ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Kind {
    /// It happened; the receipt is its result.
    Done,
    /// It may have happened.
    Unknown,
}

/// A record as a store keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// Reserved.
    Pending(Pending),
    /// Ended.
    Settled(Settled),
    /// Written by a version whose form this one does not know. It is held, never overwritten, never run again.
    Unreadable,
}

/// A reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pending {
    /// Who holds it.
    pub token: Token,
    /// Of the request it was made for.
    pub fingerprint: Fingerprint,
    /// End of the lease.
    pub until: BootTime,
    /// When the first reservation of this life of the record was made.
    pub first_at: Timestamp,
    /// The result of an earlier owner that came after its lease. Becomes the record when this reservation ends
    /// without a result of its own.
    pub late: Option<Box<Settled>>,
}

/// A result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settled {
    /// Whose effect it was.
    pub token: Token,
    /// Of the request it answered.
    pub fingerprint: Fingerprint,
    /// What is known of the effect.
    pub kind: Kind,
    /// Its result.
    pub receipt: Receipt,
    /// When the first reservation was made.
    pub first_at: Timestamp,
    /// When the effect ended.
    pub completed_at: Timestamp,
    /// How long the result answers.
    pub until: Timestamp,
}

/// A record as callers see it: no token, every instant on the wall clock.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Record {
    /// Of the request under which it was written.
    pub fingerprint: Fingerprint,
    /// When the first reservation was made.
    pub first_at: Timestamp,
    /// End of the lease, or of the result's time.
    pub until: Timestamp,
    /// Pending or ended.
    pub state: RecordState,
    /// Whoever wrote it: never shown, and the version is made of it where somebody asks.
    token: Token,
}

/// The state of a [`Record`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RecordState {
    /// A call is in flight, or its process died and the lease has not passed.
    Pending,
    /// The effect ended.
    Settled {
        /// What is known of it.
        kind: Kind,
        /// Its result.
        receipt: Receipt,
        /// When it ended.
        completed_at: Timestamp,
    },
    /// See [`Entry::Unreadable`].
    Unreadable,
}

impl Record {
    /// For stores.
    pub fn of(entry: &Entry, now: &Now) -> Self {
        Self::from_entry(entry.clone(), now)
    }

    /// For stores that have the entry to give away: nothing is copied.
    pub fn from_entry(entry: Entry, now: &Now) -> Self {
        match entry {
            Entry::Pending(p) => Self {
                fingerprint: p.fingerprint,
                first_at: p.first_at,
                until: now.wall_of(p.until),
                token: p.token,
                state: RecordState::Pending,
            },
            Entry::Settled(s) => Self::from_settled(s),
            Entry::Unreadable => Self {
                fingerprint: Fingerprint::ANY,
                first_at: Timestamp::default(),
                until: Timestamp::from_millis(i64::MAX),
                token: Token::from_bytes([0; 16]),
                state: RecordState::Unreadable,
            },
        }
    }

    /// For stores: the record of a result, which needs no clock.
    pub fn from_settled(s: Settled) -> Self {
        let Settled { token, fingerprint, kind, receipt, first_at, completed_at, until } = s;
        Self {
            fingerprint,
            first_at,
            until,
            token,
            state: RecordState::Settled { kind, receipt, completed_at },
        }
    }

    /// For layers: the record that `complete` will make.
    pub fn on_its_way(complete: &super::Complete, first_at: Timestamp, now: &Now) -> Self {
        let settled = Settled {
            token: complete.token,
            fingerprint: complete.fingerprint,
            kind: complete.kind,
            receipt: complete.receipt.clone(),
            first_at,
            completed_at: now.wall,
            until: now.wall.after(complete.ttl.get()),
        };
        Self::from_settled(settled)
    }

    /// Names this state of the record, for a verdict by hand.
    pub fn version(&self) -> Version {
        self.token.version()
    }

    /// Whether a call is in flight.
    pub fn is_pending(&self) -> bool {
        matches!(self.state, RecordState::Pending)
    }

    /// Whether `filter` lets the record through.
    pub fn is(&self, filter: StateFilter) -> bool {
        match &self.state {
            RecordState::Pending => filter == StateFilter::Pending,
            RecordState::Settled { kind: Kind::Done, .. } => filter == StateFilter::Done,
            RecordState::Settled { kind: Kind::Unknown, .. } => filter == StateFilter::Unknown,
            RecordState::Unreadable => false,
        }
    }
}

/// Picks records by state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StateFilter {
    /// In flight.
    Pending,
    /// Ended well.
    Done,
    /// Ended, outcome unknown.
    Unknown,
}
