//! From what Redis says to what a store says.

use hapax_core::{Applied, StoreError, StoreErrorKind};
use redis::{ErrorKind, RedisError};
use std::{sync::Arc, time::Duration};

pub(crate) const BACKEND: &str = "redis";

/// Why something failed, before it is known whose call it was.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: StoreErrorKind,
    reason: String,
    applied: Applied,
    cause: Option<Arc<RedisError>>,
    /// Whether it may be over in a moment.
    pub(crate) passes: bool,
    /// Whether what answered spoke another protocol.
    pub(crate) is_foreign: bool,
}

impl Failure {
    pub(crate) fn new(kind: StoreErrorKind, reason: impl Into<String>) -> Self {
        Self {
            kind,
            reason: reason.into(),
            applied: Applied::No,
            cause: None,
            passes: false,
            is_foreign: false,
        }
    }

    /// The connection could not be made.
    pub(crate) fn of_connect(place: &str, error: RedisError) -> Self {
        let failure = match error.kind() {
            ErrorKind::Server(_) | ErrorKind::Extension => Self::of_reply(place, error),
            ErrorKind::AuthenticationFailed => auth(place).because(error),
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType => Self::foreign(place, None).because(error),
            ErrorKind::RESP3NotSupported => {
                let reason = format!("{place} does not speak RESP3: leave `protocol=3` out of the URL");
                Self::new(StoreErrorKind::Unsupported, reason).because(error)
            }
            _ => Self::unreachable(place).because(error),
        };
        Self { applied: Applied::No, ..failure }
    }

    pub(crate) fn unreachable(place: &str) -> Self {
        let reason = format!("{place} cannot be reached: is the server up, and the address right?");
        Self { passes: true, ..Self::new(StoreErrorKind::Unavailable, reason) }
    }

    /// Another program listens there: what it speaks, if that is known.
    pub(crate) fn foreign(place: &str, speaks: Option<&str>) -> Self {
        let reason = match speaks {
            Some(speaks) => format!("what listens at {place} speaks {speaks}, not the protocol of Redis"),
            None => format!("what listens at {place} does not speak the protocol of Redis"),
        };
        Self { is_foreign: true, ..Self::new(StoreErrorKind::Config, reason) }
    }

    /// Somebody listens there and says nothing.
    pub(crate) fn silent(place: &str) -> Self {
        let reason =
            format!("{place} closed the connection without a word: where it expects TLS, write `rediss://`");
        Self { passes: true, ..Self::new(StoreErrorKind::Unavailable, reason) }
    }

    pub(crate) fn no_connection(place: &str, limit: Duration) -> Self {
        Self::new(
            StoreErrorKind::Timeout,
            format!("{place} took no connection, or said nothing, within {limit:?}"),
        )
    }

    pub(crate) fn timeout_of_tls(place: &str, limit: Duration) -> Self {
        let reason =
            format!("{place} did not answer within {limit:?}: where it does not speak TLS, write `redis://`");
        Self::new(StoreErrorKind::Timeout, reason)
    }

    /// The connection was lost after the request had left.
    pub(crate) fn lost(place: &str, error: RedisError) -> Self {
        let reason = format!("the connection to {place} was lost before the answer came");
        Self::new(StoreErrorKind::Unavailable, reason).because(error).maybe_applied()
    }

    pub(crate) fn timeout(place: &str, limit: Duration) -> Self {
        Self::new(StoreErrorKind::Timeout, format!("{place} did not answer within {limit:?}"))
    }

    pub(crate) fn no_runtime() -> Self {
        let reason = "it needs a tokio runtime, and this call was made outside of one";
        Self::new(StoreErrorKind::Unsupported, reason)
    }

    /// The task that was to do the work is gone.
    pub(crate) fn gone() -> Self {
        Self::new(StoreErrorKind::Unavailable, "the runtime is shutting down").maybe_applied()
    }

