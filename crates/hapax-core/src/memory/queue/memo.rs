//! What is remembered of a job over all groups, also after its end.

use crate::{
    Fingerprint, Key, Span, Timestamp,
    idempotency::Receipt,
    queue::{Added, JobState, NewJob, Priority, Uid},
};
use bytes::Bytes;
use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

/// How long a job without an id of its own is known after its end: an `add` that is sent again finds it.
pub(super) const RESENDS: Duration = Duration::from_mins(10);

#[derive(Clone, Debug)]
pub(super) struct Memo {
    pub(super) job_id: Option<Key>,
    pub(super) fingerprint: Fingerprint,
    pub(super) priority: Priority,
    pub(super) settings: Bytes,
    pub(super) added_at: Timestamp,
    pub(super) due: Timestamp,
    remember: Span,
    /// In how many groups it waits or runs.
    pub(super) holders: usize,
    pub(super) end: Option<(JobState, Timestamp)>,
    result: Option<(Receipt, Timestamp)>,
    /// When its id is free again, and when nobody knows it any more.
    forget_id: Option<Timestamp>,
    forget: Option<Timestamp>,
}

impl Memo {
    pub(super) fn result(&self, now: Timestamp) -> Option<Receipt> {
        self.result.as_ref().filter(|(_, until)| *until > now).map(|(receipt, _)| receipt.clone())
    }
}

/// The memories of one queue.
#[derive(Debug, Default)]
pub(super) struct Memos {
    jobs: HashMap<Uid, Memo>,
    ids: HashMap<Key, Uid>,
    ends: BTreeSet<(Timestamp, Uid)>,
}

impl Memos {
    /// The memory of a job, while it lasts.
    pub(super) fn get(&self, uid: &Uid, now: Timestamp) -> Option<&Memo> {
        self.jobs.get(uid).filter(|memo| memo.forget.is_none_or(|at| at > now))
    }

    /// Which job has an id.
    pub(super) fn by_id(&self, id: &Key, now: Timestamp) -> Option<Uid> {
        let uid = self.ids.get(id)?;
        self.jobs.get(uid)?.forget_id.is_none_or(|at| at > now).then_some(*uid)
    }

    /// How many ids belong to nobody.
    pub(super) fn dangling(&self) -> u64 {
        let is_gone = |uid: &&Uid| !self.jobs.contains_key(*uid);
        u64::try_from(self.ids.values().filter(is_gone).count()).unwrap_or(u64::MAX)
    }

    pub(super) fn insert(&mut self, job: &NewJob, due: Timestamp, holders: usize, now: Timestamp) {
        let memo = Memo {
            job_id: job.job_id.clone(),
            fingerprint: job.fingerprint,
            priority: job.priority,
            settings: job.settings.clone(),
            added_at: now,
            due,
            remember: job.remember,
            holders,
            end: None,
            result: None,
            forget_id: None,
            forget: None,
        };
        if let Some(id) = &job.job_id {
            self.ids.insert(id.clone(), job.uid);
        }
        self.jobs.insert(job.uid, memo);
    }

    /// What `add` answers to a job that it knows.
    pub(super) fn known(&self, job: &NewJob, now: Timestamp) -> Option<Added> {
        self.get(&job.uid, now).map(|memo| Added::New { due: memo.due })
    }

    pub(super) fn change(&mut self, uid: &Uid, change: impl FnOnce(&mut Memo)) {
        if let Some(memo) = self.jobs.get_mut(uid) {
            change(memo);
        }
    }

    /// A group's copy of the job is over.
    pub(super) fn end(
        &mut self,
        uid: &Uid,
        state: JobState,
        result: Option<&(Receipt, Span)>,
        now: Timestamp,
    ) {
        let Some(memo) = self.jobs.get_mut(uid) else { return };
        memo.holders = memo.holders.saturating_sub(1);
        if let Some((receipt, keep)) = result {
            memo.result = Some((receipt.clone(), now.after(keep.get())));
        }
        // Of several groups, dead is told before done, and done before cancelled.
        if memo.end.is_none_or(|(before, _)| state <= before) {
            memo.end = Some((state, now));
        }
        if memo.holders > 0 {
            return;
        }
        let free = memo.end.is_some_and(|(state, _)| state == JobState::Cancelled);
        let id = if free { now } else { now.after(memo.remember.get()) };
        memo.forget_id = Some(id);
        let known = if memo.job_id.is_some() && !free { id } else { now.after(RESENDS) };
        self.forget_at(uid, known);
    }

    /// The id is free, and the job is known as cancelled until nobody sends it again.
    pub(super) fn free(&mut self, uid: &Uid, now: Timestamp) {
        if let Some(memo) = self.jobs.get_mut(uid) {
            memo.end = Some((JobState::Cancelled, now));
            memo.forget_id = Some(now);
            self.forget_at(uid, now.after(RESENDS));
        }
    }

    /// A dead letter is a job again.
    pub(super) fn revive(&mut self, job: &NewJob, now: Timestamp) {
        match self.jobs.get_mut(&job.uid) {
            Some(memo) => {
                memo.holders += 1;
                memo.end = None;
                memo.forget_id = None;
                if let Some(at) = memo.forget.take() {
                    self.ends.remove(&(at, job.uid));
                }
                if let Some(id) = memo.job_id.clone() {
                    self.ids.insert(id, job.uid);
                }
            }
            None => self.insert(job, now, 1, now),
        }
    }

    fn forget_at(&mut self, uid: &Uid, at: Timestamp) {
        let Some(memo) = self.jobs.get_mut(uid) else { return };
        let at = memo.result.as_ref().map_or(at, |(_, until)| at.max(*until));
        if let Some(before) = memo.forget.replace(at) {
            self.ends.remove(&(before, *uid));
        }
        self.ends.insert((at, *uid));
    }

    /// Forgets up to so many that nobody needs to know any more.
    pub(super) fn prune(&mut self, limit: usize, now: Timestamp) -> usize {
        let mut pruned = 0;
        while pruned < limit
            && let Some((at, uid)) = self.ends.first().copied()
            && at <= now
        {
            self.ends.remove(&(at, uid));
            if let Some(id) = self.jobs.remove(&uid).and_then(|memo| memo.job_id)
                && self.ids.get(&id) == Some(&uid)
            {
                self.ids.remove(&id);
            }
            pruned += 1;
        }
        pruned
    }
}
