//! A job: as it is added, handed out, and shown.

use super::{Consumer, Group, Progress, Uid, history::History};
use crate::{Fingerprint, Key, Span, Timestamp, idempotency::Receipt};
use bytes::Bytes;
use std::{fmt, time::Duration};

/// A job to add.
#[derive(Clone, PartialEq, Eq)]
pub struct NewJob {
    /// Made once for the logical call, outside any resend: a store that knows it answers as the first time did.
    pub uid: Uid,
    /// The caller's own name for the job. The same id is the same job, while it lives and for
    /// [`remember`](Self::remember) after its end.
    pub job_id: Option<Key>,
    /// Of the payload: tells a repeated `add` from another job under the same id. Compared as it is: here a fingerprint of
    /// another version is another one.
    pub fingerprint: Fingerprint,
    /// Opaque bytes.
    pub payload: Bytes,
    /// When it may start.
    pub due: Due,
    /// Which come first.
    pub priority: Priority,
    /// What the engine wants to know when it takes the job: opaque to stores.
    pub settings: Bytes,
    /// How long the job id is remembered after the end.
    pub remember: Span,
    /// What to do when the job id was used for another payload.
    pub on_conflict: OnConflict,
}

impl fmt::Debug for NewJob {
    /// Without the payload, which may hold anything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewJob")
            .field("uid", &self.uid)
            .field("job_id", &self.job_id)
            .field("bytes", &self.payload.len())
            .field("due", &self.due)
            .finish_non_exhaustive()
    }
}

/// When a job may start. Delays go to the store as they are: its clock is added there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Due {
    /// At once.
    #[default]
    Now,
    /// After this much time on the store's clock.
    After(Span),
    /// At this instant on the store's clock; at once when it is past.
    At(Timestamp),
}

impl Due {
    /// The instant, for a store whose clock shows `now`.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Now => now,
            Self::After(span) => now.after(span.get()),
            Self::At(at) => at.max(now),
        }
    }
}

/// Jobs of a lower number start before those of a higher one; within one class they start in the order in which they
/// became ready.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Priority {
    /// 0: before all others.
    Urgent = 0,
    /// 1: the default.
    #[default]
    Normal = 1,
    /// 2: after those.
    Low = 2,
    /// 3: when nothing else is ready.
    Bulk = 3,
}

impl Priority {
    /// All classes, first things first.
    pub const ALL: [Self; 4] = [Self::Urgent, Self::Normal, Self::Low, Self::Bulk];

    /// 0 to 3.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// From 0 to 3.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// What `add` does when its job id was used for another payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum OnConflict {
    /// Answers [`Added::Reused`]; nothing changes.
    #[default]
    Refuse,
    /// Answers [`Added::Duplicate`]; nothing changes.
    Keep,
    /// Gives the new payload, settings and time to a job that no group has taken yet; else as `Refuse`.
    Replace,
}

/// What became of a job to add.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Added {
    /// It is in the queue; also when this very request was answered before.
    New {
        /// When it may start.
        due: Timestamp,
    },
    /// A waiting job under its id has its payload now ([`OnConflict::Replace`]).
    Replaced {
        /// The id of the job that was there.
        uid: Uid,
        /// When it may start.
        due: Timestamp,
    },
    /// Its job id belongs to a job that is there, or was.
    Duplicate {
        /// The id of that job.
        uid: Uid,
        /// How far it is.
        state: JobState,
        /// Its result, where one is kept.
        result: Option<Receipt>,
    },
    /// Its job id belongs to a job with another payload.
    Reused {
        /// The id of that job.
        uid: Uid,
        /// The fingerprint of its payload.
        fingerprint: Fingerprint,
    },
    /// The queue holds as many jobs as its limit allows.
    Full {
        /// How many those are.
        depth: u64,
        /// How long the oldest has been waiting.
        oldest: Duration,
    },
}

/// How far a job is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum JobState {
    /// It may start.
    Ready,
    /// It may not start yet.
    Delayed,
    /// A worker has it.
    Running,
    /// It is with the dead letters.
    Dead,
    /// It ended well.
    Done,
    /// It was cancelled.
    Cancelled,
}

