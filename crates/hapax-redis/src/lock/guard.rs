//! Writes of holders, told apart by their fences where they arrive.

use crate::{error::Failure, script::Script};
use hapax_core::{
    Span, StoreErrorKind, StoreResult,
    lock::{Fence, Guarded},
};
use redis::{Arg, Cmd, RedisError, Value, aio::ConnectionLike};

const OP: &str = "write under a fence";
/// It is the caller's, so nothing more is known of it.
const PLACE: &str = "the server of the connection";

static ADMIT: Script = Script::new("", include_str!("../scripts/lock/admit.lua"));

/// Remembers the largest fence that wrote to a resource, and lets no older one write: a holder whose lease passed while it
/// was paused changes nothing when it wakes.
///
/// The command and the look at the fence are one step on your server, over your own connection.
///
/// ```no_run
/// # async fn write(mut connection: redis::aio::MultiplexedConnection, fence: hapax_core::lock::Fence)
/// # -> Result<(), hapax_core::StoreError> {
/// use hapax_core::lock::Guarded;
/// use hapax_redis::Guard;
///
/// let mut set = redis::cmd("SET");
/// set.arg("{account:7}").arg("closed");
/// let guard = Guard::new("{account:7}:fence");
/// match guard.write(&mut connection, fence, &["{account:7}"], &set).await? {
///     (Guarded::Applied, _) => {}
///     (Guarded::Repeat, _) => { /* this holder has written before */ }
///     (Guarded::Stale, _) => { /* a newer holder has written: stop */ }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Guard {
    key: String,
    keep: Option<Span>,
}

impl Guard {
    /// Remembers it under a key of yours, for ever. In a Cluster it has to lie in the slot of what is written.
    pub fn new(key: impl Into<String>) -> Self {
        Self { key: key.into(), keep: None }
    }

    /// Remembers it for so long after a write. A holder that is paused for longer is no longer refused.
    #[must_use]
    pub fn keep(self, keep: Span) -> Self {
        Self { keep: Some(keep), ..self }
    }

    /// Carries out one command on these keys, unless a larger fence has written, or this one has; answers what came of it,
    /// and what the command said where it was carried out.
    ///
    /// To be sent again after a lost reply: what was carried out is a [`Repeat`](Guarded::Repeat) then.
    ///
    /// # Errors
    /// Codes: `store.unavailable`, `store.auth`, `store.full`, `store.config` (the keys lie in several slots),
    /// `store.corrupt` (the key of the guard holds no fence, or the command met another type), `store.internal` (the server
    /// refused the command); then nothing is remembered. With [`Applied::Unknown`](hapax_core::Applied) the reply was lost.
    /// The source is the driver's error.
    ///
    /// # Cancel safety
    /// A dropped call may have been carried out.
    pub async fn write(
        &self,
        connection: &mut impl ConnectionLike,
        fence: Fence,
        keys: &[&str],
        command: &Cmd,
    ) -> StoreResult<(Guarded, Option<Value>)> {
        let call = |name: &str, script: &str| {
            let mut cmd = redis::cmd(name);
            cmd.arg(script).arg(keys.len() + 1).arg(&self.key).arg(keys);
            cmd.arg(fence.get()).arg(self.keep.map_or(0, Span::as_millis));
            for arg in command.args_iter() {
                if let Arg::Simple(bytes) = arg {
                    cmd.arg(bytes);
                }
            }
            cmd
        };
        let answer = connection.req_packed_command(&call("EVALSHA", ADMIT.hash(true))).await;
        let answer = match answer.and_then(Value::extract_error) {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                let answer = connection.req_packed_command(&call("EVAL", ADMIT.text(true))).await;
                answer.and_then(Value::extract_error)
            }
            answer => answer,
        };
        let nonsense = || Failure::nonsense(PLACE).error(OP);
        let answer = answer.map_err(|error| failure(error).error(OP))?;
        let Value::Array(parts) = answer else { return Err(nonsense()) };
        let mut parts = parts.into_iter();
        match parts.next() {
            Some(Value::BulkString(word)) if word == b"applied" => {
                Ok((Guarded::Applied, Some(parts.next().unwrap_or(Value::Nil))))
            }
            Some(Value::BulkString(word)) if word == b"repeat" => Ok((Guarded::Repeat, None)),
            Some(Value::BulkString(word)) if word == b"stale" => Ok((Guarded::Stale, None)),
            _ => Err(nonsense()),
        }
    }
}

fn failure(error: RedisError) -> Failure {
    match error.code() {
        None => Failure::lost(PLACE, error),
        Some("WRONGTYPE") => {
            let reason = "the key of the guard holds no fence, or the command met a value of another type";
            Failure::new(StoreErrorKind::Corrupt, reason).because(error)
        }
        Some(_) => Failure::of_reply(PLACE, error),
    }
}
