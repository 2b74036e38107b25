//! The jobs of one group.

use crate::{
    BootTime, Now, Timestamp,
    queue::{
        Consumer, DeadReason, Group, GroupBooks, JobInfo, JobState, Limits, NewJob, Priority, Progress,
        QueueId, QueueName, QueueStats, Uid,
        books::OVERDUE,
        history::{self, Event, History, What},
        machine::{Bucket, Facts},
    },
};
use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

/// A job in one group.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// As it was added; `due` aside, which changes.
    pub(super) what: NewJob,
    pub(super) added_at: Timestamp,
    /// Its place among those that are due at the same instant.
    pub(super) seq: u64,
    pub(super) due: Timestamp,
    pub(super) delivery: u64,
    pub(super) facts: Facts,
    pub(super) error: Option<String>,
    pub(super) place: Place,
    /// The bytes of a [`History`](crate::queue::history::History).
    pub(super) told: Vec<u8>,
}

impl Job {
    pub(super) fn tell(&mut self, event: &Event) {
        history::append(&mut self.told, event);
    }

    /// By people: who had it is not told.
    pub(super) fn tells(&mut self, now: Timestamp, what: What, due: Option<Timestamp>) {
        self.tell(&Event { due, ..Event::new(now, what, self.facts.counts.attempts) });
    }

    /// Who has it.
    pub(super) fn consumer(&self) -> Option<&Consumer> {
        match &self.place {
            Place::Running { consumer, .. } => Some(consumer),
            _ => None,
        }
    }
}

/// Where it is; in [`Sub`] one index holds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Ready,
    Delayed,
    Running { consumer: Consumer, until: BootTime, taken_at: Timestamp, progress: Option<Progress> },
    Dead { reason: DeadReason, at: Timestamp },
}

/// A group that knows the queue.
#[derive(Debug, Default)]
pub(super) struct Sub {
    pub(super) group: Option<Group>,
    pub(super) paused: bool,
    pub(super) bucket: Bucket,
    pub(super) seen: Option<Timestamp>,
    pub(super) added: u64,
    pub(super) done: u64,
    pub(super) cancelled: u64,
    pub(super) lost: u64,
    jobs: HashMap<Uid, Job>,
    ready: BTreeSet<(Priority, Timestamp, u64, Uid)>,
    delayed: BTreeSet<(Timestamp, u64, Uid)>,
    running: BTreeSet<(BootTime, Uid)>,
    dead: BTreeSet<(Timestamp, u64, Uid)>,
}

impl Sub {
    pub(super) fn new(group: Option<Group>) -> Self {
        Self { group, ..Self::default() }
    }

    pub(super) fn job(&self, uid: &Uid) -> Option<&Job> {
        self.jobs.get(uid)
    }

    /// Puts a job where its place says.
    pub(super) fn put(&mut self, uid: Uid, job: Job) {
        match &job.place {
            Place::Ready => drop(self.ready.insert((job.what.priority, job.due, job.seq, uid))),
            Place::Delayed => drop(self.delayed.insert((job.due, job.seq, uid))),
            Place::Running { until, .. } => drop(self.running.insert((*until, uid))),
            Place::Dead { at, .. } => drop(self.dead.insert((*at, job.seq, uid))),
        }
        self.jobs.insert(uid, job);
    }

    /// Takes a job out of everything.
    pub(super) fn take(&mut self, uid: &Uid) -> Option<Job> {
        let job = self.jobs.remove(uid)?;
        match &job.place {
            Place::Ready => drop(self.ready.remove(&(job.what.priority, job.due, job.seq, *uid))),
            Place::Delayed => drop(self.delayed.remove(&(job.due, job.seq, *uid))),
            Place::Running { until, .. } => drop(self.running.remove(&(*until, *uid))),
            Place::Dead { at, .. } => drop(self.dead.remove(&(*at, job.seq, *uid))),
        }
        Some(job)
    }

    /// What is due is ready.
    pub(super) fn promote(&mut self, now: Timestamp) {
        while let Some((due, _, uid)) = self.delayed.first().copied()
            && due <= now
            && let Some(mut job) = self.take(&uid)
        {
            job.place = Place::Ready;
            self.put(uid, job);
        }
    }

    /// The first job that is ready.
    pub(super) fn first_ready(&self) -> Option<Uid> {
        self.ready.first().map(|(.., uid)| *uid)
    }

    /// A running job whose lease is over.
    pub(super) fn first_lost(&self, now: BootTime) -> Option<Uid> {
        self.running.first().filter(|(until, _)| *until <= now).map(|(_, uid)| *uid)
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.delayed.first().map(|(due, ..)| *due)
    }

