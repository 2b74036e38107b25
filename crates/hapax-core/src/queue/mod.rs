//! What a store of queues promises.
//!
//! Each method is one atomic step. A job that `add` accepted ends once: as done, dead or cancelled, whichever process
//! dies at whatever point. Every hand-out of a job has a new [delivery number](Taken::delivery), and whoever finishes,
//! beats or gives back under an older one changes nothing; so a step may be sent again after a lost reply.
//!
//! Payloads, settings and results are opaque bytes. How often a job may fail, and when it is due again, is the
//! engine's part; stores count and put in order.

pub mod books;
pub mod events;
pub mod history;
mod job;
pub mod machine;
mod names;
mod per;
mod progress;
mod request;

pub use books::{Books, GroupBooks};
pub use events::{EventPage, Happening, QueueEvent, ReadEvents};
pub use job::{Added, Counts, DeadReason, Due, JobInfo, JobState, NewJob, OnConflict, Priority, Taken};
pub use names::{Consumer, Group, InvalidQueueName, InvalidUid, QueueId, QueueName, ScheduleName, Uid};
pub use per::{InvalidPerRate, PerRate};
pub use progress::{MAX_NOTE, Progress};
pub use request::{
    Beat, Beaten, Cancelled, Edit, End, Finish, Finished, GiveBack, JobPage, JobRef, Limits, ListJobs, Put,
    QueueStats, Redrive, Redriven, Schedule, Schedules, Step, Stepped, Subscribed, Wait,
};

use crate::{
    Namespace, StoreResult, Timestamp,
    idempotency::{IdempotencyStore, Write},
};
use async_trait::async_trait;
use std::{fmt, sync::Arc};

/// A request holds at most so many jobs, ids or finishes; a step hands out at most so many.
pub const MOST: usize = 256;
/// A dead letter is redriven at most so often, unless that is forced: what always dies again should be looked at.
pub const MAX_REDRIVES: u32 = 10;
/// An error text is kept up to so many bytes.
pub const MAX_ERROR: usize = 2048;

/// A store of queues.
///
/// The decisions of each step are those of [`machine`]. A queue comes into being with its first job or subscription.
#[async_trait]
pub trait QueueStore: Send + Sync + fmt::Debug {
    /// Adds jobs to a queue, each with its own answer, in order.
    async fn add(&self, queue: &QueueId, jobs: &[NewJob]) -> StoreResult<Vec<Added>>;

    /// Makes a group know the queue. The first name that a queue hears is that of its first group, which has all jobs
    /// so far; a later one has what is added from then on.
    async fn subscribe(&self, queue: &QueueId, group: &Group) -> StoreResult<Subscribed>;

    /// Drops a group with its jobs; answers how many those were, `None` where there is no such group.
    async fn unsubscribe(&self, queue: &QueueId, group: &Group) -> StoreResult<Option<u64>>;

    /// Ends jobs, makes ready what is due, takes over from dead workers, and hands out what the limits allow.
    ///
    /// A group that the queue does not know is subscribed: it may have been forgotten with the store's memory.
    async fn step(&self, req: &Step) -> StoreResult<Stepped>;

    /// Makes the leases of a worker's jobs longer.
    async fn beat(&self, req: &Beat) -> StoreResult<Beaten>;

    /// Gives jobs back unfinished; an answer for each, in order.
    async fn give_back(&self, req: &GiveBack) -> StoreResult<Vec<Write>>;

    /// Returns when a step may find something, or when the limit is over. It may return early; a worker asks again.
    /// Cancel safe.
    async fn wait(&self, req: &Wait) -> StoreResult<()>;

    /// What is known of a job: one answer for each group that has it, or one for a job that is over and remembered.
    async fn find(&self, queue: &QueueId, job: &JobRef) -> StoreResult<Vec<JobInfo>>;

    /// A page of jobs.
    async fn list(&self, req: &ListJobs) -> StoreResult<JobPage>;

    /// The figures of all groups of one queue, or of all queues of the namespace, by name.
    async fn stats(&self, namespace: &Namespace, queue: Option<&QueueName>) -> StoreResult<Vec<QueueStats>>;

    /// Looks at the records themselves, for `hapax doctor`: of one queue, or of all in all namespaces, the first
    /// [`books::MOST_QUEUES`] of them. Bounded work; changes nothing. A store that does not look says nothing.
    async fn books(&self, queue: Option<&QueueId>) -> StoreResult<Books> {
        let _ = queue;
        Ok(Books::default())
    }

    /// What passed in a queue, where it [keeps events](Limits::events).
    async fn events(&self, req: &ReadEvents) -> StoreResult<EventPage>;

    /// Cancels a job in all groups. One that waits is removed and its job id is free; of one that runs its worker is
    /// told.
    async fn cancel(&self, queue: &QueueId, job: &JobRef) -> StoreResult<Cancelled>;

    /// Gives a waiting job another time, in all groups; answers in how many it was waiting.
    async fn reschedule(&self, queue: &QueueId, job: &JobRef, due: Due) -> StoreResult<u64>;

    /// Holds back the jobs of a group, or of all; what runs goes on. Answers how many groups there are for it.
    async fn pause(&self, queue: &QueueId, group: Option<&Group>, paused: bool) -> StoreResult<u64>;

    /// Takes dead letters back into the queue; an answer for each, in order.
    async fn redrive(&self, req: &Redrive) -> StoreResult<Vec<Redriven>>;

    /// Gives a dead letter another payload; answers whether it was there. A job id remembers the new one.
    async fn edit(&self, req: &Edit) -> StoreResult<bool>;

    /// Removes dead letters and frees their job ids; answers how many there were. At most [`MOST`].
    async fn drop_dead(&self, queue: &QueueId, group: Option<&Group>, uids: &[Uid]) -> StoreResult<u64>;

    /// Removes all jobs of a queue, dead letters and running ones too, and frees their ids; answers how many there
    /// were. Groups, limits and counters stay.
    async fn purge(&self, queue: &QueueId) -> StoreResult<u64>;

    /// Sets the bounds of a queue.
    async fn set_limits(&self, queue: &QueueId, limits: &Limits) -> StoreResult<()>;

    /// The bounds of a queue.
    async fn limits(&self, queue: &QueueId) -> StoreResult<Limits>;

    /// Forgets up to `limit` jobs whose time of being remembered is over; answers how many. Never needed for a right
    /// answer.
    async fn prune(&self, limit: usize) -> StoreResult<usize>;

    /// Puts a schedule in place of the one of its name.
    async fn put_schedule(&self, namespace: &Namespace, schedule: &Schedule) -> StoreResult<Put>;

    /// The schedules of a namespace, by name.
    async fn schedules(&self, req: &Schedules) -> StoreResult<Vec<Schedule>>;

    /// Removes a schedule; answers whether it was there. `seen`: only while owner and revision are still those.
    async fn remove_schedule(
        &self,
        namespace: &Namespace,
        name: &ScheduleName,
        seen: Option<&Schedule>,
    ) -> StoreResult<bool>;

    /// Moves the next time of a schedule from `from` to `to`; `false`: it is not at `from`, another worker has moved
    /// it.
    async fn advance_schedule(
        &self,
        namespace: &Namespace,
        name: &ScheduleName,
        from: Timestamp,
        to: Timestamp,
    ) -> StoreResult<bool>;

    /// Whether a [`Finish`] may complete a key of `keys` in the same step: both lie in one store.
    fn joins(&self, keys: &Arc<dyn IdempotencyStore>) -> bool {
        let _ = keys;
        false
    }
}

// A URL picks the store at run time.
const _: fn(&dyn QueueStore) = |_| {};
