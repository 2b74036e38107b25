//! Requests and answers of the steps.

use super::{Kind, Receipt, Record, StateFilter};
use crate::{Fingerprint, Key, Name, Namespace, Scope, Span, Timestamp, Token, Version};

/// Asks for a reservation.
#[derive(Clone, Debug)]
pub struct Reserve {
    /// Under this name.
    pub name: Name,
    /// Made once for the logical call.
    pub token: Token,
    /// Of the request.
    pub fingerprint: Fingerprint,
    /// How long the reservation holds unless it is renewed.
    pub lease: Span,
}

/// Answer to [`Reserve`].
#[must_use]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reserved {
    /// The token holds the key.
    Yours {
        /// End of the lease.
        until: Timestamp,
        /// When the first reservation of this life of the record was made.
        first_at: Timestamp,
    },
    /// Something else holds it.
    Held(Record),
}

/// Hands in the outcome of an effect.
#[derive(Clone, Debug)]
pub struct Complete {
    /// Under this name.
    pub name: Name,
    /// Of the reservation under which the effect ran.
    pub token: Token,
    /// Of the request.
    pub fingerprint: Fingerprint,
    /// What is known of the effect.
    pub kind: Kind,
    /// Its result.
    pub receipt: Receipt,
    /// How long it answers.
    pub ttl: Span,
}

/// Answer to [`Complete`].
#[must_use]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Completed {
    /// It is the record.
    Stored,
    /// This token completed before; nothing changed, the time neither.
    AlreadyDone,
    /// Another token holds the key pending; the result is kept beside it.
    StoredLate,
    /// Another token has completed: its record before this call. Two effects happened. A success has taken the place
    /// of an unknown record; otherwise nothing changed.
    Superseded(Record),
}

/// Answer to a write that needs the right token.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Write {
    /// Done.
    Applied,
    /// The token does not hold the key pending; nothing changed.
    Fenced,
}

/// Answer to an extension.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extended {
    /// The lease ends then.
    Until(Timestamp),
    /// The token holds no live lease; nothing was revived.
    Fenced,
}

/// Asks for a key of unknown outcome.
#[derive(Clone, Debug)]
pub struct Retake {
    /// Under this name.
    pub name: Name,
    /// Made once for the logical call.
    pub token: Token,
    /// Of the request.
    pub fingerprint: Fingerprint,
    /// How long the asking may take.
    pub lease: Span,
}

/// Answer to [`Retake`].
#[must_use]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Retaken {
    /// The token holds the key; the unknown record lies beside it.
    Yours {
        /// End of the lease.
        until: Timestamp,
        /// When the first reservation was made.
        first_at: Timestamp,
    },
    /// The outcome is no longer unknown: what is there now.
    Changed(Option<Record>),
}

/// Answer to `drop_unknown`.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dropped {
    /// Nothing lies beside the reservation any more.
    Dropped,
    /// A success lies there: release, and it becomes the record.
    Refused,
    /// The token holds no live lease.
    Fenced,
}

/// A verdict by hand.
#[derive(Clone, Debug)]
pub enum Resolution {
    /// It happened, with this result, which answers for that long.
    Happened {
        /// The result.
        receipt: Receipt,
        /// How long it answers.
        ttl: Span,
    },
    /// It did not: the key is freed.
    DidNot,
    /// Whatever it was, it may happen again: the record that the version names goes, one that cannot be read, too. A
    /// reservation does not, nor does anything where no version is given.
    Forget,
}

/// Settles an unknown outcome, or forgets a record.
#[derive(Clone, Debug)]
pub struct Resolve {
    /// Under this name.
    pub name: Name,
    /// Made once for the logical call.
    pub token: Token,
    /// What the author of the verdict saw; without it, any unknown record.
    pub version: Option<Version>,
    /// The verdict.
    pub resolution: Resolution,
}

/// Answer to [`Resolve`].
#[must_use]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resolved {
    /// The verdict stands.
    Applied,
    /// The record is not the one that was meant: what is there. Nothing was written.
    Changed(Option<Record>),
}

/// Asks for a page of records.
#[derive(Clone, Debug)]
pub struct List {
    /// Of this namespace.
    pub namespace: Namespace,
    /// Of this scope; of all without it.
    pub scope: Option<Scope>,
    /// Whose key starts so.
    pub prefix: String,
    /// In this state.
    pub state: Option<StateFilter>,
    /// After this place: the last of the page before.
    pub after: Option<(Scope, Key)>,
    /// At most so many.
    pub limit: usize,
}

impl List {
    /// The first hundred of a namespace.
    pub fn new(namespace: Namespace) -> Self {
        Self { namespace, scope: None, prefix: String::new(), state: None, after: None, limit: 100 }
    }
}

/// Answer to [`List`].
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// In the order of scope and key.
    pub records: Vec<(Name, Record)>,
    /// Whether there may be more.
    pub more: bool,
}
