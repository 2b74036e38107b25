//! Adding jobs.

use super::{
    book::{Book, waiting},
    sub::Job,
};
use crate::{
    Now, Timestamp,
    queue::{Added, Happening, JobState, NewJob, OnConflict, Uid, history::What, machine},
};

impl Book {
    pub(super) fn add(&mut self, new: &NewJob, now: &Now) -> Added {
        let wall = now.wall;
        if let Some(known) = self.memos.known(new, wall) {
            return known;
        }
        if let Some(uid) = new.job_id.as_ref().and_then(|id| self.memos.by_id(id, wall)) {
            return self.again(new, uid, now);
        }
        if let Some(full) = self.full(wall) {
            return full;
        }
        self.memos.prune(2, wall);
        let due = new.due.at(wall);
        let seq = self.seq();
        for sub in &mut self.subs {
            let job = Job {
                what: new.clone(),
                added_at: wall,
                seq,
                due,
                delivery: 0,
                facts: machine::Facts::default(),
                error: None,
                place: waiting(due, wall),
                told: Vec::new(),
            };
            sub.put(new.uid, job);
            sub.added += 1;
        }
        self.memos.insert(new, due, self.subs.len(), wall);
        self.stream.pass(wall, Happening::Added, new.uid, None, 0);
        Added::New { due }
    }

    /// The job id is known, as `uid`.
    fn again(&mut self, new: &NewJob, uid: Uid, now: &Now) -> Added {
        let Some(memo) = self.memos.get(&uid, now.wall) else {
            return Added::Duplicate { uid, state: JobState::Done, result: None };
        };
        let (fingerprint, result) = (memo.fingerprint, memo.result(now.wall));
        if fingerprint != new.fingerprint {
            match new.on_conflict {
                OnConflict::Keep => {}
                OnConflict::Replace if self.is_untaken(&uid) => return self.replace(new, uid, now.wall),
                OnConflict::Refuse | OnConflict::Replace => return Added::Reused { uid, fingerprint },
            }
        }
        let state = self.state(&uid, now.wall).unwrap_or(JobState::Done);
        Added::Duplicate { uid, state, result }
    }

    fn is_untaken(&self, uid: &Uid) -> bool {
        let mut jobs = self.subs.iter().filter_map(|sub| sub.job(uid)).peekable();
        jobs.peek().is_some() && jobs.all(|job| job.delivery == 0)
    }

    fn replace(&mut self, new: &NewJob, uid: Uid, now: Timestamp) -> Added {
        let due = new.due.at(now);
        for sub in &mut self.subs {
            if let Some(mut job) = sub.take(&uid) {
                job.what = NewJob { uid, ..new.clone() };
                job.due = due;
                job.place = waiting(due, now);
                job.tells(now, What::Replaced, Some(due));
                sub.put(uid, job);
            }
        }
        self.memos.change(&uid, |memo| memo.fingerprint = new.fingerprint);
        Added::Replaced { uid, due }
    }

    fn full(&self, now: Timestamp) -> Option<Added> {
        let max = self.limits.max_len?;
        let longest = self.subs.iter().max_by_key(|sub| sub.waiting())?;
        let depth = u64::try_from(longest.waiting()).unwrap_or(u64::MAX);
        let oldest = longest.oldest().map(|since| now.since(since)).unwrap_or_default();
        (depth >= max).then_some(Added::Full { depth, oldest })
    }
}