    /// An answer that makes no sense.
    pub(crate) fn nonsense(place: &str) -> Self {
        let reason = format!("{place} gave an answer that is none to the question");
        Self::new(StoreErrorKind::Internal, reason).maybe_applied()
    }

    /// The server refused the command: it was not done.
    pub(crate) fn of_reply(place: &str, error: RedisError) -> Self {
        let code = error.code().unwrap_or_default().to_owned();
        let detail = error.detail().unwrap_or_default().to_owned();
        let unavailable = |reason: String| Self::new(StoreErrorKind::Unavailable, reason);
        let failure = match code.as_str() {
            "NOAUTH" | "WRONGPASS" | "DENIED" => auth(place),
            "NOPERM" => {
                let reason = format!(
                    "the user may not do this on {place}: `hapax doctor` names the rights that are missing"
                );
                Self::new(StoreErrorKind::Auth, reason)
            }
            "OOM" => {
                let reason = format!("{place} has used up its `maxmemory`: raise it, or let keys end");
                Self::new(StoreErrorKind::Full, reason)
            }
            "WRONGTYPE" => {
                let reason = format!(
                    "something that is no record lies under the key on {place}; it was left alone: `DEL` there removes it"
                );
                Self::new(StoreErrorKind::Corrupt, reason)
            }
            "LOADING" => unavailable(format!("{place} is still loading its data")).passing(),
            "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "BUSY" => {
                unavailable(format!("{place} cannot answer at the moment")).passing()
            }
            "READONLY" => unavailable(format!("{place} is a read-only replica: name its primary")),
            "MISCONF" => unavailable(format!("{place} refuses writes because it cannot save its data")),
            "NOREPLICAS" => {
                unavailable(format!("{place} refuses writes because too few replicas are in reach"))
            }
            "MOVED" | "ASK" | "CROSSSLOT" => {
                let reason = format!("{place} is a node of a cluster: write `redis+cluster://…`");
                Self::new(StoreErrorKind::Config, reason)
            }
            _ if detail.contains("max number of clients") => {
                unavailable(format!("{place} has no room for another client")).passing()
            }
            _ if detail.contains("unknown command") => {
                let reason = format!(
                    "{place} does not know a command of the store: it takes Redis 6.2 or later, and is no Sentinel \
                     (those are named by `redis+sentinel://`)"
                );
                Self::new(StoreErrorKind::Unsupported, reason)
            }
            _ if detail.contains("cluster support disabled") => {
                let reason = format!("{place} is no node of a cluster: write `redis://…`");
                Self::new(StoreErrorKind::Config, reason)
            }
            _ if detail.contains("DB index is out of range") => {
                Self::new(StoreErrorKind::Config, format!("{place} has no database of that number"))
            }
            _ if detail.contains("AUTH") || detail.contains("invalid password") => auth(place),
            _ => Self::new(StoreErrorKind::Internal, format!("{place} refused a command")),
        };
        failure.because(error)
    }

    #[must_use]
    pub(crate) fn maybe_applied(mut self) -> Self {
        self.applied = Applied::Unknown;
        self
    }

    /// Waiting for it to pass is over.
    #[must_use]
    pub(crate) fn lasting(mut self) -> Self {
        self.passes = false;
        self
    }

    fn passing(mut self) -> Self {
        self.passes = true;
        self
    }

    pub(crate) fn because(mut self, error: RedisError) -> Self {
        self.cause = Some(Arc::new(error));
        self
    }

    pub(crate) fn error(&self, op: &'static str) -> StoreError {
        let mut error = StoreError::new(self.kind, BACKEND, op, self.reason.clone());
        if self.applied == Applied::Unknown {
            error = error.maybe_applied();
        }
        match &self.cause {
            Some(cause) => error.with_source(Arc::clone(cause)),
            None => error,
        }
    }
}

fn auth(place: &str) -> Failure {
    Failure::new(StoreErrorKind::Auth, format!("{place} refused the user or the password"))
}

/// For what is wrong before a server is asked.
pub(crate) fn config(reason: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Config, BACKEND, "read the store URL", reason)
}
