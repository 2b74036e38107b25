//! Queues: the contract of a store, on the writer and the readers.
//!
//! A step on a queue is one more step of the writer, and shares its commits with everything else that the process
//! writes. It reads the rows of the queue and its groups first and writes them back last, so that their counters cost
//! one write a step, however many jobs it is about.

mod add;
mod beat;
mod book;
mod books;
mod copy;
mod events;
mod info;
mod list;
mod manage;
mod record;
mod row;
mod schedule;
mod state;
mod stats;
mod step;
mod wake;

pub(crate) use record::forget;
pub(crate) use wake::{Bell, Lookout};

use crate::{step::Moment, store::SqliteStore};
use add::Add;
use async_trait::async_trait;
use book::Book;
use hapax_core::{
    Namespace, StoreResult, Timestamp,
    idempotency::{IdempotencyStore, Write},
    queue::{
        Added, Beat, Beaten, Books, Cancelled, Due, Edit, EventPage, GiveBack, Group, JobInfo, JobPage,
        JobRef, Limits, ListJobs, NewJob, Put, QueueId, QueueName, QueueStats, QueueStore, ReadEvents,
        Redrive, Redriven, Schedule, ScheduleName, Schedules, Step, Stepped, Subscribed, Uid, Wait,
    },
};
use manage::Manage;
use std::sync::Arc;

const READ: &str = "read a queue";
/// So many jobs are forgotten in one transaction.
const PRUNE: usize = 1_024;

impl SqliteStore {
    /// A step that is rare.
    async fn manage<A: Send + 'static>(
        &self,
        act: impl Fn(&Moment<'_>) -> rusqlite::Result<A> + Send + 'static,
    ) -> StoreResult<A> {
        self.writer.owned(Manage(act)).await
    }

    /// Reads a queue, on a thread for blocking work: it may be any number of rows.
    async fn look_at<A: Default + Send + 'static>(
        &self,
        queue: QueueId,
        read: impl Fn(&Moment<'_>, &Book) -> rusqlite::Result<A> + Send + 'static,
    ) -> StoreResult<A> {
        let read = move |at: &Moment<'_>| {
            // All rows are to be of one moment.
            let _same = at.conn.unchecked_transaction()?;
            Book::load(at, &queue)?.map(|book| read(at, &book)).transpose()
        };
        Ok(self.readers.elsewhere(READ, read).await?.unwrap_or_default())
    }
}

#[async_trait]
impl QueueStore for SqliteStore {
    async fn add(&self, queue: &QueueId, jobs: &[NewJob]) -> StoreResult<Vec<Added>> {
        self.writer.owned(Add { queue: queue.clone(), jobs: jobs.to_vec() }).await
    }

    async fn subscribe(&self, queue: &QueueId, group: &Group) -> StoreResult<Subscribed> {
        let (queue, group) = (queue.clone(), group.clone());
        self.manage(move |tx| Ok(Book::open(tx, &queue)?.subscribe(tx, &group)?.1)).await
    }

    /// In several transactions, where there are many jobs; the group goes with the last.
    async fn unsubscribe(&self, queue: &QueueId, group: &Group) -> StoreResult<Option<u64>> {
        let mut dropped = None;
        loop {
            let (queue, group) = (queue.clone(), group.clone());
            let Some(part) = self.manage(move |tx| manage::unsubscribe(tx, &queue, &group)).await? else {
                return Ok(dropped);
            };
            dropped = Some(dropped.unwrap_or_default() + part.removed);
            if part.is_last {
                return Ok(dropped);
            }
        }
    }

    async fn step(&self, req: &Step) -> StoreResult<Stepped> {
        self.writer.owned(req.clone()).await
    }

    async fn beat(&self, req: &Beat) -> StoreResult<Beaten> {
        self.writer.owned(req.clone()).await
    }

    async fn give_back(&self, req: &GiveBack) -> StoreResult<Vec<Write>> {
        self.writer.owned(req.clone()).await
    }

    async fn wait(&self, req: &Wait) -> StoreResult<()> {
        self.await_jobs(req).await
    }

    async fn find(&self, queue: &QueueId, job: &JobRef) -> StoreResult<Vec<JobInfo>> {
        let job = job.clone();
        self.look_at(queue.clone(), move |at, book| info::find(at, book, &job)).await
    }

    async fn list(&self, req: &ListJobs) -> StoreResult<JobPage> {
        let (list, after) = (req.clone(), list::Mark::of(req)?);
        self.look_at(req.queue.clone(), move |at, book| list::page(at, book, &list, after)).await
    }

