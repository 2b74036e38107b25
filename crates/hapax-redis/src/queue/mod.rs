//! Queues on Redis.
//!
//! A job lies in one hash, and its place is told by one sorted set: waiting jobs by the time at which they may start,
//! running ones by the end of their lease, dead letters by their death. So a job that becomes due needs nobody to move
//! it, jobs start in the exact order of the contract, and whoever looks for dead workers sees none that lives. Each
//! transition is one script. See `docs/decisions.md` for why it is not a stream.

mod add;
mod books;
mod call;
mod events;
mod form;
mod index;
mod keys;
mod manage;
mod schedules;
mod script;
mod show;
mod step;
mod wait;

use crate::{error::Failure, store::RedisStore};
use async_trait::async_trait;
use hapax_core::{
    Namespace, StoreResult, Timestamp,
    idempotency::{IdempotencyStore, Write},
    queue::{
        Added, Beat, Beaten, Books, Cancelled, Due, Edit, EventPage, GiveBack, Group, JobInfo, JobPage,
        JobRef, Limits, ListJobs, NewJob, Put, QueueId, QueueName, QueueStats, QueueStore, ReadEvents,
        Redrive, Redriven, Schedule, ScheduleName, Schedules, Step, Stepped, Subscribed, Uid, Wait,
    },
};
use keys::Place;
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

/// Queues beside the keys of a [`RedisStore`], on its connections and one more for whoever waits for jobs.
///
/// Where it promises less than the contract, or more exactly:
///
/// - A job without an id is found after its end among those that ended lately: 4,096 at least, for 10 minutes. That it was
///   added is known for 10 minutes from then, so that an `add` that is sent again adds nothing; when that job is over and
///   forgotten, the answer says that it is due now.
/// - [`purge`](QueueStore::purge) and [`unsubscribe`](QueueStore::unsubscribe) go on in parts, each of them whole.
/// - Delivery numbers have gaps: they are the fences of the steps.
/// - Pages of jobs of all groups come one group after the other.
/// - After a failover or with `appendfsync everysec`, what the server has lost is lost, always whole steps.
pub struct RedisQueues(Arc<Queues>);

impl RedisQueues {
    /// The queues of a store.
    pub fn of(store: &Arc<RedisStore>) -> Self {
        Self(Arc::new(Queues {
            store: Arc::clone(store),
            places: RwLock::default(),
            gathered: add::Gathered::default(),
            waiters: wait::Waiters::default(),
        }))
    }
}

/// What tasks share with the callers that they work for.
struct Queues {
    store: Arc<RedisStore>,
    places: RwLock<HashMap<QueueId, Arc<Place>>>,
    gathered: add::Gathered,
    waiters: wait::Waiters,
}

impl Queues {
    fn place(&self, queue: &QueueId) -> Arc<Place> {
        let known = self.places.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = known.get(queue) {
            return Arc::clone(place);
        }
        drop(known);
        let mut known = self.places.write().unwrap_or_else(PoisonError::into_inner);
        let prefix = &self.store.connector().options.prefix;
        Arc::clone(known.entry(queue.clone()).or_insert_with(|| Arc::new(Place::new(prefix, queue))))
    }
}

impl fmt::Debug for RedisQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisQueues").field("store", &self.0.store).finish_non_exhaustive()
    }
}

/// What a call does, for messages.
fn says<T>(op: &'static str, done: Result<T, Failure>) -> StoreResult<T> {
    done.map_err(|failure| failure.error(op))
}

#[async_trait]
impl QueueStore for RedisQueues {
    async fn add(&self, queue: &QueueId, jobs: &[NewJob]) -> StoreResult<Vec<Added>> {
        says("add jobs", self.0.added(queue, jobs).await)
    }

    async fn subscribe(&self, queue: &QueueId, group: &Group) -> StoreResult<Subscribed> {
        says("subscribe a group", self.0.subscribed(&self.0.place(queue), group).await)
    }

    async fn unsubscribe(&self, queue: &QueueId, group: &Group) -> StoreResult<Option<u64>> {
        says("drop a group", self.0.unsubscribed(queue, group).await)
    }

    async fn step(&self, req: &Step) -> StoreResult<Stepped> {
        says("take a step", self.0.stepped(req).await)
    }

