//! What a queue says when it cannot do what it is asked.

use hapax_core::{BoxError, Category, CodeInfo, Coded, Fingerprint, Retry, StoreError, queue::Uid};
use std::time::Duration;

/// Why a queue did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// The payload is larger than a queue takes.
    #[error("the payload is {size} bytes, above the limit of {limit}: put it elsewhere and queue its place")]
    #[non_exhaustive]
    PayloadTooLarge {
        /// Its bytes.
        size: usize,
        /// The most.
        limit: usize,
    },
    /// The payload has no form, or the queue's schema refuses it.
    #[error("the payload is not valid")]
    #[non_exhaustive]
    PayloadInvalid {
        /// Why.
        source: BoxError,
    },
    /// The job id was used for another payload.
    #[error("the job id was used for another payload, of job {uid}")]
    #[non_exhaustive]
    JobIdReused {
        /// The job that has the id.
        uid: Uid,
        /// The fingerprint of its payload.
        theirs: Fingerprint,
        /// The fingerprint of the refused one.
        ours: Fingerprint,
    },
    /// The queue holds as many jobs as its limit allows.
    #[error("the queue is full: {}, the oldest for {oldest:?}", waiting(*depth))]
    #[non_exhaustive]
    Full {
        /// How many wait.
        depth: u64,
        /// How long the oldest has been waiting.
        oldest: Duration,
    },
    /// A name, an option or a duration cannot be used.
    #[error("{what}")]
    #[non_exhaustive]
    Invalid {
        /// Which, and why.
        what: String,
    },
    /// A schedule is there, and nobody can say what it adds.
    #[error("the schedule `{name}` cannot be read: {why}")]
    #[non_exhaustive]
    ScheduleUnreadable {
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
    /// The store could not do it.
    #[error("the queue's store failed")]
    #[non_exhaustive]
    StoreFailed {
        /// Why.
        source: StoreError,
    },
}

fn waiting(jobs: u64) -> String {
    if jobs == 1 { "1 job waits".to_owned() } else { format!("{jobs} jobs wait") }
}

/// The codes of queues, those of warnings included.
pub const CODES: &[CodeInfo] = &[
    CodeInfo::new(
        "queue.payload_too_large",
        "validation",
        false,
        "the payload is larger than a queue takes",
        "put it elsewhere and queue its place",
    ),
    CodeInfo::new(
        "queue.payload_invalid",
        "validation",
        false,
        "the payload has no form, or the queue's schema refuses it",
        "the message says which part",
    ),
    CodeInfo::new(
        "queue.job_id_reused",
        "validation",
        false,
        "the job id was used for another payload",
        "use an id of its own for each job, or say `on_conflict` (`--on-conflict`)",
    ),
    CodeInfo::new(
        "queue.full",
        "limited",
        true,
        "the queue holds as many jobs as its limit allows",
        "wait for room, add workers, or raise `hapax queue limits QUEUE --max-len`",
    ),
    CodeInfo::new(
        "queue.duplicate",
        "conflict",
        false,
        "another job has the id of the dead letter",
        "let that job end, or drop the letter",
    ),
    CodeInfo::new(
        "queue.invalid",
        "validation",
        false,
        "a name, an option or a duration cannot be used",
        "the message names it",
    ),
    CodeInfo::new(
        "queue.schedule_unreadable",
        "validation",
        false,
        "a schedule was written by a newer version, or is damaged (also a warning of a worker)",
        "use a version that knows its form, or put it again",
    ),
    CodeInfo::new(
        "queue.store_failed",
        "unavailable",
        true,
        "the store could not do it",
        "bring the store back and try again; a job id makes that safe",
    ),
    CodeInfo::new(
        "queue.lease_lost",
        "unknown",
        false,
        "a worker lost a job while its handler ran (warning)",
        "the job runs elsewhere: let its effect be idempotent, and its lease be longer than a pause of the machine",
    ),
    CodeInfo::new(
        "queue.dead",
        "unavailable",
        false,
        "a job is with the dead letters (warning)",
        "`hapax queue dead show`, then redrive or drop it",
    ),
];

impl QueueError {
    pub(super) fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid { what: what.into() }
    }

    pub(super) fn unreadable(name: &str, why: impl Into<String>) -> Self {
        Self::ScheduleUnreadable { name: name.to_owned(), why: why.into() }
    }

    pub(super) fn payload(source: impl Into<BoxError>) -> Self {
        Self::PayloadInvalid { source: source.into() }
    }

    /// For layers whose own step to the store failed.
    pub fn store_failed(source: StoreError) -> Self {
        Self::StoreFailed { source }
    }
}

impl Coded for QueueError {
    fn code(&self) -> &'static str {
        match self {
            Self::PayloadTooLarge { .. } => "queue.payload_too_large",
            Self::PayloadInvalid { .. } => "queue.payload_invalid",
            Self::JobIdReused { .. } => "queue.job_id_reused",
            Self::Full { .. } => "queue.full",
            Self::Invalid { .. } => "queue.invalid",
            Self::ScheduleUnreadable { .. } => "queue.schedule_unreadable",
            Self::StoreFailed { .. } => "queue.store_failed",
        }
    }

    fn category(&self) -> Category {
        match self {
            Self::Full { .. } => Category::Limited,
            Self::StoreFailed { .. } => Category::Unavailable,
            _ => Category::Validation,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Full { .. } => Retry::Now,
            Self::StoreFailed { source } => source.retry(),
            _ => Retry::Never,
        }
    }
}