    async fn stats(&self, namespace: &Namespace, queue: Option<&QueueName>) -> StoreResult<Vec<QueueStats>> {
        let (namespace, queue) = (namespace.clone(), queue.cloned());
        let read = move |at: &Moment<'_>| {
            let _same = at.conn.unchecked_transaction()?;
            stats::read(at, &namespace, queue.as_ref())
        };
        self.readers.elsewhere(READ, read).await
    }

    async fn events(&self, req: &ReadEvents) -> StoreResult<EventPage> {
        let read = req.clone();
        self.look_at(req.queue.clone(), move |at, book| events::page(at, book, &read)).await
    }

    async fn cancel(&self, queue: &QueueId, job: &JobRef) -> StoreResult<Cancelled> {
        let (queue, job) = (queue.clone(), job.clone());
        self.manage(move |tx| manage::cancel(tx, &queue, &job)).await
    }

    async fn reschedule(&self, queue: &QueueId, job: &JobRef, due: Due) -> StoreResult<u64> {
        let (queue, job) = (queue.clone(), job.clone());
        self.manage(move |tx| manage::reschedule(tx, &queue, &job, due)).await
    }

    async fn pause(&self, queue: &QueueId, group: Option<&Group>, paused: bool) -> StoreResult<u64> {
        let (queue, group) = (queue.clone(), group.cloned());
        self.manage(move |tx| manage::pause(tx, &queue, group.as_ref(), paused)).await
    }

    async fn redrive(&self, req: &Redrive) -> StoreResult<Vec<Redriven>> {
        let req = req.clone();
        self.manage(move |tx| manage::redrive(tx, &req)).await
    }

    async fn books(&self, queue: Option<&QueueId>) -> StoreResult<Books> {
        let queue = queue.cloned();
        self.readers.elsewhere(READ, move |at| books::look(at, queue.as_ref())).await
    }

    async fn edit(&self, req: &Edit) -> StoreResult<bool> {
        let req = req.clone();
        self.manage(move |tx| manage::edit(tx, &req)).await
    }

    async fn drop_dead(&self, queue: &QueueId, group: Option<&Group>, uids: &[Uid]) -> StoreResult<u64> {
        let (queue, group, uids) = (queue.clone(), group.cloned(), uids.to_vec());
        self.manage(move |tx| manage::drop_dead(tx, &queue, group.as_ref(), &uids)).await
    }

    /// In several transactions, where there are many jobs; none that is added meanwhile.
    async fn purge(&self, queue: &QueueId) -> StoreResult<u64> {
        let newest = self.manage(manage::newest).await?;
        let mut removed = 0;
        loop {
            let queue = queue.clone();
            let part = self.manage(move |tx| manage::purge(tx, &queue, newest)).await?;
            removed += part.removed;
            if part.is_last {
                return Ok(removed);
            }
        }
    }

    async fn set_limits(&self, queue: &QueueId, limits: &Limits) -> StoreResult<()> {
        let (queue, limits) = (queue.clone(), limits.clone());
        let set = move |tx: &Moment<'_>| {
            let mut book = Book::open(tx, &queue)?;
            book.queue.limits.clone_from(&limits);
            book.save(tx)
        };
        self.manage(set).await
    }

    async fn limits(&self, queue: &QueueId) -> StoreResult<Limits> {
        self.look_at(queue.clone(), |_, book| Ok(book.queue.limits.clone())).await
    }

    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        let mut gone = 0;
        while gone < limit {
            let part = PRUNE.min(limit - gone);
            let forgotten = self.manage(move |tx| forget(tx, part)).await?;
            gone += forgotten;
            if forgotten < part {
                break;
            }
        }
        Ok(gone)
    }

    async fn put_schedule(&self, namespace: &Namespace, schedule: &Schedule) -> StoreResult<Put> {
        let (namespace, schedule) = (namespace.clone(), schedule.clone());
        self.manage(move |tx| schedule::put(tx, &namespace, &schedule)).await
    }

    async fn schedules(&self, req: &Schedules) -> StoreResult<Vec<Schedule>> {
        let req = req.clone();
        self.readers.elsewhere(READ, move |at| schedule::list(at, &req)).await
    }

    async fn remove_schedule(
        &self,
        namespace: &Namespace,
        name: &ScheduleName,
        seen: Option<&Schedule>,
    ) -> StoreResult<bool> {
        let (namespace, name, seen) = (namespace.clone(), name.clone(), seen.cloned());
        self.manage(move |tx| schedule::remove(tx, &namespace, &name, seen.as_ref())).await
    }

    async fn advance_schedule(
        &self,
        namespace: &Namespace,
        name: &ScheduleName,
        from: Timestamp,
        to: Timestamp,
    ) -> StoreResult<bool> {
        let (namespace, name) = (namespace.clone(), name.clone());
        self.manage(move |tx| schedule::advance(tx, &namespace, &name, (from, to))).await
    }

    fn joins(&self, keys: &Arc<dyn IdempotencyStore>) -> bool {
        // One store is both: its keys and its queues are steps of one writer.
        std::ptr::addr_eq(Arc::as_ptr(keys), self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    /// Whatever the tables hold, each statement goes to its rows by an index, in the order of that index.
    #[test]
    fn no_statement_passes_rows_that_it_does_not_want() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(crate::schema::V1).unwrap();
        let modules = [
            add::STATEMENTS,
            beat::STATEMENTS,
            book::STATEMENTS,
            copy::STATEMENTS,
            events::STATEMENTS,
            info::STATEMENTS,
            list::STATEMENTS,
            manage::STATEMENTS,
            record::STATEMENTS,
            schedule::STATEMENTS,
            state::STATEMENTS,
            stats::STATEMENTS,
            step::STATEMENTS,
        ];
        for sql in modules.concat() {
            let mut plan = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let mut rows = plan.raw_query();
            while let Some(row) = rows.next().unwrap() {
                let part: String = row.get(3).unwrap();
                // Of jobs whose leases end at the same time, those of one consumer are sorted.
                let is_sorted = part == "USE TEMP B-TREE FOR LAST TERM OF ORDER BY" && sql == step::LOST;
                assert!(part.starts_with("SEARCH") || is_sorted, "{part}: {sql}");
            }
        }
    }
}
