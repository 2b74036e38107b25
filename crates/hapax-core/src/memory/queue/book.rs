//! One queue: its groups, what is remembered, and the steps on both.

use super::{
    memo::Memos,
    sub::{Job, Place, Sub},
};
use crate::{
    Now, Span, Timestamp,
    idempotency::{Receipt, Write},
    queue::{
        Added, Beat, Beaten, Cancelled, Consumer, Counts, Due, End, Finish, GiveBack, Group, GroupBooks,
        JobInfo, JobRef, JobState, Limits, MOST, NewJob, OnConflict, QueueId, QueueName, QueueStats, Step,
        Stepped, Subscribed, Taken, Uid,
        history::{Event, History, What},
        machine::{self, Fate},
    },
};
use bytes::Bytes;

#[derive(Debug)]
pub(super) struct Book {
    pub(super) subs: Vec<Sub>,
    pub(super) memos: Memos,
    pub(super) limits: Limits,
    seq: u64,
    fence: u64,
}

impl Book {
    pub(super) fn new() -> Self {
        let subs = vec![Sub::new(None)];
        Self { subs, memos: Memos::default(), limits: Limits::default(), seq: 0, fence: 0 }
    }

    /// What is due is ready.
    pub(super) fn promote(&mut self, now: Timestamp) {
        self.subs.iter_mut().for_each(|sub| sub.promote(now));
    }

    fn seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

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

