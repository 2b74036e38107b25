//! Queues that fail when told.

use hapax_core::{
    Namespace, StoreError, StoreErrorKind, StoreResult, Timestamp, async_trait,
    idempotency::{IdempotencyStore, Write},
    memory::MemoryQueues,
    queue::*,
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU32, Ordering},
};
use tokio::sync::watch;

/// How the next calls fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// The request never arrives.
    Before,
    /// The step is taken, and its answer is lost.
    LostReply,
    /// The answer takes a while.
    Slow,
}

#[derive(Debug)]
pub(super) struct Unsteady {
    queues: MemoryQueues,
    faults: Mutex<Vec<Fault>>,
    pub(super) steps: AtomicU32,
    pub(super) waits: AtomicU32,
    pub(super) beats: AtomicU32,
    pub(super) looks: AtomicU32,
    /// How often bounds were read, and how many more of these reads fail.
    pub(super) bounds: AtomicU32,
    pub(super) unread: AtomicU32,
    /// Whether schedules cannot be read.
    pub(super) blind: AtomicBool,
    /// Whether schedules cannot be moved.
    pub(super) stuck: AtomicBool,
    /// Whether beats fail.
    pub(super) deaf: AtomicBool,
    /// Whether beats that were composed wait before they arrive.
    pub(super) hold: watch::Sender<bool>,
}

impl Unsteady {
    pub(super) fn new(queues: MemoryQueues) -> Self {
        Self {
            queues,
            faults: Mutex::default(),
            steps: AtomicU32::new(0),
            waits: AtomicU32::new(0),
            beats: AtomicU32::new(0),
            looks: AtomicU32::new(0),
            bounds: AtomicU32::new(0),
            unread: AtomicU32::new(0),
            blind: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
            deaf: AtomicBool::new(false),
            hold: watch::Sender::new(false),
        }
    }

    /// The next adds and steps fail so, in this order.
    pub(super) fn fail(&self, faults: &[Fault]) {
        self.faults.lock().unwrap().extend(faults.iter().rev());
    }

    fn fault(&self) -> Option<Fault> {
        self.faults.lock().unwrap().pop()
    }

    async fn through<T>(&self, step: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        match self.fault() {
            None => step.await,
            Some(Fault::Slow) => {
                let answer = step.await;
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                answer
            }
            Some(Fault::Before) => Err(error()),
            Some(Fault::LostReply) => {
                let _answer = step.await?;
                Err(error().maybe_applied())
            }
        }
    }
}

fn error() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "unsteady", "work", "it was told to fail")
}

#[async_trait]
impl QueueStore for Unsteady {
    async fn add(&self, queue: &QueueId, jobs: &[NewJob]) -> StoreResult<Vec<Added>> {
        self.through(self.queues.add(queue, jobs)).await
    }
    async fn subscribe(&self, queue: &QueueId, group: &Group) -> StoreResult<Subscribed> {
        self.queues.subscribe(queue, group).await
    }
    async fn unsubscribe(&self, queue: &QueueId, group: &Group) -> StoreResult<Option<u64>> {
        self.queues.unsubscribe(queue, group).await
    }
    async fn step(&self, req: &Step) -> StoreResult<Stepped> {
        self.steps.fetch_add(1, Ordering::SeqCst);
        self.through(self.queues.step(req)).await
    }
    async fn beat(&self, req: &Beat) -> StoreResult<Beaten> {
        self.beats.fetch_add(1, Ordering::SeqCst);
        if self.deaf.load(Ordering::SeqCst) {
            return Err(error());
        }
        drop(self.hold.subscribe().wait_for(|hold| !hold).await);
        self.queues.beat(req).await
    }
    async fn give_back(&self, req: &GiveBack) -> StoreResult<Vec<Write>> {
        self.queues.give_back(req).await
    }
    async fn events(&self, req: &ReadEvents) -> StoreResult<EventPage> {
        self.queues.events(req).await
    }
    async fn wait(&self, req: &Wait) -> StoreResult<()> {
        self.waits.fetch_add(1, Ordering::SeqCst);
        self.queues.wait(req).await
    }
    async fn find(&self, queue: &QueueId, job: &JobRef) -> StoreResult<Vec<JobInfo>> {
        self.queues.find(queue, job).await
    }
    async fn list(&self, req: &ListJobs) -> StoreResult<JobPage> {
        self.queues.list(req).await
    }
    async fn stats(&self, namespace: &Namespace, queue: Option<&QueueName>) -> StoreResult<Vec<QueueStats>> {
        self.queues.stats(namespace, queue).await
    }
    async fn cancel(&self, queue: &QueueId, job: &JobRef) -> StoreResult<Cancelled> {
        self.queues.cancel(queue, job).await
    }
    async fn reschedule(&self, queue: &QueueId, job: &JobRef, due: Due) -> StoreResult<u64> {
        self.queues.reschedule(queue, job, due).await
    }
    async fn pause(&self, queue: &QueueId, group: Option<&Group>, paused: bool) -> StoreResult<u64> {
        self.queues.pause(queue, group, paused).await
    }
    async fn redrive(&self, req: &Redrive) -> StoreResult<Vec<Redriven>> {
        self.queues.redrive(req).await
    }
    async fn edit(&self, req: &Edit) -> StoreResult<bool> {
        self.queues.edit(req).await
    }
    async fn drop_dead(&self, queue: &QueueId, group: Option<&Group>, uids: &[Uid]) -> StoreResult<u64> {
        self.queues.drop_dead(queue, group, uids).await
    }
    async fn purge(&self, queue: &QueueId) -> StoreResult<u64> {
        self.queues.purge(queue).await
    }
    async fn set_limits(&self, queue: &QueueId, limits: &Limits) -> StoreResult<()> {
        self.queues.set_limits(queue, limits).await
    }
    async fn limits(&self, queue: &QueueId) -> StoreResult<Limits> {
        self.bounds.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        let fails = |left: u32| left.checked_sub(1);
        if self.unread.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails).is_ok() {
            return Err(error());
        }
        self.queues.limits(queue).await
    }
    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        self.queues.prune(limit).await
    }
    async fn put_schedule(&self, namespace: &Namespace, schedule: &Schedule) -> StoreResult<Put> {
        self.queues.put_schedule(namespace, schedule).await
    }
    async fn schedules(&self, req: &Schedules) -> StoreResult<Vec<Schedule>> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        if self.blind.load(Ordering::SeqCst) {
            return Err(error());
        }
        self.queues.schedules(req).await
    }
    async fn remove_schedule(
        &self,
        namespace: &Namespace,
        name: &ScheduleName,
        seen: Option<&Schedule>,
    ) -> StoreResult<bool> {
        self.queues.remove_schedule(namespace, name, seen).await
    }
    async fn advance_schedule(
        &self,
        namespace: &Namespace,
        name: &ScheduleName,
        from: Timestamp,
        to: Timestamp,
    ) -> StoreResult<bool> {
        if self.stuck.load(Ordering::SeqCst) {
            return Err(error());
        }
        self.queues.advance_schedule(namespace, name, from, to).await
    }
    fn joins(&self, keys: &Arc<dyn IdempotencyStore>) -> bool {
        self.queues.joins(keys)
    }
}
