//! Jobs as bytes, for layers that run something other than a typed handler: the command runs programs.

use super::{Settings, idempotent::Ending};
pub use super::{
    add::{MAX_PAYLOAD, fingerprint},
    idempotent::{NO_RESULT, key_scope},
};
use crate::protocol::{Keeper, Reservation};
use hapax_core::{
    BootTime, Key, async_trait,
    idempotency::{Kind, Receipt},
    queue::{DeadReason, Group, Progress, QueueName, Taken},
};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A job in the hands of a worker, undecoded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RawJob {
    /// What the store handed out.
    pub taken: Taken,
    /// What the job carries beside its payload.
    pub settings: Settings,
    /// Its queue.
    pub queue: QueueName,
    /// The worker's group.
    pub group: Group,
    /// How long this attempt may take: what the job says and what the worker says, the shorter of the two.
    pub limit: Option<Duration>,
    /// Whether it should go on.
    pub control: Control,
    pub(super) turn: Turn,
}

/// This run of a job, for the layers around its handler.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    begun: Arc<AtomicBool>,
    /// How long a layer may keep it waiting.
    pub(super) patience: Duration,
}

impl Turn {
    pub(super) fn new(patience: Duration) -> Self {
        Self { begun: Arc::default(), patience }
    }

    /// The handler is about to run.
    pub(super) fn begin(&self) {
        self.begun.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }
}

impl RawJob {
    /// The job id, or else the id that hapax gave: the same at every delivery.
    pub fn key(&self) -> Key {
        let uid = || Key::new(&self.taken.uid.to_string());
        let key = self.taken.job_id.clone().map_or_else(uid, Ok);
        key.unwrap_or_else(|_| unreachable!("32 hex digits are a key"))
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.taken.counts.attempts.saturating_add(1)
    }

    /// Whether a failure of this attempt is the last.
    pub fn is_last_attempt(&self) -> bool {
        self.attempt() >= self.settings.max_attempts
    }
}

/// Why a job should not go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Halt {
    /// Somebody cancelled it.
    Cancelled,
    /// It is not this worker's any more: another may run it.
    Lost,
    /// The worker stops, and has waited as long as it may.
    Stopping,
}

/// Tells a handler whether to go on.
#[derive(Clone, Debug, Default)]
pub struct Control {
    token: CancellationToken,
    told: Arc<Told>,
    deadline: Arc<watch::Sender<BootTime>>,
}

/// What a worker and a handler tell each other.
#[derive(Debug, Default)]
struct Told {
    why: OnceLock<Halt>,
    progress: Mutex<Said>,
}

/// How far the handler is, and whether no beat has carried that yet.
#[derive(Debug, Default)]
struct Said {
    progress: Option<Progress>,
    is_new: bool,
}

impl Control {
    /// Resolves when the job should not go on.
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping it.
    pub async fn halted(&self) -> Halt {
        self.token.cancelled().await;
        self.halt().unwrap_or(Halt::Stopping)
    }

    /// Why the job should not go on, if so.
    pub fn halt(&self) -> Option<Halt> {
        self.told.why.get().copied()
    }

    /// Until when the job is surely this worker's, on the clock that counts from the start of the machine: before the last
    /// request that was granted, plus the lease. It moves with each renewal.
    pub fn deadline(&self) -> watch::Receiver<BootTime> {
        self.deadline.subscribe()
    }

    /// Says how far the job is. The next renewal of its lease takes it along, a third of the lease later at most: no call of
    /// its own, so say it as often as you like. What was said last counts, as long as this run.
    pub fn progress(&self, progress: Progress) {
        *self.said() = Said { progress: Some(progress), is_new: true };
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.told.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be carried by a beat.
    pub(super) fn take_progress(&self) -> Option<Progress> {
        let mut said = self.said();
        std::mem::take(&mut said.is_new).then(|| said.progress.clone()).flatten()
    }

    /// The beat did not arrive.
    pub(super) fn keep_progress(&self) {
        self.said().is_new = true;
    }

    /// For what takes a token.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// It is the worker's until then, or longer.
    pub(super) fn renew(&self, deadline: BootTime) {
        self.deadline.send_if_modified(|known| {
            let longer = deadline > *known;
            *known = deadline.max(*known);
            longer
        });
    }

    /// Says so; the first reason stays.
    pub(super) fn stop(&self, why: Halt) {
        self.told.why.get_or_init(|| why);
        self.token.cancel();
    }
}

/// How a job ended, before the worker has judged what that means for it.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It is done.
    Done {
        /// Its result: kept where the job, or an idempotent worker, asks for it.
        result: Option<Receipt>,
    },
    /// There is nothing to do: it ends well.
    Discard {
        /// Why, for the log.
        reason: String,
    },
    /// It failed.
    Retry {
        /// Why, for people.
        error: String,
        /// When to try again; by its backoff otherwise.
        after: Option<Duration>,
        /// Whether the handler knows that there was no effect. Otherwise [`OnError`](super::OnError) says what it means.
        certain: bool,
    },
    /// Not now; this is no attempt.
    Snooze {
        /// For how long; at least a second.
        by: Duration,
    },
    /// It failed for good.
    Dead {
        /// Why.
        reason: DeadReason,
        /// For people.
        error: String,
    },
    /// Its effect may have happened: the key is kept, and the job goes to the dead letters.
    Unknown {
        /// Why, for people.
        error: String,
    },
    /// It panicked or took too long: a failure, and for an idempotent worker an unknown outcome.
    Broken {
        /// Why, for people.
        error: String,
    },
}

/// How a job ended, and the key that ends with it, if one does.
#[must_use = "a key in it ends with the job, or by `alone`"]
#[derive(Debug)]
pub struct Settled {
    /// How the job ended.
    pub outcome: Outcome,
    /// Whether an earlier run under its key is answered for.
    pub replayed: bool,
    /// To be completed with the end of the job.
    pub(super) ending: Option<Box<Ending>>,
}

impl From<Outcome> for Settled {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, replayed: false, ending: None }
    }
}

impl Settled {
    /// An earlier run under the job's key ended so.
    pub fn replayed(self) -> Self {
        Self { replayed: true, ..self }
    }

    /// Completes a key with the job: in one step where one store [holds](Handler::keys) both, else before it. From here on a drop
    /// completes it in the background.
    pub fn with_key(self, reservation: Reservation, kind: Kind, receipt: Receipt) -> Self {
        let (reservation, complete) = reservation.ending(kind, receipt);
        Self { ending: Some(Box::new(Ending { reservation, complete })), ..self }
    }

    /// Completes the key now, for a job that ends some other way.
    pub async fn alone(self) -> Outcome {
        if let Some(ending) = self.ending {
            let _kept = ending.reservation.end_now(ending.complete).await;
        }
        self.outcome
    }
}

/// Runs jobs as bytes.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Whether it ends by itself when the [limit](RawJob::limit) of a job is over, and answers [`Outcome::Broken`] then.
    /// Otherwise it is dropped: not for what goes on outside of this process.
    fn keeps_time(&self) -> bool {
        false
    }

    /// Runs one.
    ///
    /// # Cancel safety
    /// It may be dropped when the worker ends after its drain time: the job then runs again.
    async fn handle(&self, job: RawJob) -> Outcome;

    /// Runs one, for handlers with keys of their own that end with their jobs.
    ///
    /// # Cancel safety
    /// As [`handle`](Self::handle).
    async fn settle(&self, job: RawJob) -> Settled {
        self.handle(job).await.into()
    }

    /// Where those keys are: all of them in one store.
    fn keys(&self) -> Option<&Keeper> {
        None
    }
}
