//! Requests to a store of queues, and its answers.

use super::{
    Consumer, DeadReason, Group, JobInfo, JobState, PerRate, Progress, QueueId, QueueName, ScheduleName,
    Taken, Uid,
};
use crate::{
    Fingerprint, Key, Namespace, Span, StoreError, StoreErrorKind, StoreResult, Timestamp,
    idempotency::{Complete, Completed, Receipt, Write},
};
use bytes::Bytes;
use std::time::Duration;

/// Ends what a worker has finished, and hands out what is next: one step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Which queue.
    pub queue: QueueId,
    /// For which group.
    pub group: Group,
    /// Who takes.
    pub consumer: Consumer,
    /// What it has finished since; at most [`MOST`](super::MOST).
    pub finishes: Vec<Finish>,
    /// How many jobs it has room for; at most [`MOST`](super::MOST) are handed out.
    pub want: usize,
    /// How long each is its own, unless a beat makes it longer.
    pub lease: Span,
    /// A job whose worker was lost more often than this is dead.
    pub max_losses: u32,
}

/// How a job ended, as its worker says.
#[derive(Clone, Debug)]
pub struct Finish {
    /// Which job.
    pub uid: Uid,
    /// Which hand-out of it.
    pub delivery: u64,
    /// What it means for the job.
    pub end: End,
    /// A key to complete in the same step, where the store [joins](super::QueueStore::joins) the two. The halves are
    /// judged apart: a job that was lost never keeps a receipt from being stored.
    pub key: Option<Box<Complete>>,
}

/// What the end of a handler means for its job. A job that was cancelled meanwhile is removed by all of them, except
/// that a done one is done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// It is done; its result is kept so long.
    Done {
        /// The result and its time, where it was asked for.
        result: Option<(Receipt, Span)>,
    },
    /// It failed, and is due again.
    Retry {
        /// In how long.
        after: Span,
        /// Why, for people.
        error: String,
    },
    /// It is put off; this is no attempt.
    Snooze {
        /// For how long.
        after: Span,
    },
    /// To the dead letters. A failure of its handler counts as an attempt.
    Dead {
        /// Why.
        reason: DeadReason,
        /// For people.
        error: String,
    },
}

/// The answer to a [`Step`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stepped {
    /// For each finish, in order.
    pub finished: Vec<Finished>,
    /// What the worker has now, in the order in which it should start them.
    pub jobs: Vec<Taken>,
    /// When the next delayed job is due, if any is delayed.
    pub next_due: Option<Timestamp>,
    /// Whether somebody paused the group.
    pub paused: bool,
    /// The store's clock.
    pub now: Timestamp,
}

/// The answer to a [`Finish`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    /// `Fenced`: the job was not the worker's any more, or this finish arrived before. Nothing changed.
    pub job: Write,
    /// What became of the key, where there was one.
    pub key: Option<Completed>,
}

/// Says that a worker lives, and which jobs it has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Beat {
    /// Which queue.
    pub queue: QueueId,
    /// For which group.
    pub group: Group,
    /// Who.
    pub consumer: Consumer,
    /// Every job it has, from hand-out to finish, with the number of the hand-out.
    pub held: Vec<(Uid, u64)>,
    /// How long they stay its own from now.
    pub lease: Span,
    /// The store's clock as the consumer's last beat was answered. Jobs that were handed out before and are not in
    /// `held` came in an answer that got lost: they are given back. `None` at the first beat.
    pub since: Option<Timestamp>,
    /// How far some of `held` are: what was said since the last beat. Kept as long as the hand-out.
    pub progress: Vec<(Uid, Progress)>,
}

/// The answer to a [`Beat`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Beaten {
    /// Jobs of `held` that are not the consumer's any more.
    pub lost: Vec<Uid>,
    /// Jobs of `held` that somebody cancelled. They stay the consumer's until it finishes them.
    pub cancelled: Vec<Uid>,
    /// How many jobs were given back that the consumer did not know of.
    pub freed: u64,
    /// The store's clock.
    pub now: Timestamp,
}

/// Gives jobs back unfinished. That is no loss, and they are ready again before all others of their class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GiveBack {
    /// Which queue.
    pub queue: QueueId,
    /// For which group.
    pub group: Group,
    /// Who.
    pub consumer: Consumer,
    /// Which jobs, with the number of the hand-out.
    pub jobs: Vec<(Uid, u64)>,
    /// Whether the consumer takes its leave: whatever else it holds is given back as well.
    pub leave: bool,
}

/// Waits until a step may find something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wait {
    /// Which queue.
    pub queue: QueueId,
    /// For which group.
    pub group: Group,
    /// At most so long.
    pub limit: Duration,
}

/// What a [`subscribe`](super::QueueStore::subscribe) found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subscribed {
    /// The group was there.
    Known,
    /// The queue's first: it has all jobs that were added so far.
    First,
    /// One more: it has what is added from now on.
    Another,
}

/// Which job is meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobRef {
    /// By the id that hapax gave.
    Uid(Uid),
    /// By the caller's own.
    JobId(Key),
}

