//! From what MongoDB and its driver say to what a store says.

use hapax_core::{Applied, StoreError, StoreErrorKind};
use mongodb::error::{Error, ErrorKind, WriteFailure};
use std::{io, sync::Arc, time::Duration};

pub(crate) const BACKEND: &str = "mongodb";

/// What may be done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    None,
    /// The server took nothing of it: it may be sent again.
    Again,
    /// The answer is lost: whoever knows its own token may send it again.
    Resend,
    /// It was refused, perhaps for one statement of many.
    Apart,
}

/// Why something failed, before it is known whose call it was.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: StoreErrorKind,
    pub(crate) remedy: Remedy,
    reason: String,
    applied: Applied,
    /// Never an answer of the server: it may show a key.
    cause: Option<Arc<Error>>,
}

impl Failure {
    pub(crate) fn new(kind: StoreErrorKind, reason: impl Into<String>) -> Self {
        Self { kind, remedy: Remedy::None, reason: reason.into(), applied: Applied::No, cause: None }
    }

    /// No server could be found that answers as one of MongoDB does.
    pub(crate) fn of_connect(place: &str, is_tls: bool, error: Error) -> Self {
        let silent = |io: &io::Error| {
            use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
            matches!(io.kind(), UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe)
        };
        let failure = match error.kind.as_ref() {
            ErrorKind::Io(io) if is_tls && (silent(io) || io.kind() == io::ErrorKind::InvalidData) => {
                Self::new(
                    StoreErrorKind::Config,
                    format!(
                        "{place} did not pass the TLS handshake: its certificate must be of an authority that is trusted \
                     (`tlsCAFile=`) and name the host; without TLS, leave `tls=true` out"
                    ),
                )
            }
            ErrorKind::Io(io) if silent(io) => Self::new(
                StoreErrorKind::Config,
                format!(
                    "{place} closed the connection without a word: where it expects TLS, write `tls=true`; otherwise \
                     another program listens there"
                ),
            ),
            ErrorKind::Io(_) | ErrorKind::ConnectionPoolCleared { .. } => unreachable(place),
            ErrorKind::DnsResolve { .. } => Self::new(
                StoreErrorKind::Unavailable,
                format!(
                    "the name of {place} cannot be resolved: is it right, and does the network's DNS answer?"
                ),
            ),
            ErrorKind::InvalidTlsConfig { .. } => Self::new(
                StoreErrorKind::Config,
                "the TLS settings cannot be used: `tlsCAFile=` and `tlsCertificateKeyFile=` name files in PEM",
            ),
            ErrorKind::InvalidResponse { .. }
            | ErrorKind::BsonDeserialization(_)
            | ErrorKind::Bson(_)
            | ErrorKind::Internal { .. } => Self::new(
                StoreErrorKind::Config,
                format!("what listens at {place} does not speak the protocol of MongoDB"),
            ),
            _ => return Self { applied: Applied::No, ..Self::of(place, error) },
        };
        failure.because(error)
    }

    /// A command was to be sent, or was.
    pub(crate) fn of(place: &str, error: Error) -> Self {
        let failure = match error.kind.as_ref() {
            ErrorKind::Command(said) => return of_code(place, said.code, &said.code_name),
            ErrorKind::Write(WriteFailure::WriteError(said)) => {
                return of_code(place, said.code, said.code_name.as_deref().unwrap_or_default());
            }
            ErrorKind::Write(WriteFailure::WriteConcernError(said)) => {
                return Self::of_concern(place, said.code);
            }
            // Its text is the server's.
            ErrorKind::Authentication { .. } => return auth(place),
            ErrorKind::ServerSelection { .. } => unreachable(place),
            ErrorKind::DnsResolve { .. } | ErrorKind::InvalidTlsConfig { .. } => {
                return Self::of_connect(place, true, error);
            }
            // It had not left.
            ErrorKind::ConnectionPoolCleared { .. } => unreachable(place).with(Remedy::Again),
            ErrorKind::Io(_) | ErrorKind::Shutdown => lost(place),
            ErrorKind::IncompatibleServer { .. } => Self::new(
                StoreErrorKind::Unsupported,
                format!(
                    "{place} is of a version that the driver does not speak to: MongoDB 4.4 or later is needed"
                ),
            ),
            ErrorKind::InvalidArgument { .. } => Self::new(
                StoreErrorKind::Config,
                format!("the settings of the connection to {place} cannot be used"),
            ),
            _ => Self::nonsense(place),
        };
        failure.because(error)
    }

