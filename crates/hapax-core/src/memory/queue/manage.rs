//! What people do with jobs, by hand and seldom.

use super::{
    book::{Book, waiting},
    sub::Place,
};
use crate::{
    Now, Timestamp,
    queue::{
        Cancelled, Due, Happening, JobRef, MAX_REDRIVES, Redriven, Uid,
        history::{Event, What},
        machine,
    },
};

impl Book {
    pub(super) fn cancel(&mut self, job: &JobRef, now: &Now) -> Cancelled {
        let mut answer = Cancelled::default();
        let Some(uid) = self.uid(job, now.wall) else { return answer };
        answer.over = self.state(&uid, now.wall).filter(|state| state.is_end());
        for at in 0..self.subs.len() {
            let Some(sub) = self.subs.get_mut(at) else { continue };
            match sub.job(&uid).map(|job| job.place.clone()) {
                Some(Place::Ready | Place::Delayed) => {
                    self.remove(at, &uid, now.wall);
                    answer.removed += 1;
                }
                Some(Place::Running { .. }) => {
                    if let Some(mut job) = sub.take(&uid) {
                        job.facts.cancelled = true;
                        let consumer = job.consumer().cloned();
                        let event = Event::new(now.wall, What::Cancelled, job.facts.counts.attempts);
                        job.tell(&Event { consumer, ..event });
                        sub.put(uid, job);
                        answer.told += 1;
                    }
                }
                Some(Place::Dead { .. }) | None => {}
            }
        }
        answer
    }

    pub(super) fn reschedule(&mut self, job: &JobRef, due: Due, now: &Now) -> u64 {
        let Some(uid) = self.uid(job, now.wall) else { return 0 };
        let (due, seq, mut moved) = (due.at(now.wall), self.seq(), 0);
        for sub in &mut self.subs {
            let waits = sub.job(&uid).is_some_and(|job| matches!(job.place, Place::Ready | Place::Delayed));
            if waits && let Some(mut job) = sub.take(&uid) {
                (job.due, job.seq, job.place) = (due, seq, waiting(due, now.wall));
                job.tells(now.wall, What::Rescheduled, Some(due));
                sub.put(uid, job);
                moved += 1;
            }
        }
        moved
    }

    pub(super) fn redrive(&mut self, at: usize, uid: &Uid, force: bool, now: Timestamp) -> Redriven {
        let dead = self.subs.get(at).and_then(|sub| sub.job(uid));
        let Some(job) = dead.filter(|job| matches!(job.place, Place::Dead { .. })) else {
            return Redriven::NotDead;
        };
        if job.facts.counts.redriven >= MAX_REDRIVES && !force {
            return Redriven::TooOften;
        }
        let holder = job.what.job_id.as_ref().and_then(|id| self.memos.by_id(id, now));
        if let Some(uid) = holder.filter(|holder| holder != uid) {
            return Redriven::Duplicate { uid };
        }
        self.revive(at, uid, now);
        Redriven::Ready
    }

    /// Makes a dead letter a job again.
    fn revive(&mut self, at: usize, uid: &Uid, now: Timestamp) {
        let seq = self.seq();
        let Some(sub) = self.subs.get_mut(at) else { return };
        let Some(mut job) = sub.take(uid) else { return };
        machine::redrive(&mut job.facts);
        (job.due, job.seq, job.error, job.place) = (now, seq, None, Place::Ready);
        job.tells(now, What::Redriven, None);
        let again = job.what.clone();
        self.stream.pass(now, Happening::Redriven, *uid, sub.group.as_ref(), 0);
        sub.put(*uid, job);
        self.memos.revive(&again, now);
    }
}
