//! From what PostgreSQL says to what a store says.

use hapax_core::{Applied, StoreError, StoreErrorKind};
use sqlx::Error;
use std::{sync::Arc, time::Duration};

pub(crate) const BACKEND: &str = "postgres";

/// What may be done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    None,
    /// Two transactions were in each other's way; this one is undone.
    Again,
    /// The connection is gone.
    Reconnect,
    /// Somebody has locked the row.
    Look,
    /// The statement was refused, perhaps for one of many in it.
    Apart,
}

/// Why something failed, before it is known whose call it was.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: StoreErrorKind,
    pub(crate) remedy: Remedy,
    reason: String,
    applied: Applied,
    cause: Option<Arc<Error>>,
}

impl Failure {
    pub(crate) fn new(kind: StoreErrorKind, reason: impl Into<String>) -> Self {
        Self { kind, remedy: Remedy::None, reason: reason.into(), applied: Applied::No, cause: None }
    }

    /// There is no connection.
    pub(crate) fn of_connect(place: &str, error: Error) -> Self {
        let failure = match &error {
            Error::Database(_) => return Self { applied: Applied::No, ..Self::of(place, error) },
            Error::Tls(_) => tls(place),
            // What the handshake ends with.
            Error::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => tls(place),
            Error::Protocol(_) => Self::foreign(place, None),
            Error::Configuration(_) => Self::new(
                StoreErrorKind::Config,
                format!("the settings of the connection to {place} cannot be used"),
            ),
            _ => Self::new(
                StoreErrorKind::Unavailable,
                format!("{place} cannot be reached: is the server up, and the address right?"),
            ),
        };
        failure.because(error)
    }

    /// A statement was sent.
    pub(crate) fn of(place: &str, error: Error) -> Self {
        let failure = match &error {
            Error::Database(said) => of_code(place, said.code().as_deref().unwrap_or_default()),
            Error::ColumnDecode { .. } | Error::ColumnNotFound(_) | Error::Decode(_) => Self::nonsense(place),
            Error::Encode(_) => {
                Self::new(StoreErrorKind::Unsupported, "the driver cannot send a value of this size")
            }
            _ => lost(place),
        };
        failure.because(error)
    }

    /// Another program listens there: what it speaks, if that is known.
    pub(crate) fn foreign(place: &str, speaks: Option<&str>) -> Self {
        let reason = match speaks {
            Some(speaks) => {
                format!("what listens at {place} speaks {speaks}, not the protocol of PostgreSQL")
            }
            None => format!("what listens at {place} does not speak the protocol of PostgreSQL"),
        };
        Self::new(StoreErrorKind::Config, reason)
    }

    /// Nobody knows what listens there.
    pub(crate) fn silent(place: &str, limit: Duration) -> Self {
        let reason = format!(
            "{place} did not answer as PostgreSQL does within {limit:?}: is it another server's address?"
        );
        Self::new(StoreErrorKind::Timeout, reason)
    }

    pub(crate) fn timeout(place: &str, limit: Duration) -> Self {
        Self::new(StoreErrorKind::Timeout, format!("{place} did not answer within {limit:?}"))
    }