    /// A write was done here, and the majority did not confirm it.
    pub(crate) fn of_concern(place: &str, code: i32) -> Self {
        if is_change_of_primary(code) {
            return lost(place);
        }
        let reason = match code {
            79 | 100 => format!("{place} has no majority of its members for a write: are enough of them up?"),
            _ => format!("a majority of the members of {place} did not confirm the write in time"),
        };
        Self::new(StoreErrorKind::Unavailable, reason).maybe_applied()
    }

    /// Another unique index than that of `_id` stood in the way.
    pub(crate) fn foreign_index(place: &str) -> Self {
        let reason = format!(
            "the collection on {place} has a unique index beside `_id`, which refuses records: drop it, or name another \
             collection (`collection=`)"
        );
        Self::new(StoreErrorKind::Config, reason)
    }

    /// Every try met another state.
    pub(crate) fn never_still(place: &str) -> Self {
        let reason = format!("the record on {place} changed under every try: many callers fight for the key");
        Self::new(StoreErrorKind::Unavailable, reason)
    }

    pub(crate) fn timeout(place: &str, limit: Duration) -> Self {
        Self::new(StoreErrorKind::Timeout, format!("{place} did not answer within {limit:?}"))
    }

    /// Nobody said anything, in no way that tells why.
    pub(crate) fn silent(place: &str, is_tls: bool, limit: Duration) -> Self {
        let hint = if is_tls { "; where it does not speak TLS, leave `tls=true` out" } else { "" };
        let reason = format!("{place} took no connection, or said nothing, within {limit:?}{hint}");
        Self::new(StoreErrorKind::Timeout, reason)
    }

    pub(crate) fn no_runtime() -> Self {
        let reason = "it needs a tokio runtime, and this call was made outside of one";
        Self::new(StoreErrorKind::Unsupported, reason)
    }

    /// An answer that makes no sense.
    pub(crate) fn nonsense(place: &str) -> Self {
        let reason = format!("{place} gave an answer that is none to the question");
        Self::new(StoreErrorKind::Internal, reason).maybe_applied()
    }

    #[must_use]
    pub(crate) fn maybe_applied(mut self) -> Self {
        self.applied = Applied::Unknown;
        self
    }

    /// For a question that writes nothing.
    #[must_use]
    pub(crate) fn undone(mut self) -> Self {
        self.applied = Applied::No;
        self
    }

    /// Whether no server was found, for a reason that the call itself does not know.
    pub(crate) fn is_out_of_reach(&self) -> bool {
        let is_search = |error: &Arc<Error>| matches!(error.kind.as_ref(), ErrorKind::ServerSelection { .. });
        self.kind == StoreErrorKind::Timeout || self.cause.as_ref().is_some_and(is_search)
    }

    pub(crate) fn is_maybe_applied(&self) -> bool {
        self.applied == Applied::Unknown
    }

    fn with(mut self, remedy: Remedy) -> Self {
        self.remedy = remedy;
        self
    }

    fn because(mut self, error: Error) -> Self {
        self.cause = Some(Arc::new(error));
        self
    }

    pub(crate) fn error(&self, op: &'static str) -> StoreError {
        let mut error = StoreError::new(self.kind, BACKEND, op, self.reason.clone());
        if self.is_maybe_applied() {
            error = error.maybe_applied();
        }
        match &self.cause {
            Some(cause) => error.with_source(Arc::clone(cause)),
            None => error,
        }
    }
}

/// The code of a second document under a unique key.
pub(crate) const DUPLICATE: i32 = 11_000;

