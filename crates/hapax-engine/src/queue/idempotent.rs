//! A handler that runs once per job key. Key and job end in one step where one store holds both.

use super::{
    job::of_idempotency,
    raw::{Handler, Outcome, RawJob, Settled},
    worker::run_handler,
};
use crate::{
    IdempotencyError,
    protocol::{Begun, Keeper, Reservation, Terms},
};
use hapax_core::{
    IntoKey, InvalidKey, Key, Name, Namespace, Scope,
    idempotency::{Complete, Kind, Receipt, RecordState},
    queue::{DeadReason, Group, QueueName},
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// The form of what is kept under the key of a job that is done and has no result: no bytes.
pub const NO_RESULT: &str = "hapax.none/1";
/// Kept for an outcome that nobody knows: why, as text.
const UNKNOWN: &str = "hapax.unknown/1";

/// What an error that does not say so itself means to an idempotent worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// Nothing happened: free the key and retry.
    Retry,
    /// It may have happened: keep the key; the job goes to the dead letters with reason `unknown`.
    Keep,
}

/// What makes a worker idempotent.
#[derive(Clone, Debug)]
pub(crate) struct Once {
    pub(crate) keeper: Keeper,
    pub(crate) namespace: Result<Namespace, InvalidKey>,
    pub(crate) terms: Result<Terms, String>,
    pub(crate) on_error: OnError,
}

/// A key that ends with its job.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) reservation: Reservation,
    pub(super) complete: Complete,
}

/// The scope of the keys of a queue's jobs in a group. Plain names are joined by colons, others injectively.
///
/// # Errors
/// None that can be met: names of queues and groups are short enough to be parts of a scope.
pub fn key_scope(queue: &QueueName, group: &Group) -> Result<Scope, InvalidKey> {
    let joined = Key::join(["job", queue.as_str(), group.as_str()])?;
    Scope::from_shown(joined.as_str())
}

impl Once {
    /// Runs a job under its key, or answers how an earlier run of it ended.
    pub(super) async fn run(
        &self,
        handler: &Arc<dyn Handler>,
        job: RawJob,
        limit: Option<Duration>,
    ) -> Settled {
        let begun = match self.reserve(&job).await {
            Ok(begun) => begun,
            Err(error) => return Settled::from(of_idempotency(&error)),
        };
        let reservation = match begun {
            Begun::Mine(reservation) => reservation,
            Begun::Settled(record) => return replayed(record.state),
        };
        let reservation = match reservation.ready().await {
            Ok(reservation) => reservation,
            Err(error) => return Settled::from(of_idempotency(&error)),
        };
        // From here on a drop keeps the key as unknown.
        reservation.began().store(true, Ordering::Release);
        let outcome = run_handler(handler, job, limit).await.alone().await;
        self.end(reservation, outcome).await
    }

    async fn reserve(&self, job: &RawJob) -> Result<Begun, IdempotencyError> {
        let namespace = self.namespace.clone().map_err(IdempotencyError::invalid)?;
        let scope = key_scope(&job.queue, &job.group).map_err(IdempotencyError::invalid)?;
        let key = job.key().into_key().map_err(IdempotencyError::invalid)?;
        let name = Name::new(&namespace, &scope, &key);
        let terms = self.terms.clone().map_err(IdempotencyError::invalid)?;
        self.keeper.reserve(&name, super::add::fingerprint(&job.taken.payload), &terms).await
    }

    async fn end(&self, reservation: Reservation, outcome: Outcome) -> Settled {
        let keep = self.on_error == OnError::Keep;
        let (kind, receipt, outcome) = match outcome {
            Outcome::Done { result } => {
                let receipt = result.clone().unwrap_or_else(|| Receipt::new(NO_RESULT, Vec::new()));
                (Kind::Done, receipt, Outcome::Done { result })
            }
            Outcome::Discard { reason } => {
                (Kind::Done, Receipt::new(NO_RESULT, Vec::new()), Outcome::Discard { reason })
            }
            Outcome::Unknown { error } | Outcome::Broken { error } => unknown(error),
            Outcome::Retry { error, certain: false, .. } if keep => unknown(error),
            other @ (Outcome::Retry { .. } | Outcome::Snooze { .. } | Outcome::Dead { .. }) => {
                reservation.release().await;
                return other.into();
            }
        };
        Settled::from(outcome).with_key(reservation, kind, receipt)
    }
}

fn unknown(error: String) -> (Kind, Receipt, Outcome) {
    (Kind::Unknown, Receipt::new(UNKNOWN, error.clone().into_bytes()), Outcome::Unknown { error })
}

/// How an earlier run under the key ended.
fn replayed(state: RecordState) -> Settled {
    let outcome = match state {
        RecordState::Settled { kind: Kind::Done, receipt, .. } => {
            Outcome::Done { result: (receipt.codec != NO_RESULT).then_some(receipt) }
        }
        RecordState::Settled { kind: Kind::Unknown, .. } => {
            Outcome::Unknown { error: "an earlier run under the job's key may have had its effect".into() }
        }
        _ => Outcome::Dead {
            reason: DeadReason::Refused,
            error: "what is under the job's key cannot be read".into(),
        },
    };
    Settled::from(outcome).replayed()
}
