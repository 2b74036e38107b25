//! Queues in memory: for tests and single processes, and the reference for every other store.

mod add;
mod beat;
mod book;
mod info;
mod manage;
mod memo;
mod step;
mod stream;
mod sub;

use super::MemoryStore;
use crate::{
    Clock, Namespace, Now, StoreError, StoreErrorKind, StoreResult, Timestamp,
    idempotency::{IdempotencyStore, Write},
    queue::{
        Added, Beat, Beaten, Books, Cancelled, Due, Edit, EventPage, Finished, GiveBack, Group, JobInfo,
        JobPage, JobRef, Limits, ListJobs, NewJob, Put, QueueId, QueueName, QueueStats, QueueStore,
        ReadEvents, Redrive, Redriven, Schedule, ScheduleName, Schedules, Step, Stepped, Subscribed, Uid,
        Wait, books::MOST_QUEUES, history::What,
    },
};
use async_trait::async_trait;
use book::Book;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use sub::Place;
use tokio::sync::Notify;

/// Queues of this process. Forgets them on a restart. Bounded where a queue's [`Limits`] say so.
#[derive(Debug)]
pub struct MemoryQueues {
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
    /// The keys that a finish may complete.
    keys: Option<Arc<MemoryStore>>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    books: BTreeMap<QueueId, Book>,
    schedules: BTreeMap<(Namespace, ScheduleName), Schedule>,
}

impl MemoryQueues {
    /// No queues, on `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { state: Mutex::default(), clock, keys: None, changed: Notify::new() }
    }

    /// Beside the keys of `store`: a finish may complete one of them.
    #[must_use]
    pub fn with_keys(self, store: Arc<MemoryStore>) -> Self {
        Self { keys: Some(store), ..self }
    }

    fn state(&self) -> (MutexGuard<'_, State>, Now) {
        // A panic inside a step leaves a queue that may have lost count of one job, and no lock.
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.read();
        (state, now)
    }

    /// A step on a queue, which comes into being where it is not there.
    fn with<A>(&self, queue: &QueueId, step: impl FnOnce(&mut Book, &Now) -> A) -> A {
        let (mut state, now) = self.state();
        let book = state.books.entry(queue.clone()).or_insert_with(Book::new);
        book.promote(now.wall);
        step(book, &now)
    }

    /// Whoever waits looks again. Not after each step: idle workers would wake each other for ever.
    fn wake(&self) {
        self.changed.notify_waiters();
    }

    /// A step on a queue that is there.
    fn on<A: Default>(&self, queue: &QueueId, step: impl FnOnce(&mut Book, &Now) -> A) -> A {
        let (mut state, now) = self.state();
        let answer = state.books.get_mut(queue).map(|book| {
            book.promote(now.wall);
            step(book, &now)
        });
        answer.unwrap_or_default()
    }

    /// In how long a step of the group may find something; zero: now.
    fn next(&self, req: &Wait) -> Duration {
        let (mut state, now) = self.state();
        let Some(book) = state.books.get_mut(&req.queue) else { return req.limit };
        book.promote(now.wall);
        let Some(sub) = book.meant(Some(&req.group)).pop().and_then(|at| book.subs.get(at)) else {
            return req.limit;
        };
        sub.next(&book.limits, &now).unwrap_or(req.limit).min(req.limit)
    }
}

fn internal(op: &'static str) -> StoreError {
    StoreError::new(StoreErrorKind::Internal, "memory", op, "a key came without the store that holds it")
}

#[async_trait]
impl QueueStore for MemoryQueues {
    async fn add(&self, queue: &QueueId, jobs: &[NewJob]) -> StoreResult<Vec<Added>> {
        let answers = self.with(queue, |book, now| jobs.iter().map(|job| book.add(job, now)).collect());
        self.wake();
        Ok(answers)
    }

    async fn subscribe(&self, queue: &QueueId, group: &Group) -> StoreResult<Subscribed> {
        Ok(self.with(queue, |book, _| book.subscribe(group)))
    }

    async fn unsubscribe(&self, queue: &QueueId, group: &Group) -> StoreResult<Option<u64>> {
        Ok(self.on(queue, |book, now| book.unsubscribe(group, now.wall)))
    }

    async fn step(&self, req: &Step) -> StoreResult<Stepped> {
        // Keys first: an error leaves every job as it was, and a key that was completed says so again.
        let mut keys = Vec::with_capacity(req.finishes.len());
        for finish in &req.finishes {
            keys.push(match (&finish.key, &self.keys) {
                (None, _) => None,
                (Some(key), Some(store)) => Some(store.complete(key).await?),
                (Some(_), None) => return Err(internal("finish a job")),
            });
        }
        let (ended, mut answer) = self.with(&req.queue, |book, now| book.step(req, now));
        if !req.finishes.is_empty() {
            // A place is free, or another job is due.
            self.wake();
        }
        answer.finished = ended.into_iter().zip(keys).map(|(job, key)| Finished { job, key }).collect();
        Ok(answer)
    }

