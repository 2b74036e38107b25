//! One queue: its groups, what is remembered, and its bounds.

use super::{
    memo::Memos,
    stream::Stream,
    sub::{Place, Sub},
};
use crate::{
    Timestamp,
    queue::{Group, Happening, JobState, Limits, Subscribed, Uid},
};

#[derive(Debug)]
pub(super) struct Book {
    pub(super) subs: Vec<Sub>,
    pub(super) memos: Memos,
    pub(super) limits: Limits,
    pub(super) stream: Stream,
    seq: u64,
    pub(super) fence: u64,
}

impl Book {
    pub(super) fn new() -> Self {
        let subs = vec![Sub::new(None)];
        Self {
            subs,
            memos: Memos::default(),
            limits: Limits::default(),
            stream: Stream::default(),
            seq: 0,
            fence: 0,
        }
    }

    /// What is due is ready.
    pub(super) fn promote(&mut self, now: Timestamp) {
        self.subs.iter_mut().for_each(|sub| sub.promote(now));
    }

    pub(super) fn seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    pub(super) fn subscribe(&mut self, group: &Group) -> Subscribed {
        if self.sub(group).is_some() {
            return Subscribed::Known;
        }
        match self.subs.iter_mut().find(|sub| sub.group.is_none()) {
            Some(base) => {
                base.group = Some(group.clone());
                Subscribed::First
            }
            None => {
                self.subs.push(Sub::new(Some(group.clone())));
                Subscribed::Another
            }
        }
    }

    pub(super) fn sub(&self, group: &Group) -> Option<usize> {
        self.subs.iter().position(|sub| sub.group.as_ref() == Some(group))
    }

    /// The groups that are meant.
    pub(super) fn meant(&self, group: Option<&Group>) -> Vec<usize> {
        match group {
            Some(group) => self.sub(group).into_iter().collect(),
            None => (0..self.subs.len()).collect(),
        }
    }

    pub(super) fn unsubscribe(&mut self, group: &Group, now: Timestamp) -> Option<u64> {
        let at = self.sub(group)?;
        let dropped = self.clear(at, now);
        self.subs.remove(at);
        if self.subs.is_empty() {
            self.subs.push(Sub::new(None));
        }
        Some(dropped)
    }

    /// Removes all jobs of a group.
    pub(super) fn clear(&mut self, at: usize, now: Timestamp) -> u64 {
        let uids: Vec<Uid> = JobState::LISTED
            .into_iter()
            .flat_map(|state| self.subs.get(at).map(|sub| sub.listed(state)).unwrap_or_default())
            .collect();
        for uid in &uids {
            self.remove(at, uid, now);
        }
        u64::try_from(uids.len()).unwrap_or(u64::MAX)
    }

    /// Takes a job out of a group for good, before its time.
    pub(super) fn remove(&mut self, at: usize, uid: &Uid, now: Timestamp) -> bool {
        let Some(sub) = self.subs.get_mut(at) else { return false };
        let Some(job) = sub.take(uid) else { return false };
        sub.cancelled += 1;
        let attempts = job.facts.counts.attempts;
        self.stream.pass(now, Happening::Cancelled, *uid, sub.group.as_ref(), attempts);
        let held = !matches!(job.place, Place::Dead { .. });
        if held {
            self.memos.end(uid, JobState::Cancelled, None, now);
        }
        // The last one frees the id, also that of a dead letter.
        if self.subs.iter().all(|sub| sub.job(uid).is_none()) {
            self.memos.free(uid, now);
        }
        true
    }
}

/// Where a job that is due then waits.
pub(super) fn waiting(due: Timestamp, now: Timestamp) -> Place {
    if due <= now { Place::Ready } else { Place::Delayed }
}