/// Whether another document is in the way.
pub(crate) fn is_duplicate(error: &Error) -> bool {
    match error.kind.as_ref() {
        ErrorKind::Write(WriteFailure::WriteError(said)) => said.code == DUPLICATE,
        ErrorKind::Command(said) => said.code == DUPLICATE,
        _ => false,
    }
}

fn unreachable(place: &str) -> Failure {
    let reason =
        format!("{place} has no primary that can be reached: is the server up, and the address right?");
    Failure::new(StoreErrorKind::Unavailable, reason)
}

fn lost(place: &str) -> Failure {
    let reason = format!("the connection to the primary of {place} was lost before the answer came");
    Failure::new(StoreErrorKind::Unavailable, reason).maybe_applied().with(Remedy::Resend)
}

fn auth(place: &str) -> Failure {
    Failure::new(
        StoreErrorKind::Auth,
        format!(
            "{place} refused the user or the password: is `authSource=` the database that knows the user?"
        ),
    )
}

/// Interrupted by the end of the primary's term, or of the server: the statement may have been its last.
fn is_change_of_primary(code: i32) -> bool {
    matches!(code, 91 | 189 | 11_600 | 11_602 | 10_107 | 13_435 | 13_436)
}

/// By the codes of <https://www.mongodb.com/docs/manual/reference/error-codes/>.
pub(crate) fn of_code(place: &str, code: i32, name: &str) -> Failure {
    use StoreErrorKind::{Auth, Config, Internal, Timeout, Unavailable, Unsupported};
    let failure = |kind, reason: String| Failure::new(kind, reason);
    match code {
        18 | 8000 => auth(place),
        13 => failure(
            Auth,
            format!("the user may not do this on {place}: it needs the role `readWrite` on the database"),
        ),
        // Refused before anything was done.
        10_107 | 13_435 | 10_058 | 13_436 => failure(
            Unavailable,
            format!("{place} is no primary, and takes no writes: name the whole replica set in the URL"),
        )
        .with(Remedy::Again),
        code if is_change_of_primary(code) => lost(place),
        112 => failure(Unavailable, format!("another write on {place} stood in the way")).with(Remedy::Again),
        24 | 50 | 262 => failure(Timeout, format!("{place} did not finish in time")).maybe_applied(),
        64 | 79 | 100 => Failure::of_concern(place, code),
        14_031 => failure(Unavailable, format!("the disk of {place} is full: make room, then try again")),
        59 => failure(
            Unsupported,
            format!("{place} does not know a command that is needed: MongoDB 4.4 or later is"),
        ),
        121 => failure(
            Config,
            format!(
                "the collection on {place} has rules of its own that refuse records (`validator`): remove them"
            ),
        ),
        17 | 10_334 | 17_280 => {
            failure(Unsupported, format!("{place} refused a document of this size")).with(Remedy::Apart)
        }
        _ => failure(Internal, format!("{place} refused a command ({code} {name})")).with(Remedy::Apart),
    }
}

/// For what is wrong before a server is asked.
pub(crate) fn config(reason: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Config, BACKEND, "read the store URL", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_say_whether_it_was_done() {
        for (code, kind, applied, remedy) in [
            (18, StoreErrorKind::Auth, Applied::No, Remedy::None),
            (10_107, StoreErrorKind::Unavailable, Applied::No, Remedy::Again),
            (11_602, StoreErrorKind::Unavailable, Applied::Unknown, Remedy::Resend),
            (50, StoreErrorKind::Timeout, Applied::Unknown, Remedy::None),
            (64, StoreErrorKind::Unavailable, Applied::Unknown, Remedy::None),
            (10_334, StoreErrorKind::Unsupported, Applied::No, Remedy::Apart),
            (2, StoreErrorKind::Internal, Applied::No, Remedy::Apart),
        ] {
            let failure = of_code("h", code, "");
            assert_eq!((failure.kind, failure.applied, failure.remedy), (kind, applied, remedy), "{code}");
        }
    }

    #[test]
    fn what_the_server_says_is_not_passed_on() {
        let failure = of_code("h", 2, "BadValue");
        assert!(std::error::Error::source(&failure.error("reserve a key")).is_none());
    }
}