    async fn beat(&self, req: &Beat) -> StoreResult<Beaten> {
        let beaten = self.on(&req.queue, |book, now| Some(book.beat(req, now)));
        if beaten.as_ref().is_some_and(|beaten| beaten.freed > 0) {
            self.wake();
        }
        Ok(beaten.unwrap_or_else(|| Beaten {
            lost: req.held.iter().map(|(uid, _)| *uid).collect(),
            now: self.clock.now(),
            ..Beaten::default()
        }))
    }

    async fn give_back(&self, req: &GiveBack) -> StoreResult<Vec<Write>> {
        let given = self.on(&req.queue, |book, now| Some(book.give_back(req, now)));
        self.wake();
        Ok(given.unwrap_or_else(|| vec![Write::Fenced; req.jobs.len()]))
    }

    async fn wait(&self, req: &Wait) -> StoreResult<()> {
        let changed = self.changed.notified();
        let limit = self.next(req);
        if limit > Duration::ZERO {
            // Any change ends it, also one of another queue: it may return early.
            let _ = tokio::time::timeout(limit, changed).await;
        }
        Ok(())
    }

    async fn find(&self, queue: &QueueId, job: &JobRef) -> StoreResult<Vec<JobInfo>> {
        Ok(self.on(queue, |book, now| book.find(job, now)))
    }

    async fn list(&self, req: &ListJobs) -> StoreResult<JobPage> {
        // A page goes on behind the last job of the one before. Where that is gone, it goes on at its place.
        let from = req.mark("memory", |text| text.parse::<usize>().ok())?.unwrap_or_default();
        Ok(self.on(&req.queue, |book, now| {
            let meant = book.meant(req.group.as_ref());
            let all = meant
                .iter()
                .filter_map(|at| book.subs.get(*at))
                .flat_map(|sub| sub.listed(req.state).into_iter().filter_map(move |uid| sub.info(&uid, now)));
            let mut jobs: Vec<JobInfo> = all.skip(from).take(req.limit.saturating_add(1)).collect();
            let more = jobs.len() > req.limit;
            jobs.truncate(req.limit);
            JobPage { jobs, next: more.then(|| from.saturating_add(req.limit).to_string()) }
        }))
    }

    async fn stats(&self, namespace: &Namespace, queue: Option<&QueueName>) -> StoreResult<Vec<QueueStats>> {
        let (mut state, now) = self.state();
        let meant = state
            .books
            .iter_mut()
            .filter(|(id, _)| id.namespace == *namespace && queue.is_none_or(|name| *name == id.name));
        Ok(meant
            .flat_map(|(id, book)| {
                book.promote(now.wall);
                book.stats(&id.name, now.wall)
            })
            .collect())
    }

    async fn books(&self, queue: Option<&QueueId>) -> StoreResult<Books> {
        let (mut state, now) = self.state();
        let mut found = Books::default();
        let meant = state.books.iter_mut().filter(|(id, _)| queue.is_none_or(|queue| *queue == **id));
        for (n, (id, book)) in meant.enumerate() {
            if n == MOST_QUEUES {
                found.is_more = true;
                break;
            }
            book.promote(now.wall);
            found.groups.extend(book.look(id, &now));
        }
        Ok(found)
    }

    async fn events(&self, req: &ReadEvents) -> StoreResult<EventPage> {
        Ok(self.on(&req.queue, |book, _| book.stream.page(req)))
    }

    async fn cancel(&self, queue: &QueueId, job: &JobRef) -> StoreResult<Cancelled> {
        Ok(self.on(queue, |book, now| book.cancel(job, now)))
    }

    async fn reschedule(&self, queue: &QueueId, job: &JobRef, due: Due) -> StoreResult<u64> {
        let moved = self.on(queue, |book, now| book.reschedule(job, due, now));
        self.wake();
        Ok(moved)
    }

    async fn pause(&self, queue: &QueueId, group: Option<&Group>, paused: bool) -> StoreResult<u64> {
        let groups = self.on(queue, |book, _| {
            let meant = book.meant(group);
            for at in &meant {
                if let Some(sub) = book.subs.get_mut(*at) {
                    sub.paused = paused;
                }
            }
            u64::try_from(meant.len()).unwrap_or(u64::MAX)
        });
        self.wake();
        Ok(groups)
    }

