//! A job as a handler sees it, and how a handler ends it.

use super::raw::{Control, Halt, Outcome, RawJob};
use crate::IdempotencyError;
use hapax_core::{
    BoxError, Key, StoreError, StoreErrorKind,
    queue::{Counts, DeadReason, Progress},
};
use std::{error::Error, fmt, time::Duration};

/// A job in the hands of a worker.
#[derive(Debug)]
#[non_exhaustive]
pub struct Job<T> {
    /// Its payload.
    pub data: T,
    raw: Box<RawJob>,
    id: String,
}

impl<T> Job<T> {
    pub(super) fn new(data: T, raw: RawJob) -> Self {
        Self { data, id: raw.taken.uid.to_string(), raw: Box::new(raw) }
    }

    /// The id that hapax gave: 32 hex digits, the same at every delivery.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The id that the job was added with.
    pub fn job_id(&self) -> Option<&str> {
        self.raw.taken.job_id.as_ref().map(Key::as_str)
    }

    /// The job id, or else [`id`](Self::id): what to make idempotency keys from.
    pub fn key(&self) -> Key {
        self.raw.key()
    }

    /// Which attempt this is, from 1. What was put off or given back, and what a lost worker had, is none.
    pub fn attempt(&self) -> u32 {
        self.raw.attempt()
    }

    /// How often it may fail.
    pub fn max_attempts(&self) -> u32 {
        self.raw.settings.max_attempts
    }

    /// How often its worker was lost.
    pub fn losses(&self) -> u32 {
        self.raw.taken.counts.losses
    }

    /// All that is counted.
    pub fn counts(&self) -> Counts {
        self.raw.taken.counts
    }

    /// Grows with every hand-out of the job: a write that carries it can be refused when a later one was there first.
    pub fn fence(&self) -> u64 {
        self.raw.taken.fence
    }

    /// What the job was added with by this name.
    pub fn context(&self, name: &str) -> Option<&str> {
        self.raw.settings.context.get(name).map(String::as_str)
    }

    /// Resolves when the job should not go on: it was cancelled, it is another worker's by now, or the worker stops and has
    /// waited as long as it may.
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping it.
    pub async fn cancelled(&self) -> Halt {
        self.raw.control.halted().await
    }

    /// Says how far it is, for `hapax queue show` and whoever looks for the job. The next renewal of its lease takes it along,
    /// a third of the lease later at most: no call of its own, so say it as often as you like. What was said last counts,
    /// as long as this run.
    ///
    /// ```
    /// use hapax_core::queue::Progress;
    /// # use hapax_engine::queue::{Job, JobError};
    ///
    /// # async fn page(_: &str) -> Result<(), JobError> { Ok(()) }
    /// async fn import(job: Job<Vec<String>>) -> Result<(), JobError> {
    ///     for (n, name) in job.data.iter().enumerate() {
    ///         job.progress(Progress::of(n as u64, job.data.len() as u64).note(name));
    ///         page(name).await?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn progress(&self, progress: Progress) {
        self.raw.control.progress(progress);
    }

    /// Tells whether to go on; cheap to clone.
    pub fn control(&self) -> &Control {
        &self.raw.control
    }
}

/// How a handler ends a job otherwise than done. Any error converts (`?`) and means that the job is retried with its
/// backoff, except hapax's own: a key in flight or a store that failed puts the job off without using an attempt; an
/// unknown outcome, or a key that was used for something else, takes it to the dead letters.
#[derive(Debug)]
pub struct JobError(Outcome);

impl JobError {
    /// It failed; again by its backoff.
    pub fn retry(error: impl Into<BoxError>) -> Self {
        Self(Outcome::Retry { error: told(&*error.into()), after: None, certain: true })
    }

    /// It failed; again after this.
    pub fn retry_after(error: impl Into<BoxError>, after: Duration) -> Self {
        Self(Outcome::Retry { error: told(&*error.into()), after: Some(after), certain: true })
    }

    /// Again later; this is no attempt.
    pub fn snooze(by: Duration) -> Self {
        Self(Outcome::Snooze { by })
    }

    /// Ends well without a result: there is nothing to do.
    pub fn discard(reason: impl Into<String>) -> Self {
        Self(Outcome::Discard { reason: reason.into() })
    }

    /// To the dead letters at once.
    pub fn dead(error: impl Into<BoxError>) -> Self {
        Self(Outcome::Dead { reason: DeadReason::Refused, error: told(&*error.into()) })
    }

    /// The effect may have happened: an idempotent worker keeps the key; the job goes to the dead letters.
    pub fn unknown(error: impl Into<BoxError>) -> Self {
        Self(Outcome::Unknown { error: told(&*error.into()) })
    }

    pub(super) fn into_outcome(self) -> Outcome {
        self.0
    }
}

impl<E: Into<BoxError>> From<E> for JobError {
    fn from(error: E) -> Self {
        let error: BoxError = error.into();
        Self(own(&*error).unwrap_or_else(|| Outcome::Retry {
            error: told(&*error),
            after: None,
            certain: false,
        }))
    }
}

/// What one of hapax's own errors means, wherever in the chain it stands.
fn own(error: &(dyn Error + 'static)) -> Option<Outcome> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<IdempotencyError>() {
            return Some(of_idempotency(found));
        }
        if let Some(store) = error.downcast_ref::<StoreError>() {
            return passes(store).then_some(Outcome::Snooze { by: Duration::ZERO });
        }
        next = error.source();
    }
    None
}

/// What it means for a job that its key could not be used.
pub(super) fn of_idempotency(error: &IdempotencyError) -> Outcome {
    let text = || told(error);
    match error {
        IdempotencyError::InFlight { retry_after } => Outcome::Snooze { by: *retry_after },
        IdempotencyError::StoreFailed { source } if passes(source) => Outcome::Snooze { by: Duration::ZERO },
        IdempotencyError::KeyReused {} => Outcome::Dead { reason: DeadReason::KeyReused, error: text() },
        IdempotencyError::Unknown { .. } | IdempotencyError::Unreadable { .. } => {
            Outcome::Unknown { error: text() }
        }
        IdempotencyError::Invalid { .. } => Outcome::Dead { reason: DeadReason::Refused, error: text() },
        _ => Outcome::Retry { error: text(), after: None, certain: true },
    }
}

/// Whether a store may be well again by itself.
fn passes(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Timeout | StoreErrorKind::Full)
}

/// An error and its causes, in one line.
pub(super) fn told(error: &(dyn Error + 'static)) -> String {
    let (mut text, mut next) = (error.to_string(), error.source());
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cancelled => "cancelled",
            Self::Lost => "lost to another worker",
            Self::Stopping => "the worker stops",
        })
    }
}