/// What [`cancel`](super::QueueStore::cancel) did. Nothing at all: no such job is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cancelled {
    /// In how many groups it was removed.
    pub removed: u64,
    /// In how many groups it runs: its worker learns of it at the next beat.
    pub told: u64,
    /// How it had ended before.
    pub over: Option<JobState>,
}

/// Asks for a page of jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListJobs {
    /// Of which queue.
    pub queue: QueueId,
    /// Of one group, or of all.
    pub group: Option<Group>,
    /// In which state: one of [`JobState::LISTED`].
    pub state: JobState,
    /// From the [`next`](JobPage::next) of the page before. Anything else is `store.unsupported`: a page that begins somewhere
    /// else would pass for the right one.
    pub after: Option<String>,
    /// At most so many.
    pub limit: usize,
}

impl ListJobs {
    /// Where the page begins, read by a store from its own marks.
    ///
    /// # Errors
    /// `store.unsupported`: it is none of them.
    pub fn mark<T>(
        &self,
        backend: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> StoreResult<Option<T>> {
        let Some(after) = self.after.as_deref() else { return Ok(None) };
        let mark = read(after).ok_or_else(|| {
            let reason = "that is the mark of no page of this store";
            StoreError::new(StoreErrorKind::Unsupported, backend, "list jobs", reason)
        })?;
        Ok(Some(mark))
    }
}

/// A page of jobs: ready ones in the order in which they start, delayed and running ones by their time, dead ones by
/// the time of their death.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<JobInfo>,
    /// Where the next page starts, if there is more.
    pub next: Option<String>,
}

/// The figures of a queue in one group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueStats {
    /// Which queue.
    pub queue: QueueName,
    /// Which group; `None`: no worker has named the first one yet.
    pub group: Option<Group>,
    /// Jobs that may start.
    pub ready: u64,
    /// Jobs that may not start yet.
    pub delayed: u64,
    /// Jobs in the hands of workers.
    pub running: u64,
    /// Dead letters.
    pub dead: u64,
    /// Jobs ever added, counted since the group began.
    pub added: u64,
    /// Jobs ever done.
    pub done: u64,
    /// Jobs ever cancelled, dropped from the dead letters, or purged.
    pub cancelled: u64,
    /// Losses ever counted.
    pub lost: u64,
    /// Whether somebody paused the group.
    pub paused: bool,
    /// How long the oldest ready job has been so.
    pub oldest: Option<Duration>,
    /// When a worker of the group last took a step or a beat.
    pub seen: Option<Timestamp>,
}

/// Takes dead letters back into the queue, with their counters at zero.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redrive {
    /// Of which queue.
    pub queue: QueueId,
    /// Of which group; `None`: of the only one. With several, nothing is redriven.
    pub group: Option<Group>,
    /// Which; at most [`MOST`](super::MOST).
    pub uids: Vec<Uid>,
    /// Also those that have been redriven [as often as that may go on](super::MAX_REDRIVES).
    pub force: bool,
}

/// What became of a dead letter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Redriven {
    /// It is ready again.
    Ready,
    /// No dead letter of that id is there.
    NotDead,
    /// Another job has its job id now.
    Duplicate {
        /// Which one.
        uid: Uid,
    },
    /// It was redriven as often as that may go on.
    TooOften,
}

/// Bounds of a queue, and how much it keeps for readers. They hold for all of its workers together; `None`: none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// So many jobs of a group run at once.
    pub concurrency: Option<u32>,
    /// So many jobs of a group start within a time: a bucket that holds as many, and fills evenly.
    pub rate: Option<(u32, Span)>,
    /// A rate for each value of a field, beside the one for all. Workers hold it, not the store.
    pub per: Option<PerRate>,
    /// So many jobs may wait, ready and delayed ones together; `add` answers [`Full`](super::Added::Full) above.
    pub max_len: Option<u64>,
    /// So many [events](super::events) are kept, the latest ones; 0: none. Of what was kept under a larger number, no more
    /// than this stay.
    pub events: u32,
}

/// Adds a job again and again. What is added lies in `what`, which stores do not read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// Its name.
    pub name: ScheduleName,
    /// Where its jobs go.
    pub queue: QueueName,
    /// Whose set it belongs to: a program that declares a set removes what is no longer in it.
    pub owner: Option<String>,
    /// A set of a lower revision never replaces one of a higher.
    pub revision: u64,
    /// When, and what is added.
    pub what: Bytes,
    /// The next time.
    pub next: Timestamp,
}

/// What became of a schedule that was put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// It is there now.
    Stored,
    /// The one that is there has a higher revision, or another owner, and stays.
    Refused,
}

/// A payload for a dead letter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edit {
    /// Of which queue.
    pub queue: QueueId,
    /// Of which group; `None`: of the only one.
    pub group: Option<Group>,
    /// Which dead letter.
    pub uid: Uid,
    /// The new bytes.
    pub payload: Bytes,
    /// And their fingerprint.
    pub fingerprint: Fingerprint,
}

/// Schedules of one namespace that are due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedules {
    /// Whose.
    pub namespace: Namespace,
    /// Those whose next time is not after this; `None`: all.
    pub by: Option<Timestamp>,
}