impl JobState {
    /// Those in which a job can be listed.
    pub const LISTED: [Self; 4] = [Self::Ready, Self::Delayed, Self::Running, Self::Dead];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Delayed => "delayed",
            Self::Running => "running",
            Self::Dead => "dead",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the job is over.
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Dead | Self::Done | Self::Cancelled)
    }
}

/// Why a job is with the dead letters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum DeadReason {
    /// It failed as often as it may.
    Exhausted,
    /// Its worker was lost as often as that may happen.
    Lost,
    /// Its bytes are no payload of the queue's type.
    Undecodable,
    /// The queue's schema refuses its payload.
    Invalid,
    /// Its effect may have happened.
    Unknown,
    /// Its idempotency key was used for something else.
    KeyReused,
    /// It was put off for longer than that may go on.
    SnoozedOut,
    /// Its handler said so.
    Refused,
}

impl DeadReason {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Exhausted,
        Self::Lost,
        Self::Undecodable,
        Self::Invalid,
        Self::Unknown,
        Self::KeyReused,
        Self::SnoozedOut,
        Self::Refused,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::Lost => "lost",
            Self::Undecodable => "undecodable",
            Self::Invalid => "invalid",
            Self::Unknown => "unknown",
            Self::KeyReused => "key_reused",
            Self::SnoozedOut => "snoozed_out",
            Self::Refused => "refused",
        }
    }

    /// From the word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }
}

/// What happened to a job so far. Never a part of a fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// How often its handler failed.
    pub attempts: u32,
    /// How often its worker was lost.
    pub losses: u32,
    /// How often it was put off since it last made headway.
    pub snoozes: u32,
    /// How often a worker gave it back unfinished.
    pub given_back: u32,
    /// How often it was taken from the dead letters.
    pub redriven: u32,
}

/// A job in the hands of a worker.
#[derive(Clone, PartialEq, Eq)]
pub struct Taken {
    /// Its id.
    pub uid: Uid,
    /// The caller's own name for it.
    pub job_id: Option<Key>,
    /// The number of this hand-out: whoever finishes, beats or gives back says it, and an older one changes nothing.
    pub delivery: u64,
    /// Grows with every step of the queue that hands out jobs, over restarts and redrives, too.
    pub fence: u64,
    /// What happened so far.
    pub counts: Counts,
    /// Since when it is being put off, if it is.
    pub snoozed_since: Option<Timestamp>,
    /// Opaque bytes.
    pub payload: Bytes,
    /// As it was added with.
    pub settings: Bytes,
    /// When it was added, on the store's clock.
    pub added_at: Timestamp,
}

impl fmt::Debug for Taken {
    /// Without the payload, which may hold anything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taken")
            .field("uid", &self.uid)
            .field("delivery", &self.delivery)
            .field("counts", &self.counts)
            .field("bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

/// What a store tells of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobInfo {
    /// Its id.
    pub uid: Uid,
    /// The caller's own name for it.
    pub job_id: Option<Key>,
    /// In which group; `None`: no worker has named the queue's first group yet, or the job is over in all.
    pub group: Option<Group>,
    /// How far it is.
    pub state: JobState,
    /// Which come first.
    pub priority: Priority,
    /// What happened so far.
    pub counts: Counts,
    /// When it was added.
    pub added_at: Timestamp,
    /// Delayed: when it may start. Running: when its lease ends. Ended: when it did.
    pub at: Timestamp,
    /// Who has it, while it runs.
    pub consumer: Option<Consumer>,
    /// Since when.
    pub taken_at: Option<Timestamp>,
    /// How far it is, as its handler said since it was taken: from [`find`](super::QueueStore::find), and `None` on the
    /// pages of a list.
    pub progress: Option<Progress>,
    /// Why it is dead.
    pub reason: Option<DeadReason>,
    /// What its handler said last.
    pub error: Option<String>,
    /// Opaque bytes; empty when the job is over.
    pub payload: Bytes,
    /// As it was added with.
    pub settings: Bytes,
    /// Its result, where one is kept.
    pub result: Option<Receipt>,
    /// What happened to it beside the usual: from [`find`](super::QueueStore::find), and empty on the pages of a list.
    pub history: History,
}