    /// How far a job is, over all groups.
    pub(super) fn state(&self, uid: &Uid, now: Timestamp) -> Option<JobState> {
        let mut found = self.memos.get(uid, now).and_then(|memo| memo.end).map(|(state, _)| state);
        for sub in &self.subs {
            let state = match sub.job(uid).map(|job| &job.place) {
                Some(Place::Running { .. }) => return Some(JobState::Running),
                Some(Place::Ready) => JobState::Ready,
                Some(Place::Delayed) => JobState::Delayed,
                Some(Place::Dead { .. }) => JobState::Dead,
                None => continue,
            };
            found = Some(found.map_or(state, |before| before.min(state)));
        }
        found
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

    fn sub(&self, group: &Group) -> Option<usize> {
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
    fn settle(&mut self, at: usize, uid: Uid, mut job: Job, fate: Fate, why: Why<'_>, now: Timestamp) {
        let seq = self.seq();
        let attempts = job.facts.counts.attempts;
        if let Some(event) = Event::settled(now, why.what, attempts, job.consumer(), &fate, why.error) {
            job.tell(&event);
        }
        let Some(sub) = self.subs.get_mut(at) else { return };
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
        let (limits, fence) = (self.limits, machine::fence(self.fence, now.wall));
        let Some(sub) = self.subs.get_mut(at) else { return (Vec::new(), None) };
        if sub.paused {
            return (Vec::new(), None);
        }
        let mut want = req.want.min(MOST);
        if let Some(most) = limits.concurrency {
            want = want.min((most as usize).saturating_sub(sub.running()));
        }
        let asked = want;
        if let Some(rate) = limits.rate {
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
            };
            jobs.push(taken(uid, &job, fence));
            sub.put(uid, job);
        }
        let mut later = None;
        if let Some(rate) = limits.rate {
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

    pub(super) fn beat(&mut self, req: &Beat, now: &Now) -> Beaten {
        let mut answer = Beaten { now: now.wall, ..Beaten::default() };
        let Some(at) = self.sub(&req.group) else {
            answer.lost = req.held.iter().map(|(uid, _)| *uid).collect();
            return answer;
        };
        let Some(sub) = self.subs.get_mut(at) else { return answer };
        sub.seen = Some(now.wall);
        for (uid, delivery) in &req.held {
            match sub.take_held(uid, *delivery, &req.consumer) {
                Some(mut job) => {
                    if job.facts.cancelled {
                        answer.cancelled.push(*uid);
                    }
                    if let Place::Running { until, .. } = &mut job.place {
                        *until = now.boot.after(req.lease.get()).max(*until);
                    }
                    sub.put(*uid, job);
                }
                None => answer.lost.push(*uid),
            }
        }
        let unknown = sub.held_by(&req.consumer).into_iter().filter(|(uid, delivery, taken_at)| {
            req.since.is_some_and(|since| *taken_at < since) && !req.held.contains(&(*uid, *delivery))
        });
        for (uid, delivery, _) in unknown.collect::<Vec<_>>() {
            if self.give_back_one(at, &req.consumer, (uid, delivery), now) == Write::Applied {
                answer.freed += 1;
            }
        }
        answer
    }

    pub(super) fn give_back(&mut self, req: &GiveBack, now: &Now) -> Vec<Write> {
        let Some(at) = self.sub(&req.group) else { return vec![Write::Fenced; req.jobs.len()] };
        let answers = req.jobs.iter().map(|job| self.give_back_one(at, &req.consumer, *job, now)).collect();
        if req.leave {
            let held = self.subs.get(at).map(|sub| sub.held_by(&req.consumer)).unwrap_or_default();
            for (uid, delivery, _) in held {
                let _ = self.give_back_one(at, &req.consumer, (uid, delivery), now);
            }
        }
        answers
    }

    fn give_back_one(
        &mut self,
        at: usize,
        consumer: &Consumer,
        (uid, delivery): (Uid, u64),
        now: &Now,
    ) -> Write {
        let job = self.subs.get_mut(at).and_then(|sub| sub.take_held(&uid, delivery, consumer));
        let Some(mut job) = job else { return Write::Fenced };
        let fate = machine::give_back(&mut job.facts);
        self.settle(at, uid, job, fate, Why::of(What::GivenBack), now.wall);
        Write::Applied
    }

    /// The job that is meant, where it is known.
    pub(super) fn uid(&self, job: &JobRef, now: Timestamp) -> Option<Uid> {
        match job {
            JobRef::Uid(uid) => Some(*uid),
            JobRef::JobId(id) => self.memos.by_id(id, now).or_else(|| {
                // A dead letter whose id is free again is still found by it.
                let dead = |sub: &Sub| {
                    sub.listed(JobState::Dead)
                        .into_iter()
                        .find(|uid| sub.job(uid).is_some_and(|job| job.what.job_id.as_ref() == Some(id)))
                };
                self.subs.iter().find_map(dead)
            }),
        }
    }

    pub(super) fn find(&self, job: &JobRef, now: &Now) -> Vec<JobInfo> {
        let Some(uid) = self.uid(job, now.wall) else { return Vec::new() };
        let told = |sub: &Sub| sub.job(&uid).map(|job| History::read(&job.told)).unwrap_or_default();
        let of = |sub: &Sub| sub.info(&uid, now).map(|info| JobInfo { history: told(sub), ..info });
        let mut found: Vec<JobInfo> = self.subs.iter().filter_map(of).collect();
        let Some(memo) = self.memos.get(&uid, now.wall) else { return found };
        if let (true, Some((state, at))) = (found.is_empty(), memo.end) {
            found.push(JobInfo {
                uid,
                job_id: memo.job_id.clone(),
                group: None,
                state,
                priority: memo.priority,
                counts: Counts::default(),
                added_at: memo.added_at,
                at,
                consumer: None,
                taken_at: None,
                reason: None,
                error: None,
                payload: Bytes::new(),
                settings: memo.settings.clone(),
                result: memo.result(now.wall),
                history: History::default(),
            });
        }
        found
    }

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

    pub(super) fn stats(&self, queue: &QueueName, now: Timestamp) -> Vec<QueueStats> {
        self.subs.iter().map(|sub| sub.stats(queue, now)).collect()
    }

    /// Looks at the records themselves.
    pub(super) fn look(&self, id: &QueueId, now: &Now) -> Vec<GroupBooks> {
        let of = |(n, sub): (usize, &Sub)| GroupBooks {
            // Of the queue, and told once.
            dangling: if n == 0 { self.memos.dangling() } else { 0 },
            ..sub.look(id, now)
        };
        self.subs.iter().enumerate().map(of).collect()
    }

    /// Makes a dead letter a job again.
    pub(super) fn revive(&mut self, at: usize, uid: &Uid, now: Timestamp) {
        let seq = self.seq();
        let Some(sub) = self.subs.get_mut(at) else { return };
        let Some(mut job) = sub.take(uid) else { return };
        machine::redrive(&mut job.facts);
        (job.due, job.seq, job.error, job.place) = (now, seq, None, Place::Ready);
        job.tells(now, What::Redriven, None);
        let again = job.what.clone();
        sub.put(*uid, job);
        self.memos.revive(&again, now);
    }
}

/// Why a job that ran is settled.
#[derive(Clone, Copy)]
struct Why<'a> {
    what: What,
    error: Option<&'a str>,
    result: Option<&'a (Receipt, Span)>,
}

impl Why<'_> {
    fn of(what: What) -> Self {
        Self { what, error: None, result: None }
    }
}

fn waiting(due: Timestamp, now: Timestamp) -> Place {
    if due <= now { Place::Ready } else { Place::Delayed }
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
