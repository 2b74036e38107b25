//! A worker's step: ends, takes over, hands out.

use super::{
    book::{Book, waiting},
    sub::{Job, Place, Sub},
};
use crate::{
    Now, Span, Timestamp,
    idempotency::{Receipt, Write},
    queue::{
        End, Finish, Happening, JobState, MOST, Step, Stepped, Taken, Uid,
        history::{Event, What},
        machine::{self, Fate},
    },
};

impl Book {
    pub(super) fn step(&mut self, req: &Step, now: &Now) -> (Vec<Write>, Stepped) {
        self.subscribe(&req.group);
        let at = self.sub(&req.group).unwrap_or_default();
        if let Some(sub) = self.subs.get_mut(at) {
            sub.seen = Some(now.wall);
        }
        let ended = req.finishes.iter().map(|finish| self.finish(at, req, finish, now)).collect();
        if let Some(sub) = self.subs.get_mut(at) {
            sub.promote(now.wall);
        }
        for _ in 0..machine::take_overs(req.want) {
            let Some(uid) = self.subs.get(at).and_then(|sub| sub.first_lost(now.boot)) else { break };
            let Some(mut job) = self.subs.get_mut(at).and_then(|sub| sub.take(&uid)) else { break };
            let fate = machine::lose(&mut job.facts, req.max_losses);
            if let Some(sub) = self.subs.get_mut(at).filter(|_| fate != Fate::Cancelled) {
                sub.lost += 1;
            }
            self.settle(at, uid, job, fate, Why::of(What::Lost), now.wall);
        }
        let (jobs, wait) = self.hand_out(at, req, now);
        let sub = self.subs.get(at);
        let next_due = sub.and_then(Sub::next_due).into_iter().chain(wait).min();
        let paused = sub.is_some_and(|sub| sub.paused);
        (ended, Stepped { finished: Vec::new(), jobs, next_due, paused, now: now.wall })
    }

    fn finish(&mut self, at: usize, req: &Step, finish: &Finish, now: &Now) -> Write {
        let Some(sub) = self.subs.get_mut(at) else { return Write::Fenced };
        let Some(mut job) = sub.take_held(&finish.uid, finish.delivery, &req.consumer) else {
            return Write::Fenced;
        };
        let fate = machine::finish(&mut job.facts, &finish.end, now.wall);
        let why = match &finish.end {
            End::Done { result } => Why { result: result.as_ref(), ..Why::of(What::Retried) },
            End::Retry { error, .. } => {
                let error = machine::cut(error);
                job.error = Some(error.to_owned());
                Why { error: Some(error), ..Why::of(What::Retried) }
            }
            End::Snooze { .. } => Why::of(What::Snoozed),
            End::Dead { .. } => Why::of(What::Dead),
        };
        self.settle(at, finish.uid, job, fate, why, now.wall);
        Write::Applied
    }

    /// Puts a job that ran where its fate says.
    pub(super) fn settle(
        &mut self,
        at: usize,
        uid: Uid,
        mut job: Job,
        fate: Fate,
        why: Why<'_>,
        now: Timestamp,
    ) {
        let seq = self.seq();
        let attempts = job.facts.counts.attempts;
        if let Some(event) = Event::settled(now, why.what, attempts, job.consumer(), &fate, why.error) {
            job.tell(&event);
        }
        let Some(sub) = self.subs.get_mut(at) else { return };
        let happening = Happening::settled(why.what, &fate);
        self.stream.pass(now, happening, uid, sub.group.as_ref(), attempts);
        match fate {
            Fate::Done => {
                sub.done += 1;
                self.memos.end(&uid, JobState::Done, why.result, now);
            }
            Fate::Cancelled => {
                sub.cancelled += 1;
                self.memos.end(&uid, JobState::Cancelled, None, now);
            }
            Fate::Ready => {
                job.place = Place::Ready;
                sub.put(uid, job);
            }
            Fate::Due(due) => {
                (job.due, job.seq, job.place) = (due, seq, waiting(due, now));
                sub.put(uid, job);
            }
            Fate::Dead(reason, error) => {
                (job.error, job.seq) = (Some(error), seq);
                job.place = Place::Dead { reason, at: now };
                sub.put(uid, job);
                self.memos.end(&uid, JobState::Dead, None, now);
            }
        }
    }

    /// What the limits allow, and when they would allow more.
    fn hand_out(&mut self, at: usize, req: &Step, now: &Now) -> (Vec<Taken>, Option<Timestamp>) {
        let (most, rate) = (self.limits.concurrency, self.limits.rate);
        let fence = machine::fence(self.fence, now.wall);
        let Some(sub) = self.subs.get_mut(at) else { return (Vec::new(), None) };
        if sub.paused {
            return (Vec::new(), None);
        }
        let mut want = req.want.min(MOST);
        if let Some(most) = most {
            want = want.min((most as usize).saturating_sub(sub.running()));
        }
        let asked = want;
        if let Some(rate) = rate {
            want = sub.bucket.admits(rate, now.wall, want);
        }
        let mut jobs = Vec::new();
        while jobs.len() < want
            && let Some(uid) = sub.first_ready()
            && let Some(mut job) = sub.take(&uid)
        {
            job.delivery += 1;
            job.place = Place::Running {
                consumer: req.consumer.clone(),
                until: now.boot.after(req.lease.get()),
                taken_at: now.wall,
                progress: None,
            };
            let attempts = job.facts.counts.attempts;
            self.stream.pass(now.wall, Happening::Started, uid, sub.group.as_ref(), attempts);
            jobs.push(taken(uid, &job, fence));
            sub.put(uid, job);
        }
        let mut later = None;
        if let Some(rate) = rate {
            sub.bucket.take(rate, jobs.len());
            if jobs.len() < asked && sub.first_ready().is_some() {
                later = Some(now.wall.after(sub.bucket.next(rate)));
            }
        }
        if !jobs.is_empty() {
            self.fence = fence;
        }
        (jobs, later)
    }
}

/// Why a job that ran is settled.
#[derive(Clone, Copy)]
pub(super) struct Why<'a> {
    pub(super) what: What,
    pub(super) error: Option<&'a str>,
    pub(super) result: Option<&'a (Receipt, Span)>,
}

impl Why<'_> {
    pub(super) fn of(what: What) -> Self {
        Self { what, error: None, result: None }
    }
}

fn taken(uid: Uid, job: &Job, fence: u64) -> Taken {
    Taken {
        uid,
        job_id: job.what.job_id.clone(),
        delivery: job.delivery,
        fence,
        counts: job.facts.counts,
        snoozed_since: job.facts.snoozed_since,
        payload: job.what.payload.clone(),
        settings: job.what.settings.clone(),
        added_at: job.added_at,
    }
}