    /// In how long a step may find something; `None`: not unless something changes.
    pub(super) fn next(&self, limits: &Limits, now: &Now) -> Option<Duration> {
        if self.paused {
            return None;
        }
        let lost = self.running.first().map(|(until, _)| until.since(now.boot));
        let is_full = limits.concurrency.is_some_and(|most| self.running.len() >= most as usize);
        let start = if is_full {
            None
        } else if self.first_ready().is_some() {
            Some(limits.rate.map_or(Duration::ZERO, |rate| {
                let mut bucket = self.bucket;
                if bucket.admits(rate, now.wall, 1) > 0 { Duration::ZERO } else { bucket.next(rate) }
            }))
        } else {
            self.next_due().map(|due| due.since(now.wall))
        };
        [lost, start].into_iter().flatten().min()
    }

    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    pub(super) fn waiting(&self) -> usize {
        self.ready.len() + self.delayed.len()
    }

    /// Since when the oldest ready job has been so.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        self.ready.iter().map(|(_, due, ..)| *due).min()
    }

    /// The jobs of one consumer, with the numbers of their hand-outs and their times.
    pub(super) fn held_by(&self, consumer: &Consumer) -> Vec<(Uid, u64, Timestamp)> {
        let held = self.running.iter().filter_map(|(_, uid)| {
            let job = self.jobs.get(uid)?;
            match &job.place {
                Place::Running { consumer: owner, taken_at, .. } if owner == consumer => {
                    Some((*uid, job.delivery, *taken_at))
                }
                _ => None,
            }
        });
        held.collect()
    }

    /// Takes a running job out, when this hand-out of it is the consumer's.
    pub(super) fn take_held(&mut self, uid: &Uid, delivery: u64, consumer: &Consumer) -> Option<Job> {
        let job = self.jobs.get(uid)?;
        let is_held = job.delivery == delivery
            && matches!(&job.place, Place::Running { consumer: owner, .. } if owner == consumer);
        if is_held { self.take(uid) } else { None }
    }

    /// All jobs in a state, in its order.
    pub(super) fn listed(&self, state: JobState) -> Vec<Uid> {
        match state {
            JobState::Ready => self.ready.iter().map(|(.., uid)| *uid).collect(),
            JobState::Delayed => self.delayed.iter().map(|(.., uid)| *uid).collect(),
            JobState::Running => self.running.iter().map(|(_, uid)| *uid).collect(),
            JobState::Dead => self.dead.iter().map(|(.., uid)| *uid).collect(),
            JobState::Done | JobState::Cancelled => Vec::new(),
        }
    }

    pub(super) fn info(&self, uid: &Uid, now: &Now) -> Option<JobInfo> {
        let job = self.jobs.get(uid)?;
        let (state, at, taken_at, reason) = match &job.place {
            Place::Ready => (JobState::Ready, job.due, None, None),
            Place::Delayed => (JobState::Delayed, job.due, None, None),
            Place::Running { until, taken_at, .. } => {
                (JobState::Running, now.wall_of(*until), Some(*taken_at), None)
            }
            Place::Dead { reason, at } => (JobState::Dead, *at, None, Some(*reason)),
        };
        Some(JobInfo {
            uid: *uid,
            job_id: job.what.job_id.clone(),
            group: self.group.clone(),
            state,
            priority: job.what.priority,
            counts: job.facts.counts,
            added_at: job.added_at,
            at,
            consumer: job.consumer().cloned(),
            taken_at,
            progress: None,
            reason,
            error: job.error.clone(),
            payload: job.what.payload.clone(),
            settings: job.what.settings.clone(),
            result: None,
            history: History::default(),
        })
    }

    pub(super) fn look(&self, id: &QueueId, now: &Now) -> GroupBooks {
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let placed = self.waiting() + self.running.len() + self.dead.len();
        let uids = JobState::LISTED.into_iter().flat_map(|state| self.listed(state));
        let bodiless = uids.filter(|uid| !self.jobs.contains_key(uid)).count();
        let is_overdue = |until: &BootTime| now.boot.since(*until) > OVERDUE;
        let overdue = self.running.iter().filter(|(until, _)| is_overdue(until));
        let first = overdue.clone().next().and_then(|(_, uid)| self.jobs.get(uid));
        GroupBooks {
            bodiless: count(bodiless),
            homeless: count((self.jobs.len() + bodiless).saturating_sub(placed)),
            overdue: count(overdue.count()),
            overdue_of: first.and_then(Job::consumer).cloned(),
            ..GroupBooks::sound(id.clone(), self.stats(&id.name, now.wall), now.wall)
        }
    }

    pub(super) fn stats(&self, queue: &QueueName, now: Timestamp) -> QueueStats {
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        QueueStats {
            queue: queue.clone(),
            group: self.group.clone(),
            ready: count(self.ready.len()),
            delayed: count(self.delayed.len()),
            running: count(self.running.len()),
            dead: count(self.dead.len()),
            added: self.added,
            done: self.done,
            cancelled: self.cancelled,
            lost: self.lost,
            paused: self.paused,
            oldest: self.oldest().map(|since| now.since(since)),
            seen: self.seen,
        }
    }
}