    async fn redrive(&self, req: &Redrive) -> StoreResult<Vec<Redriven>> {
        let answers = self.on(&req.queue, |book, now| {
            let [at] = book.meant(req.group.as_ref())[..] else { return Vec::new() };
            req.uids.iter().map(|uid| book.redrive(at, uid, req.force, now.wall)).collect()
        });
        self.wake();
        Ok(if answers.is_empty() { vec![Redriven::NotDead; req.uids.len()] } else { answers })
    }

    async fn edit(&self, req: &Edit) -> StoreResult<bool> {
        Ok(self.on(&req.queue, |book, now| {
            let [at] = book.meant(req.group.as_ref())[..] else { return false };
            let is_dead = |sub: &&mut sub::Sub| {
                sub.job(&req.uid).is_some_and(|job| matches!(job.place, Place::Dead { .. }))
            };
            let Some(sub) = book.subs.get_mut(at).filter(is_dead) else { return false };
            let Some(mut job) = sub.take(&req.uid) else { return false };
            (job.what.payload, job.what.fingerprint) = (req.payload.clone(), req.fingerprint);
            job.tells(now.wall, What::Edited, None);
            sub.put(req.uid, job);
            book.memos.change(&req.uid, |memo| memo.fingerprint = req.fingerprint);
            true
        }))
    }

    async fn drop_dead(&self, queue: &QueueId, group: Option<&Group>, uids: &[Uid]) -> StoreResult<u64> {
        Ok(self.on(queue, |book, now| {
            let mut dropped = 0;
            for at in book.meant(group) {
                for uid in uids {
                    let job = book.subs.get(at).and_then(|sub| sub.job(uid));
                    if job.is_some_and(|job| matches!(job.place, Place::Dead { .. })) {
                        dropped += u64::from(book.remove(at, uid, now.wall));
                    }
                }
            }
            dropped
        }))
    }

    async fn purge(&self, queue: &QueueId) -> StoreResult<u64> {
        Ok(self.on(queue, |book, now| (0..book.subs.len()).map(|at| book.clear(at, now.wall)).sum()))
    }

    async fn set_limits(&self, queue: &QueueId, limits: &Limits) -> StoreResult<()> {
        self.with(queue, |book, _| {
            book.limits = limits.clone();
            book.stream.keep(limits.events);
        });
        self.wake();
        Ok(())
    }

    async fn limits(&self, queue: &QueueId) -> StoreResult<Limits> {
        Ok(self.on(queue, |book, _| book.limits.clone()))
    }

    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        let (mut state, now) = self.state();
        let mut pruned = 0;
        for book in state.books.values_mut() {
            pruned += book.memos.prune(limit - pruned, now.wall);
        }
        Ok(pruned)
    }

    async fn put_schedule(&self, namespace: &Namespace, schedule: &Schedule) -> StoreResult<Put> {
        let (mut state, _) = self.state();
        let key = (namespace.clone(), schedule.name.clone());
        let stays = state
            .schedules
            .get(&key)
            .is_some_and(|there| there.owner != schedule.owner || there.revision > schedule.revision);
        if stays {
            return Ok(Put::Refused);
        }
        state.schedules.insert(key, schedule.clone());
        Ok(Put::Stored)
    }

    async fn schedules(&self, req: &Schedules) -> StoreResult<Vec<Schedule>> {
        let (state, _) = self.state();
        let due = state.schedules.iter().filter(|((namespace, _), schedule)| {
            *namespace == req.namespace && req.by.is_none_or(|by| schedule.next <= by)
        });
        Ok(due.map(|(_, schedule)| schedule.clone()).collect())
    }

    async fn remove_schedule(
        &self,
        namespace: &Namespace,
        name: &ScheduleName,
        seen: Option<&Schedule>,
    ) -> StoreResult<bool> {
        let (mut state, _) = self.state();
        let key = (namespace.clone(), name.clone());
        let is_meant = |there: &Schedule| {
            seen.is_none_or(|seen| (&seen.owner, seen.revision) == (&there.owner, there.revision))
        };
        if !state.schedules.get(&key).is_some_and(is_meant) {
            return Ok(false);
        }
        Ok(state.schedules.remove(&key).is_some())
    }

    async fn advance_schedule(
        &self,
        namespace: &Namespace,
        name: &ScheduleName,
        from: Timestamp,
        to: Timestamp,
    ) -> StoreResult<bool> {
        let (mut state, _) = self.state();
        let schedule = state.schedules.get_mut(&(namespace.clone(), name.clone()));
        Ok(schedule.filter(|schedule| schedule.next == from).map(|schedule| schedule.next = to).is_some())
    }

    fn joins(&self, keys: &Arc<dyn IdempotencyStore>) -> bool {
        let theirs = Arc::as_ptr(keys).cast::<()>();
        self.keys.as_ref().is_some_and(|ours| Arc::as_ptr(ours).cast::<()>() == theirs)
    }
}
