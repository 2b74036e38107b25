//! What an outcome means for its job.

use crate::queue::{
    idempotent::Ending,
    raw::{Halt, Outcome, RawJob, Settled},
};
use hapax_core::{
    Span,
    queue::{DeadReason, End, Finish},
};
use std::time::Duration;

/// The shortest time for which a job is put off.
const SNOOZE: Duration = Duration::from_secs(1);

/// What a job came to, for the figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Came {
    Done,
    Discarded,
    Retried,
    Snoozed,
    Dead,
}

impl Came {
    /// The label of a metric.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Discarded => "discarded",
            Self::Retried => "retried",
            Self::Snoozed => "snoozed",
            Self::Dead => "dead",
        }
    }
}

/// A job that has ended here, and not yet in the store.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) finish: Finish,
    pub(super) came: Came,
    pub(super) replayed: bool,
    /// The key that ends with it.
    pub(super) ending: Option<Box<Ending>>,
    /// Whether it was sent before: it may have ended then.
    pub(super) sent: bool,
    /// What its handler was told while it ran.
    pub(super) halted: Option<Halt>,
}

impl Ended {
    /// Whether its end is that of its lease. What a handler does when it learns of that is no failure of the job: it is as if the
    /// worker had died, and the lease takes care of the rest.
    pub(super) fn is_loss(&self) -> bool {
        let went_through = matches!(self.came, Came::Done | Came::Discarded);
        self.halted == Some(Halt::Lost) && !went_through && self.ending.is_none()
    }
}

/// What a job is to be judged by.
pub(super) struct Facts {
    job: RawJob,
    max_snooze: Duration,
    /// How long it has been put off so far.
    snoozed: Duration,
}

impl Facts {
    pub(super) fn new(job: RawJob, max_snooze: Duration, now: hapax_core::Timestamp) -> Self {
        let snoozed = job.taken.snoozed_since.map(|since| now.since(since)).unwrap_or_default();
        Self { job, max_snooze, snoozed }
    }

    pub(super) fn judge(&self, judged: Settled) -> Ended {
        self.ended(self.end(judged.outcome), judged.replayed, judged.ending)
    }

    fn ended(&self, (end, came): (End, Came), replayed: bool, ending: Option<Box<Ending>>) -> Ended {
        let (uid, delivery) = (self.job.taken.uid, self.job.taken.delivery);
        let finish = Finish { uid, delivery, end, key: None };
        Ended { finish, came, replayed, ending, sent: false, halted: self.job.control.halt() }
    }

    /// Not its turn yet, by a rate. However long that is, it is not the job's fault.
    pub(super) fn put_off(&self, by: Duration) -> Ended {
        self.ended((End::Snooze { after: span(by) }, Came::Snoozed), false, None)
    }

    fn end(&self, outcome: Outcome) -> (End, Came) {
        match outcome {
            Outcome::Done { result } => {
                let keep = self.job.settings.keep_result_ms.map(|ms| span(Duration::from_millis(ms)));
                (End::Done { result: result.zip(keep) }, Came::Done)
            }
            Outcome::Discard { reason } => {
                tracing::info!(job = %self.job.taken.uid, reason, "a job is discarded");
                (End::Done { result: None }, Came::Discarded)
            }
            Outcome::Retry { error, after, .. } => self.failed(error, after),
            Outcome::Broken { error } => self.failed(error, None),
            Outcome::Snooze { by } if self.snoozed.saturating_add(by) > self.max_snooze => {
                self.dead(DeadReason::SnoozedOut, format!("it was put off for {:?}", self.snoozed))
            }
            Outcome::Snooze { by } => {
                // What waits for the same thing does not come back at once.
                let after = span(by).get().max(SNOOZE).mul_f64(1.0 + fastrand::f64() / 5.0);
                (End::Snooze { after: span(after) }, Came::Snoozed)
            }
            Outcome::Dead { reason, error } => self.dead(reason, error),
            Outcome::Unknown { error } => self.dead(DeadReason::Unknown, error),
        }
    }

    fn failed(&self, error: String, after: Option<Duration>) -> (End, Came) {
        if self.job.is_last_attempt() {
            return self.dead(DeadReason::Exhausted, error);
        }
        let backoff = || self.job.settings.backoff.after(self.job.attempt(), fastrand::f64());
        let after = span(after.unwrap_or_else(backoff));
        tracing::info!(job = %self.job.taken.uid, attempt = self.job.attempt(), ?after, "a job failed");
        (End::Retry { after, error }, Came::Retried)
    }

    fn dead(&self, reason: DeadReason, error: String) -> (End, Came) {
        // What its handler said stays with the dead letter: it may hold anything.
        let (uid, queue) = (self.job.taken.uid, &self.job.queue);
        tracing::warn!(code = "queue.dead", "job {uid} of queue {queue} is dead: {}", reason.as_str());
        (End::Dead { reason, error }, Came::Dead)
    }
}

/// The nearest duration that a store accepts.
fn span(duration: Duration) -> Span {
    Span::new(duration).unwrap_or(if duration.is_zero() { Span::MIN } else { Span::MAX })
}
