//! Queues: the contract of a store, each step a function of the server and one round trip.
//!
//! Steps of one queue do not wait for each other, unless its bounds say that they must: jobs are taken with
//! `FOR UPDATE SKIP LOCKED`, and the figures of a group are sums over rows of which each step changes a free one.

mod add;
mod beat;
mod books;
mod events;
mod info;
mod manage;
mod row;
mod schedule;
mod step;
mod wake;

pub(crate) use wake::Ear;

use crate::{call::Call, error::Failure, sessions::Lane, store::PostgresStore, value::Value};
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
use sqlx::{Error, postgres::PgRow};
use std::sync::Arc;
use tokio::time::Instant;

impl PostgresStore {
    /// Calls a function. `resend`: it may be sent again where its reply was lost.
    async fn asked<A>(
        &self,
        op: &'static str,
        function: &'static str,
        values: Vec<Value>,
        resend: bool,
        read: impl FnOnce(&[PgRow]) -> Result<A, Error>,
    ) -> StoreResult<A> {
        let call = Call::one(self.schema(), function, &values);
        let asked = async {
            // Says by itself where there is no runtime.
            self.sessions.berth()?;
            let rows = self.sessions.call(&call, resend, Instant::now() + self.limit(), Lane::Alone).await?;
            read(&rows).map_err(|error| Failure::of(&self.sessions.place, error))
        };
        asked.await.map_err(|failure| failure.error(op))
    }
}

#[async_trait]
impl QueueStore for PostgresStore {
    async fn add(&self, queue: &QueueId, jobs: &[NewJob]) -> StoreResult<Vec<Added>> {
        self.add_jobs(queue, jobs).await
    }

    async fn subscribe(&self, queue: &QueueId, group: &Group) -> StoreResult<Subscribed> {
        self.join(queue, group).await
    }

    async fn unsubscribe(&self, queue: &QueueId, group: &Group) -> StoreResult<Option<u64>> {
        self.drop_group(queue, group).await
    }

    async fn step(&self, req: &Step) -> StoreResult<Stepped> {
        self.take_step(req).await
    }

    async fn beat(&self, req: &Beat) -> StoreResult<Beaten> {
        self.keep_jobs(req).await
    }

    async fn give_back(&self, req: &GiveBack) -> StoreResult<Vec<Write>> {
        self.take_back(req).await
    }

    async fn wait(&self, req: &Wait) -> StoreResult<()> {
        self.await_jobs(req).await
    }

    async fn find(&self, queue: &QueueId, job: &JobRef) -> StoreResult<Vec<JobInfo>> {
        self.find_job(queue, job).await
    }

    async fn list(&self, req: &ListJobs) -> StoreResult<JobPage> {
        self.list_jobs(req).await
    }

    async fn stats(&self, namespace: &Namespace, queue: Option<&QueueName>) -> StoreResult<Vec<QueueStats>> {
        self.figures(namespace, queue).await
    }

    async fn books(&self, queue: Option<&QueueId>) -> StoreResult<Books> {
        self.look_at_books(queue).await
    }

    async fn events(&self, req: &ReadEvents) -> StoreResult<EventPage> {
        self.passed(req).await
    }

    async fn cancel(&self, queue: &QueueId, job: &JobRef) -> StoreResult<Cancelled> {
        self.cancel_job(queue, job).await
    }

    async fn reschedule(&self, queue: &QueueId, job: &JobRef, due: Due) -> StoreResult<u64> {
        self.postpone(queue, job, due).await
    }

    async fn pause(&self, queue: &QueueId, group: Option<&Group>, paused: bool) -> StoreResult<u64> {
        self.hold_back(queue, group, paused).await
    }

    async fn redrive(&self, req: &Redrive) -> StoreResult<Vec<Redriven>> {
        self.revive(req).await
    }

    async fn edit(&self, req: &Edit) -> StoreResult<bool> {
        self.edit_dead(req).await
    }

    async fn drop_dead(&self, queue: &QueueId, group: Option<&Group>, uids: &[Uid]) -> StoreResult<u64> {
        self.drop_letters(queue, group, uids).await
    }

    async fn purge(&self, queue: &QueueId) -> StoreResult<u64> {
        self.clear(queue).await
    }

    async fn set_limits(&self, queue: &QueueId, limits: &Limits) -> StoreResult<()> {
        self.bound(queue, limits).await
    }

    async fn limits(&self, queue: &QueueId) -> StoreResult<Limits> {
        self.bounds(queue).await
    }

    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        self.forget_jobs(limit).await
    }

    async fn put_schedule(&self, namespace: &Namespace, schedule: &Schedule) -> StoreResult<Put> {
        self.put(namespace, schedule).await
    }

    async fn schedules(&self, req: &Schedules) -> StoreResult<Vec<Schedule>> {
        self.kept(req).await
    }

    async fn remove_schedule(
        &self,
        namespace: &Namespace,
        name: &ScheduleName,
        seen: Option<&Schedule>,
    ) -> StoreResult<bool> {
        self.remove(namespace, name, seen).await
    }

    async fn advance_schedule(
        &self,
        namespace: &Namespace,
        name: &ScheduleName,
        from: Timestamp,
        to: Timestamp,
    ) -> StoreResult<bool> {
        self.advance(namespace, name, (from, to)).await
    }

    fn joins(&self, keys: &Arc<dyn IdempotencyStore>) -> bool {
        // One store is both: its keys and its queues are rows of one schema.
        std::ptr::addr_eq(Arc::as_ptr(keys), self)
    }
}