    /// The runtime that was to bring the answer has ended.
    pub(crate) fn gone() -> Self {
        let reason = "the runtime of the call ended before the answer came";
        Self::new(StoreErrorKind::Unavailable, reason).maybe_applied()
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

    /// Within a transaction that cannot be committed any more.
    #[must_use]
    pub(crate) fn undone(mut self) -> Self {
        self.applied = Applied::No;
        self
    }

    pub(crate) fn is_maybe_applied(&self) -> bool {
        self.applied == Applied::Unknown
    }

    /// Whether nothing of many was done, perhaps because of one of them.
    pub(crate) fn is_of_one(&self) -> bool {
        matches!(self.remedy, Remedy::Apart | Remedy::Look | Remedy::Again)
    }

    /// Whether the connection can be used no more.
    pub(crate) fn ends_connection(&self) -> bool {
        self.remedy == Remedy::Reconnect
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

fn tls(place: &str) -> Failure {
    let reason = format!(
        "{place} and this process do not agree on TLS: the server speaks none (`sslmode=disable`), or its certificate is \
         of no authority that is known here (`sslrootcert=FILE`), or names another host"
    );
    Failure::new(StoreErrorKind::Config, reason)
}

/// The server takes no writes.
pub(crate) fn standby(place: &str) -> Failure {
    let reason = format!("{place} is a standby, or set to read only: name its primary in the URL");
    Failure::new(StoreErrorKind::Unavailable, reason)
}

fn lost(place: &str) -> Failure {
    let reason = format!("the connection to {place} was lost before the answer came");
    Failure::new(StoreErrorKind::Unavailable, reason).maybe_applied().with(Remedy::Reconnect)
}

/// By the codes of <https://www.postgresql.org/docs/current/errcodes-appendix.html>. What is refused was not done.
fn of_code(place: &str, code: &str) -> Failure {
    use StoreErrorKind::{Auth, Config, Corrupt, Internal, Timeout, Unavailable, Unsupported, Version};
    let failure = |kind, reason: String| Failure::new(kind, reason);
    match code {
        "28P01" => failure(Auth, format!("{place} refused the password")),
        "28000" => {
            let reason = format!(
                "{place} refused the user: there is no such role, or its pg_hba.conf does not let it in from here, or \
                 not without TLS (`sslmode=require`)"
            );
            failure(Auth, reason)
        }
        "42501" => {
            let reason = format!(
                "the user may not do this on {place}: it needs USAGE on the schema of hapax and all rights on its \
                 tables; to make them, CREATE on the database"
            );
            failure(Auth, reason)
        }
        "3D000" => failure(Config, format!("there is no such database: {place}")),
        "40001" | "40P01" => {
            let reason = format!("another transaction of {place} stood in the way");
            failure(Unavailable, reason).with(Remedy::Again)
        }
        "55P03" => failure(Timeout, format!("somebody has locked the key on {place}")).with(Remedy::Look),
        "57014" => failure(Timeout, format!("{place} did not finish in time, or the key stayed locked")),
        // The server is going away: the statement may have been the last that it did.
        "57P01" | "57P02" | "57P05" => lost(place),
        "25P02" => failure(
            Unsupported,
            "a statement of the caller's transaction has failed before: roll it back".to_owned(),
        ),
        "57P03" => failure(Unavailable, format!("{place} is starting or ending")),
        "53300" => {
            failure(Unavailable, format!("{place} has no room for another connection: `connections=`"))
        }
        "53100" => failure(Unavailable, format!("the disk of {place} is full: make room, then try again")),
        // Another connection may lead to the new primary.
        "25006" | "0A000" => standby(place).with(Remedy::Reconnect),
        "42883" => {
            let reason =
                format!("{place} lacks a function of this version of hapax: another version changed it");
            failure(Version, reason)
        }
        "42P01" | "3F000" | "42704" => failure(
            Corrupt,
            format!("a part of the schema of hapax is missing on {place}: restore it from a backup"),
        ),
        "42703" | "42P07" | "42710" | "42723" => {
            let reason = format!(
                "the schema holds things of another program on {place}: name one of its own for hapax (`schema=`)"
            );
            failure(Config, reason)
        }
        _ => match code.get(..2).unwrap_or_default() {
            "08" => lost(place),
            "53" | "57" | "58" => failure(Unavailable, format!("{place} cannot do it at the moment")),
            "54" => failure(Unsupported, format!("{place} refused a value of this size")).with(Remedy::Apart),
            "XX" => failure(Corrupt, format!("{place} found its data damaged")).with(Remedy::Apart),
            _ => failure(Internal, format!("{place} refused a statement")).with(Remedy::Apart),
        },
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
        for (code, kind, applied) in [
            ("28P01", StoreErrorKind::Auth, Applied::No),
            ("40P01", StoreErrorKind::Unavailable, Applied::No),
            ("57014", StoreErrorKind::Timeout, Applied::No),
            ("57P01", StoreErrorKind::Unavailable, Applied::Unknown),
            ("08006", StoreErrorKind::Unavailable, Applied::Unknown),
            ("53200", StoreErrorKind::Unavailable, Applied::No),
            ("XX001", StoreErrorKind::Corrupt, Applied::No),
            ("22023", StoreErrorKind::Internal, Applied::No),
        ] {
            let error = of_code("h", code).error("reserve a key");
            assert_eq!((error.kind(), error.applied()), (kind, applied), "{code}");
        }
    }

    #[test]
    fn a_lost_connection_is_made_again() {
        let failure = Failure::of("h", Error::WorkerCrashed);
        assert!(failure.ends_connection() && failure.is_maybe_applied());
        assert!(!Failure::of_connect("h", Error::WorkerCrashed).is_maybe_applied());
    }
}
