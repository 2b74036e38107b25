//! The metrics of queues: stable names, in one place. `docs/metrics.md` lists them.

use super::Added;
use hapax_core::{
    StoreResult,
    queue::{DeadReason, Group, QueueName, QueueStats},
};
use metrics::SharedString;
use std::{sync::Arc, time::Duration};

/// Jobs that were to be added, by `queue` and `answer`: `new`, `replaced`, `duplicate`, `refused`, `full`.
const ADDED: &str = "hapax_jobs_added_total";
/// Jobs that a worker of this process took, by `queue`.
const TAKEN: &str = "hapax_jobs_taken_total";
/// Jobs that ended here, by `queue` and `end`: `done`, `discarded`, `retried`, `snoozed`, `dead`.
const ENDED: &str = "hapax_jobs_ended_total";
/// Dead letters that were made here, by `queue` and `reason`.
const DEAD: &str = "hapax_jobs_dead_total";
/// Jobs that were another worker's when they ended here, by `queue`.
const LOST: &str = "hapax_jobs_lost_total";
/// Jobs that were given back at a stop, by `queue`.
const GIVEN_BACK: &str = "hapax_jobs_given_back_total";
/// How long handlers took, by `queue`.
const SECONDS: &str = "hapax_job_seconds";
/// Handlers that run, by `queue`.
const IN_FLIGHT: &str = "hapax_jobs_in_flight";
/// Calls of workers and producers that the store refused or left unanswered, by `queue` and `op`.
const ERRORS: &str = "hapax_queue_errors_total";
/// Watched: jobs, by `queue`, `group` and `state`.
const JOBS: &str = "hapax_queue_jobs";
/// Watched: the age of the oldest ready job, by `queue` and `group`.
const OLDEST: &str = "hapax_queue_oldest_seconds";
/// Watched: 1 where a group is held back, by `queue` and `group`.
const PAUSED: &str = "hapax_queue_paused";

/// All of them.
#[cfg(test)]
const ALL: &[&str] =
    &[ADDED, TAKEN, ENDED, DEAD, LOST, GIVEN_BACK, SECONDS, IN_FLIGHT, ERRORS, JOBS, OLDEST, PAUSED];

/// The figures of one queue in this process. Cheap to make; labels are shared.
#[derive(Clone, Debug)]
pub(super) struct Figures(SharedString);

impl Figures {
    pub(super) fn of(queue: &QueueName) -> Self {
        Self(SharedString::from_shared(Arc::from(queue.as_str())))
    }

    fn count(&self, name: &'static str, by: usize) {
        metrics::counter!(name, "queue" => self.0.clone()).increment(u64::try_from(by).unwrap_or(u64::MAX));
    }

    fn count_as(&self, name: &'static str, label: &'static str, word: &'static str) {
        metrics::counter!(name, "queue" => self.0.clone(), label => word).increment(1);
    }

    pub(super) fn added(&self, answer: &Result<Added, super::QueueError>) {
        let word = match answer {
            Ok(Added::New { .. }) => "new",
            Ok(Added::Replaced { .. }) => "replaced",
            Ok(Added::Duplicate { .. }) => "duplicate",
            Err(super::QueueError::Full { .. }) => "full",
            Err(_) => "refused",
        };
        self.count_as(ADDED, "answer", word);
    }

    pub(super) fn taken(&self, jobs: usize) {
        if jobs > 0 {
            self.count(TAKEN, jobs);
        }
    }

    pub(super) fn ended(&self, end: &'static str, dead: Option<DeadReason>) {
        self.count_as(ENDED, "end", end);
        if let Some(reason) = dead {
            self.count_as(DEAD, "reason", reason.as_str());
        }
    }

    pub(super) fn lost(&self) {
        self.count(LOST, 1);
    }

    pub(super) fn given_back(&self, jobs: usize) {
        if jobs > 0 {
            self.count(GIVEN_BACK, jobs);
        }
    }

    /// From the start of a handler to its end, or to its drop.
    pub(super) fn running(&self) -> Running {
        let gauge = metrics::gauge!(IN_FLIGHT, "queue" => self.0.clone());
        gauge.increment(1.0);
        Running(gauge)
    }

    pub(super) fn took(&self, time: Duration) {
        metrics::histogram!(SECONDS, "queue" => self.0.clone()).record(time.as_secs_f64());
    }

    /// Counts a call that failed.
    pub(super) fn answered<T>(&self, op: &'static str, answer: &StoreResult<T>) {
        if answer.is_err() {
            self.count_as(ERRORS, "op", op);
        }
    }
}

/// A handler that runs.
#[must_use = "it runs until this is dropped"]
pub(super) struct Running(metrics::Gauge);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// What a store tells of a group.
pub(super) fn watched(stats: &QueueStats) {
    let jobs = [stats.ready, stats.delayed, stats.running, stats.dead];
    publish(&stats.queue, stats.group.as_ref(), jobs, stats.oldest.unwrap_or_default(), stats.paused);
}

/// A group that was watched is there no more.
pub(super) fn gone(queue: &QueueName, group: Option<&Group>) {
    publish(queue, group, [0; 4], Duration::ZERO, false);
}

fn publish(queue: &QueueName, group: Option<&Group>, jobs: [u64; 4], oldest: Duration, paused: bool) {
    let queue = SharedString::from_shared(Arc::from(queue.as_str()));
    let group = SharedString::from_shared(Arc::from(group.map_or("", Group::as_str)));
    for (state, jobs) in ["ready", "delayed", "running", "dead"].into_iter().zip(jobs) {
        metrics::gauge!(JOBS, "queue" => queue.clone(), "group" => group.clone(), "state" => state)
            .set(lossy(jobs));
    }
    metrics::gauge!(OLDEST, "queue" => queue.clone(), "group" => group.clone()).set(oldest.as_secs_f64());
    metrics::gauge!(PAUSED, "queue" => queue, "group" => group).set(if paused { 1.0 } else { 0.0 });
}

/// A look that the store did not answer.
pub(super) fn unanswered(queue: Option<&QueueName>) {
    let queue = queue.map_or_else(String::new, ToString::to_string);
    metrics::counter!(ERRORS, "queue" => queue, "op" => "watch").increment(1);
}

#[expect(clippy::cast_precision_loss, reason = "gauges are of floating point, and no queue has 2^53 jobs")]
fn lossy(jobs: u64) -> f64 {
    jobs as f64
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn every_metric_is_in_the_documentation() {
        let documentation = include_str!("../../../../docs/metrics.md");
        for name in ALL {
            assert!(documentation.contains(&format!("| `{name}` |")), "{name}");
        }
    }
}
