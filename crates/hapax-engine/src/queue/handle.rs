//! The handle: a store's queues, as this process sees them.

use super::{
    Job, JobError, JobOptions, QueueDef, QueueError, WorkerBuilder,
    add::{Add, AddMany, encode_bytes},
    raw::Handler,
    schedule::Looks,
    typed::Typed,
};
use crate::protocol::{call, runner::Runner};
use bytes::Bytes;
use hapax_core::{
    Backend, BoxFuture, Clock, InvalidKey, ManualClock, Namespace, StoreError, StoreErrorKind, StoreResult,
    SystemClock,
    limit::LimitStore,
    memory::{MemoryLimits, MemoryQueues},
    queue::{
        EventPage, Group, JobState, Limits, ListJobs, MOST, QueueId, QueueName, QueueStats, QueueStore,
        ReadEvents, Redrive, Redriven, Uid, events::MOST_KEPT,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    collections::HashMap,
    fmt,
    marker::PhantomData,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// The queues of one store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Queue {
    inner: Arc<Inner>,
    namespace: Result<Namespace, InvalidKey>,
}

struct Inner {
    store: Option<Arc<dyn QueueStore>>,
    /// Where rates for each value are counted.
    limits: OnceLock<Arc<dyn LimitStore>>,
    backend: &'static str,
    clock: Arc<dyn Clock>,
    timeout: Duration,
    runner: Arc<Runner>,
    producer: OnceLock<[u8; 10]>,
    count: AtomicU64,
    looks: Looks,
    /// Workers that run inside `add`, on a queue that is made for tests.
    inline: Option<Mutex<HashMap<QueueId, Inline>>>,
}

/// Works until nothing is left.
pub(super) type Inline = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Queue {
    /// A queue in memory that runs each job inside `add`, once a worker was started on it. Delays pass at once. For tests.
    pub fn inline() -> Self {
        let clock = Arc::new(ManualClock::new());
        let store = Arc::new(MemoryQueues::new(Arc::clone(&clock) as _));
        Self::with(Some(store), "memory", clock, Duration::from_secs(5), Some(Mutex::default()))
    }

    /// Over a store of your own, on the machine's clock.
    pub fn new(store: Arc<dyn QueueStore>) -> Self {
        Self::with(Some(store), "hapax", Arc::new(SystemClock), Duration::from_secs(5), None)
    }

    /// Over the queues of a backend, on its clock. Where it has none, calls answer `store.unsupported`.
    pub fn of(backend: &Backend, timeout: Duration) -> Self {
        let (store, clock) = (backend.queue.clone(), Arc::clone(&backend.clock));
        let queue = Self::with(store, backend.name, clock, timeout, None);
        if let Some(limits) = &backend.limits {
            let _ = queue.inner.limits.set(Arc::clone(limits));
        }
        queue
    }

    fn with(
        store: Option<Arc<dyn QueueStore>>,
        backend: &'static str,
        clock: Arc<dyn Clock>,
        timeout: Duration,
        inline: Option<Mutex<HashMap<QueueId, Inline>>>,
    ) -> Self {
        let runner = Arc::new(Runner::new(clock.is_manual()));
        let (producer, count) = (OnceLock::new(), AtomicU64::new(0));
        let looks = Looks::default();
        let limits = OnceLock::new();
        let inner = Arc::new(Inner {
            store,
            limits,
            backend,
            clock,
            timeout,
            runner,
            producer,
            count,
            looks,
            inline,
        });
        Self { inner, namespace: Ok(Namespace::default()) }
    }

    /// The queues of another namespace. A name that cannot be used is reported by the first call.
    #[must_use]
    pub fn with_namespace(&self, namespace: Result<Namespace, InvalidKey>) -> Self {
        Self { namespace, ..self.clone() }
    }

    /// A queue of jobs as bytes.
    ///
    /// # Errors
    /// `queue.invalid`: the name cannot be used.
    pub fn raw(&self, name: &str) -> Result<RawQueue, QueueError> {
        let invalid = |error: &dyn fmt::Display| QueueError::invalid(error.to_string());
        let namespace = self.namespace.as_ref().map_err(|error| invalid(error))?;
        let name = QueueName::new(name).map_err(|error| invalid(&error))?;
        Ok(RawQueue { queue: self.clone(), id: QueueId::new(namespace, &name) })
    }

    /// A worker of `def`: `handler` gets its own clone of `state`, and the job. A handler may not capture: what it needs is
    /// `state`.
    pub fn worker<S, T, F, Fut, R>(&self, def: &'static QueueDef<T>, state: S, handler: F) -> WorkerBuilder
    where
        S: Clone + Send + Sync + 'static,
        T: DeserializeOwned + Serialize + Send + Sync + 'static,
        F: Fn(S, Job<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, JobError>> + Send + 'static,
        R: Serialize + Send + 'static,
    {
        let typed = Typed { def, state, handler, result: PhantomData };
        WorkerBuilder::new(self.raw(def.name()), Arc::new(typed))
    }

    /// The figures of a queue: one line for each group.
    pub async fn stats<T>(&self, def: &'static QueueDef<T>) -> Result<Vec<QueueStats>, QueueError> {
        let raw = self.raw(def.name())?;
        raw.call("read figures", self.store()?.stats(&raw.id.namespace, Some(&raw.id.name))).await
    }

    /// What passed in a queue behind the event of a number (0: from the first that is kept), up to 256 events. It has to
    /// [keep events](hapax_core::queue::Limits::events).
    ///
    /// ```
    /// # use hapax_engine::queue::{Queue, QueueDef, QueueError};
    /// # static REPORT: QueueDef<String> = QueueDef::new("report");
    /// # async fn example(queue: Queue) -> Result<(), QueueError> {
    /// let mut after = 0;
    /// loop {
    ///     let page = queue.events(&REPORT, after).await?;
    ///     for event in &page.events {
    ///         println!("{} {} {}", event.number, event.uid, event.what.as_str());
    ///     }
    ///     if page.events.is_empty() {
    ///         break;
    ///     }
    ///     after = page.next(after);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `queue.invalid`, `queue.store_failed`.
    pub async fn events<T>(&self, def: &'static QueueDef<T>, after: u64) -> Result<EventPage, QueueError> {
        self.raw(def.name())?.events(after, MOST).await
    }

    /// The bounds of a queue, and how many events it keeps.
    ///
    /// # Errors
    /// `queue.invalid`, `queue.store_failed`.
    pub async fn limits<T>(&self, def: &'static QueueDef<T>) -> Result<Limits, QueueError> {
        let raw = self.raw(def.name())?;
        raw.call("read the bounds of a queue", self.store()?.limits(&raw.id)).await
    }

    /// Sets the bounds of a queue, for all of its workers, and how many events it keeps.
    ///
    /// # Errors
    /// `queue.invalid`: more events than [`MOST_KEPT`]. `queue.store_failed`.
    pub async fn set_limits<T>(&self, def: &'static QueueDef<T>, limits: &Limits) -> Result<(), QueueError> {
        let raw = self.raw(def.name())?;
        if limits.events > MOST_KEPT {
            let asked = limits.events;
            return Err(QueueError::invalid(format!(
                "a queue keeps {MOST_KEPT} events at most, not {asked}"
            )));
        }
        raw.call("set the bounds of a queue", self.store()?.set_limits(&raw.id, limits)).await
    }

    /// Holds back the jobs of a queue, in all groups; what runs goes on.
    pub async fn pause<T>(&self, def: &'static QueueDef<T>) -> Result<(), QueueError> {
        let raw = self.raw(def.name())?;
        raw.call("pause a queue", self.store()?.pause(&raw.id, None, true)).await.map(drop)
    }

    /// Ends a pause.
    pub async fn resume<T>(&self, def: &'static QueueDef<T>) -> Result<(), QueueError> {
        let raw = self.raw(def.name())?;
        raw.call("resume a queue", self.store()?.pause(&raw.id, None, false)).await.map(drop)
    }

    /// The dead letters of a queue.
    pub fn dead_letters<T>(&self, def: &'static QueueDef<T>) -> DeadLetters {
        DeadLetters { queue: self.raw(def.name()), group: None }
    }

    /// The store itself, for layers and tools.
    ///
    /// # Errors
    /// `store.unsupported` where the backend has no queues.
    pub fn store(&self) -> Result<&Arc<dyn QueueStore>, QueueError> {
        self.inner.store.as_ref().ok_or_else(|| {
            let (kind, backend) = (StoreErrorKind::Unsupported, self.inner.backend);
            QueueError::store_failed(StoreError::new(kind, backend, "use a queue", "it has no queues"))
        })
    }

    pub(super) fn namespace(&self) -> Result<Namespace, QueueError> {
        self.namespace.clone().map_err(|error| QueueError::invalid(error.to_string()))
    }

    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// The rate limits of the store; where it has none, this process counts for itself.
    pub(super) fn limiter(&self) -> Arc<dyn LimitStore> {
        let own = || Arc::new(MemoryLimits::new(Arc::clone(&self.inner.clock))) as _;
        Arc::clone(self.inner.limits.get_or_init(own))
    }

    pub(super) fn timeout(&self) -> Duration {
        self.inner.timeout
    }

    pub(super) fn looks(&self) -> &Looks {
        &self.inner.looks
    }

    pub(super) fn runner(&self) -> &Arc<Runner> {
        &self.inner.runner
    }

    /// Makes `work` run inside each `add` to a queue; answers whether this is such a handle.
    pub(super) fn work_inline(&self, queue: &QueueId, work: Inline) -> bool {
        let Some(inline) = &self.inner.inline else { return false };
        inline.lock().unwrap_or_else(PoisonError::into_inner).insert(queue.clone(), work);
        true
    }

    /// After an `add`.
    pub(super) async fn added(&self, queue: &QueueId) {
        let Some(inline) = &self.inner.inline else { return };
        let work = inline.lock().unwrap_or_else(PoisonError::into_inner).get(queue).cloned();
        if let Some(work) = work {
            work().await;
        }
    }

    /// The id of a new job.
    pub(super) fn uid(&self) -> Result<Uid, QueueError> {
        let producer = match self.inner.producer.get() {
            Some(producer) => *producer,
            None => {
                let drawn = Uid::producer().map_err(QueueError::store_failed)?;
                *self.inner.producer.get_or_init(|| drawn)
            }
        };
        Ok(Uid::new(producer, self.inner.count.fetch_add(1, Ordering::Relaxed)))
    }
}

/// A queue of jobs as bytes, for layers and tools.
#[derive(Clone, Debug)]
pub struct RawQueue {
    pub(super) queue: Queue,
    pub(super) id: QueueId,
}

impl RawQueue {
    /// Its full name.
    pub fn id(&self) -> &QueueId {
        &self.id
    }

    /// Adds a job. JSON is compared as JSON, anything else byte by byte.
    pub fn add(&self, payload: impl Into<Bytes>) -> Add {
        Add::new(Ok(self.clone()), encode_bytes(payload.into()))
    }

    /// Adds jobs, up to 256 in a round trip.
    pub fn add_many(&self, jobs: impl IntoIterator<Item = (Bytes, JobOptions)>) -> AddMany {
        let encoded = jobs.into_iter().map(|(payload, options)| (encode_bytes(payload), options));
        AddMany::new(Ok(self.clone()), encoded.collect())
    }

    /// What passed behind the event of a number (0: from the first that is kept), so many events at most.
    ///
    /// # Errors
    /// `queue.store_failed`.
    pub async fn events(&self, after: u64, limit: usize) -> Result<EventPage, QueueError> {
        let req = ReadEvents { queue: self.id.clone(), after, limit: limit.min(MOST) };
        self.call("read events", self.queue.store()?.events(&req)).await
    }

    /// A worker that hands bytes to `handler`.
    pub fn worker(&self, handler: impl Handler) -> WorkerBuilder {
        WorkerBuilder::new(Ok(self.clone()), Arc::new(handler))
    }

    pub(super) async fn call<T>(
        &self,
        op: &'static str,
        step: impl Future<Output = StoreResult<T>>,
    ) -> Result<T, QueueError> {
        call::one(self.queue.timeout(), op, step).await.map_err(QueueError::store_failed)
    }
}

/// The dead letters of a queue.
#[must_use = "nothing is done until a method is awaited"]
#[derive(Debug)]
pub struct DeadLetters {
    queue: Result<RawQueue, QueueError>,
    group: Option<Group>,
}

impl DeadLetters {
    /// Of one group only. With several groups that is needed to redrive.
    pub fn group(mut self, group: Group) -> Self {
        self.group = Some(group);
        self
    }

    /// Takes all dead letters back into the queue, their counters at zero; answers how many. Those that have been
    /// redriven ten times already, and those whose job id another job has, stay.
    pub async fn redrive_all(self) -> Result<u64, QueueError> {
        let raw = self.queue?;
        let store = raw.queue.store()?;
        // All ids first: a page that is redriven would move the ones behind it.
        let (mut after, mut uids) = (None, Vec::new());
        loop {
            let req = ListJobs {
                queue: raw.id.clone(),
                group: self.group.clone(),
                state: JobState::Dead,
                after,
                limit: MOST,
            };
            let page = raw.call("list dead letters", store.list(&req)).await?;
            uids.extend(page.jobs.iter().map(|job| job.uid));
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let mut redriven = 0;
        for uids in uids.chunks(MOST).map(<[_]>::to_vec) {
            let req = Redrive { queue: raw.id.clone(), group: self.group.clone(), uids, force: false };
            let answers = raw.call("redrive dead letters", store.redrive(&req)).await?;
            let ready = answers.iter().filter(|answer| **answer == Redriven::Ready).count();
            redriven += u64::try_from(ready).unwrap_or_default();
        }
        Ok(redriven)
    }
}
