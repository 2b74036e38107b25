//! What a store may say when it could not do a step.

use crate::{BoxError, Category, CodeInfo, Coded, Retry};

/// Whether a failed step may have been done all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Certainly not.
    No,
    /// The request may have reached the store.
    Unknown,
}

/// Why a store could not do a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// It cannot be reached, or refuses to work: a full disk, a lost connection.
    Unavailable,
    /// It did not answer within the deadline, or stayed locked that long.
    Timeout,
    /// It refused the credentials or the rights.
    Auth,
    /// The URL, an option or the place of the store is wrong.
    Config,
    /// This store cannot do that.
    Unsupported,
    /// What it holds cannot be read.
    Corrupt,
    /// It was made by a version of hapax that this one cannot work with.
    Version,
    /// It has no room for another key.
    Full,
    /// A fault of hapax itself.
    Internal,
}

/// A store could not do a step.
#[derive(Debug, thiserror::Error)]
#[error("{backend} could not {op}: {reason}")]
pub struct StoreError {
    kind: StoreErrorKind,
    backend: &'static str,
    op: &'static str,
    reason: String,
    applied: Applied,
    source: Option<BoxError>,
}

impl StoreError {
    /// `reason` is one sentence about this layer, without the cause and without keys or secrets; `op` is a verb.
    pub fn new(
        kind: StoreErrorKind,
        backend: &'static str,
        op: &'static str,
        reason: impl Into<String>,
    ) -> Self {
        Self { kind, backend, op, reason: reason.into(), applied: Applied::No, source: None }
    }

    /// The step may have been done.
    #[must_use]
    pub fn maybe_applied(mut self) -> Self {
        self.applied = Applied::Unknown;
        self
    }

    /// The cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Why.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Whether the step may have been done.
    pub fn applied(&self) -> Applied {
        self.applied
    }

    /// Which store.
    pub fn backend(&self) -> &'static str {
        self.backend
    }

    /// Which step.
    pub fn op(&self) -> &'static str {
        self.op
    }

    /// What this layer says of it.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

/// Why a store is refused that a newer hapax has raised to `layout`: one must know the layout `needed` to work with it, and
/// this one knows `known`.
pub fn needs_newer(place: &str, layout: i64, needed: i64, known: i64) -> String {
    format!(
        "{place} has layout {layout} and takes a hapax that knows layout {needed}; this is hapax {}, which knows layout \
         {known}: run a newer hapax",
        env!("CARGO_PKG_VERSION")
    )
}

/// The answer of a store.
pub type StoreResult<T> = Result<T, StoreError>;

/// The codes of [`StoreError`].
pub const STORE_CODES: &[CodeInfo] = &[
    CodeInfo::new(
        "store.unavailable",
        "unavailable",
        true,
        "the store cannot be reached or refuses to work",
        "bring the store back, then run the same command again",
    ),
    CodeInfo::new(
        "store.timeout",
        "unavailable",
        true,
        "the store did not answer in time, or stayed locked",
        "try again; `?timeout=` in the URL raises the limit",
    ),
    CodeInfo::new(
        "store.auth",
        "unavailable",
        false,
        "the store refused the credentials or the rights",
        "on a server check user, password and rights; of a file, its permissions",
    ),
    CodeInfo::new(
        "store.config",
        "validation",
        false,
        "the URL, an option or the place of the store is wrong",
        "the message names the part; `hapax help stores` lists the forms of a URL and their options",
    ),
    CodeInfo::new(
        "store.unsupported",
        "validation",
        false,
        "this store cannot do that",
        "choose another store by its URL",
    ),
    CodeInfo::new(
        "store.corrupt",
        "unavailable",
        false,
        "what the store holds cannot be read",
        "restore it from a backup; nothing was written",
    ),
    CodeInfo::new(
        "store.version",
        "unavailable",
        false,
        "the store was made by a version that this one cannot work with",
        "run a hapax of the version that the message asks for",
    ),
    CodeInfo::new(
        "store.full",
        "unavailable",
        true,
        "the store has no room for another key",
        "raise its bound, or let keys end",
    ),
    CodeInfo::new(
        "store.internal",
        "internal",
        false,
        "a fault of hapax itself",
        "report it with the output of the command",
    ),
];

impl Coded for StoreError {
    fn code(&self) -> &'static str {
        match self.kind {
            StoreErrorKind::Unavailable => "store.unavailable",
            StoreErrorKind::Timeout => "store.timeout",
            StoreErrorKind::Auth => "store.auth",
            StoreErrorKind::Config => "store.config",
            StoreErrorKind::Unsupported => "store.unsupported",
            StoreErrorKind::Corrupt => "store.corrupt",
            StoreErrorKind::Version => "store.version",
            StoreErrorKind::Full => "store.full",
            StoreErrorKind::Internal => "store.internal",
        }
    }

    fn category(&self) -> Category {
        match self.kind {
            StoreErrorKind::Config | StoreErrorKind::Unsupported => Category::Validation,
            StoreErrorKind::Internal => Category::Internal,
            _ if self.applied == Applied::Unknown => Category::Unknown,
            _ => Category::Unavailable,
        }
    }

    fn retry(&self) -> Retry {
        match self.kind {
            StoreErrorKind::Unavailable | StoreErrorKind::Timeout | StoreErrorKind::Full => {
                match self.applied {
                    Applied::No => Retry::Now,
                    Applied::Unknown => Retry::OnlyWithSameKey,
                }
            }
            _ => Retry::Never,
        }
    }
}