    async fn beat(&self, req: &Beat) -> StoreResult<Beaten> {
        says("renew the leases of jobs", self.0.beaten(req).await)
    }

    async fn give_back(&self, req: &GiveBack) -> StoreResult<Vec<Write>> {
        says("give jobs back", self.0.given_back(req).await)
    }

    async fn wait(&self, req: &Wait) -> StoreResult<()> {
        says("wait for jobs", self.0.waited(req).await)
    }

    async fn find(&self, queue: &QueueId, job: &JobRef) -> StoreResult<Vec<JobInfo>> {
        says("look for a job", self.0.found(queue, job).await)
    }

    async fn list(&self, req: &ListJobs) -> StoreResult<JobPage> {
        let from = req.mark("redis", show::Cursor::parse)?;
        says("list jobs", self.0.page(req, from).await)
    }

    async fn stats(&self, namespace: &Namespace, queue: Option<&QueueName>) -> StoreResult<Vec<QueueStats>> {
        says("count jobs", self.0.counted(namespace, queue).await)
    }

    async fn books(&self, queue: Option<&QueueId>) -> StoreResult<Books> {
        says("look at queues", self.0.looked(queue).await)
    }

    async fn events(&self, req: &ReadEvents) -> StoreResult<EventPage> {
        says("read events", self.0.passed(req).await)
    }

    async fn cancel(&self, queue: &QueueId, job: &JobRef) -> StoreResult<Cancelled> {
        says("cancel a job", self.0.cancelled(queue, job).await)
    }

    async fn reschedule(&self, queue: &QueueId, job: &JobRef, due: Due) -> StoreResult<u64> {
        says("give a job another time", self.0.rescheduled(queue, job, due).await)
    }

    async fn pause(&self, queue: &QueueId, group: Option<&Group>, paused: bool) -> StoreResult<u64> {
        says("pause a queue", self.0.paused(queue, group, paused).await)
    }

    async fn redrive(&self, req: &Redrive) -> StoreResult<Vec<Redriven>> {
        says("redrive dead letters", self.0.redriven(req).await)
    }

    async fn edit(&self, req: &Edit) -> StoreResult<bool> {
        says("edit a dead letter", self.0.edited(req).await)
    }

    async fn drop_dead(&self, queue: &QueueId, group: Option<&Group>, uids: &[Uid]) -> StoreResult<u64> {
        says("drop dead letters", self.0.dropped(queue, group, uids).await)
    }

    /// In parts: what is added meanwhile may stay.
    async fn purge(&self, queue: &QueueId) -> StoreResult<u64> {
        says("purge a queue", self.0.purged(queue).await)
    }

    async fn set_limits(&self, queue: &QueueId, limits: &Limits) -> StoreResult<()> {
        says("set the bounds of a queue", self.0.bounded(queue, limits).await)
    }

    async fn limits(&self, queue: &QueueId) -> StoreResult<Limits> {
        says("read the bounds of a queue", self.0.bounds(queue).await)
    }

    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        says("forget jobs", self.0.pruned(limit).await)
    }

    async fn put_schedule(&self, namespace: &Namespace, schedule: &Schedule) -> StoreResult<Put> {
        says("put a schedule", self.0.scheduled(namespace, schedule).await)
    }

    async fn schedules(&self, req: &Schedules) -> StoreResult<Vec<Schedule>> {
        says("read schedules", self.0.all_schedules(req).await)
    }

    async fn remove_schedule(
        &self,
        namespace: &Namespace,
        name: &ScheduleName,
        seen: Option<&Schedule>,
    ) -> StoreResult<bool> {
        says("remove a schedule", self.0.unscheduled(namespace, name, seen).await)
    }

    async fn advance_schedule(
        &self,
        namespace: &Namespace,
        name: &ScheduleName,
        from: Timestamp,
        to: Timestamp,
    ) -> StoreResult<bool> {
        says("advance a schedule", self.0.advanced(namespace, name, from, to).await)
    }

    /// On one server, or behind Sentinels, with the keys of the very store that these queues are of. In a Cluster the
    /// two lie in different slots.
    fn joins(&self, keys: &Arc<dyn IdempotencyStore>) -> bool {
        let (ours, theirs) = (Arc::as_ptr(&self.0.store).cast::<()>(), Arc::as_ptr(keys).cast::<()>());
        ours == theirs && !self.0.store.connector().is_cluster()
    }
}
