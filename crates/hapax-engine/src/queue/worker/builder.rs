//! A worker that has not been started.

use super::{
    beat,
    core::{Core, Mode},
    handle::{Ran, Worker},
    per::Shares,
};
use crate::{
    Idempotency,
    queue::{
        QueueError, RawQueue,
        figures::Figures,
        idempotent::{OnError, Once},
        layer::{JobService, Layered},
        raw::{Handler, Outcome, RawJob},
        schedule::{Clockwork, StoreTime},
    },
};
use hapax_core::{
    BoxError, Span,
    queue::{Consumer, Group, MOST},
};
use std::{fmt, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;
use tower_layer::Layer;
use tower_service::Service;

/// What a worker does unless it is told otherwise.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) group: Option<String>,
    pub(super) consumer: Option<String>,
    pub(super) concurrency: usize,
    pub(super) prefetch: usize,
    pub(super) lease: Duration,
    pub(super) max_losses: u32,
    pub(super) max_runtime: Option<Duration>,
    pub(super) max_snooze: Duration,
    pub(super) drain: Duration,
    pub(super) block: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            group: None,
            consumer: None,
            concurrency: 1,
            prefetch: 0,
            lease: Duration::from_secs(30),
            max_losses: 3,
            max_runtime: None,
            max_snooze: Duration::from_hours(24),
            drain: Duration::from_secs(30),
            block: Duration::from_secs(8),
        }
    }
}

/// A worker that has not been started.
#[must_use = "a worker does nothing until it is started"]
pub struct WorkerBuilder {
    queue: Result<RawQueue, QueueError>,
    handler: Arc<dyn Handler>,
    layered: bool,
    once: Option<Once>,
    options: Options,
}

impl fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}

impl WorkerBuilder {
    pub(in crate::queue) fn new(queue: Result<RawQueue, QueueError>, handler: Arc<dyn Handler>) -> Self {
        Self { queue, handler, layered: false, once: None, options: Options::default() }
    }

    /// Runs the handler once per [job key](crate::queue::Job::key), in scope `job:QUEUE:GROUP`; the result is kept, and key
    /// and job end in one step where one store holds both. `on_error` says what an error means that does not say so
    /// itself.
    pub fn idempotent<C: Clone + Send + Sync + 'static>(
        mut self,
        idem: &Idempotency<C>,
        on_error: OnError,
    ) -> Self {
        self.once = Some(idem.for_jobs(on_error));
        self
    }

    /// Wraps the handler in a tower layer: a time-out, a limit, a trace. Of several, the last one is the outermost; with
    /// `tower::ServiceBuilder` as one layer, the first one in it is.
    ///
    /// Layers see jobs [as bytes](RawJob) and their [`Outcome`]s: they are outside of decoding. The lease and its renewal,
    /// the time limits of worker and job, and the key of an [idempotent](Self::idempotent) worker are outside of them.
    /// All jobs of a worker go through one service, so a layer need not be `Clone`.
    ///
    /// - A service that is not ready (`poll_ready`) holds its jobs up to the [lease](Self::claim_idle), renewed
    ///   meanwhile. Then the job is put off, by a second or more, and another worker may have it. That is no attempt,
    ///   and counts towards [`max_snooze`](Self::max_snooze). A job that is cancelled, or whose worker stops, waits no
    ///   longer.
    /// - An error of a layer before the handler began (a full `load_shed`) puts the job off, too.
    /// - An error of a layer after that (a `timeout`) is a failure of the job, as [`Outcome::Broken`]: for an
    ///   idempotent worker an unknown outcome, as the effect may have happened.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower::{ServiceBuilder, limit::RateLimitLayer, timeout::TimeoutLayer};
    ///
    /// # fn example(worker: hapax_engine::queue::WorkerBuilder) -> hapax_engine::queue::WorkerBuilder {
    /// worker.concurrency(8).layer(
    ///     ServiceBuilder::new()
    ///         .layer(RateLimitLayer::new(20, Duration::from_secs(1)))
    ///         .layer(TimeoutLayer::new(Duration::from_secs(10))),
    /// )
    /// # }
    /// ```
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<JobService>,
        L::Service: Service<RawJob, Response = Outcome> + Send + 'static,
        <L::Service as Service<RawJob>>::Error: Into<BoxError>,
        <L::Service as Service<RawJob>>::Future: Send,
    {
        self.handler = Arc::new(Layered::new(&layer, self.handler, !self.layered));
        self.layered = true;
        self
    }

    /// Workers of one group share the jobs (`main`).
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.options.group = Some(group.into());
        self
    }

    /// A name for this worker in lists. A random part is added at each start.
    pub fn consumer(mut self, name: impl Into<String>) -> Self {
        self.options.consumer = Some(name.into());
        self
    }

    /// How many handlers run at once (1).
    pub fn concurrency(mut self, n: usize) -> Self {
        self.options.concurrency = n;
        self
    }

    /// How many jobs are taken ahead of the handlers (0), so that those never wait for the store. For handlers of less than a
    /// few milliseconds, of which few run at once: as many as are through in two round trips.
    ///
    /// A job that is taken ahead is the worker's: it is renewed, starts when its turn comes, and is given back, which is no
    /// loss, when the worker stops, or when it has waited for a second. Until then no other worker may have it, and a job of a
    /// higher priority that comes meanwhile starts after it.
    pub fn prefetch(mut self, n: usize) -> Self {
        self.options.prefetch = n;
        self
    }

    /// How long a job stays with a worker that does not renew it (30 s). Workers renew at a third of it, on a thread of
    /// their own: a handler that blocks keeps its job.
    pub fn claim_idle(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }

    /// How often a job may lose its worker (3) before it is dead.
    pub fn max_losses(mut self, n: u32) -> Self {
        self.options.max_losses = n;
        self
    }

    /// How long a handler may take, unless its job says less; what takes longer has failed.
    pub fn max_runtime(mut self, limit: Duration) -> Self {
        self.options.max_runtime = Some(limit);
        self
    }

    /// How long a job may be put off (24 h) before it is dead. To wait for its turn, by a rate for each value, kills no job, but that
    /// time counts when its handler puts it off as well.
    pub fn max_snooze(mut self, limit: Duration) -> Self {
        self.options.max_snooze = limit;
        self
    }

    /// How long a stop waits for handlers (30 s) before it gives their jobs back.
    pub fn drain(mut self, limit: Duration) -> Self {
        self.options.drain = limit;
        self
    }

    /// How long an idle worker waits before it asks again (8 s). New jobs wake it before.
    pub fn block(mut self, limit: Duration) -> Self {
        self.options.block = limit;
        self
    }

    /// Subscribes and starts.
    ///
    /// # Errors
    /// `queue.invalid`, and `queue.store_failed` while the group is made known. Later errors of the store are waited out.
    pub async fn start(self) -> Result<Worker, QueueError> {
        self.begin(Mode::Always).await
    }

    /// Takes one job, if there is one, and ends it.
    pub async fn run_once(self) -> Result<Ran, QueueError> {
        Ok(self.start_once().await?.ended().await)
    }

    /// The same as a worker that can be stopped before.
    pub async fn start_once(mut self) -> Result<Worker, QueueError> {
        (self.options.concurrency, self.options.prefetch) = (1, 0);
        self.begin(Mode::Once).await
    }

    /// Works until nothing is ready or running. Jobs that are delayed stay, unless the clock is one that a test moves: their
    /// delays then pass at once.
    pub async fn until_empty(self) -> Result<Ran, QueueError> {
        Ok(self.begin(Mode::UntilEmpty).await?.ended().await)
    }

    /// The same as a worker that can be stopped before.
    pub async fn start_until_empty(self) -> Result<Worker, QueueError> {
        self.begin(Mode::UntilEmpty).await
    }

    async fn begin(self, mode: Mode) -> Result<Worker, QueueError> {
        let queue = self.queue?;
        let options = self.options;
        let invalid = |error: &dyn fmt::Display| QueueError::invalid(error.to_string());
        let lease = Span::new(options.lease).map_err(|error| invalid(&error))?;
        if options.lease < Duration::from_secs(1) {
            return Err(QueueError::invalid("the lease of a job (`claim_idle`) is at least 1 s"));
        }
        if options.concurrency == 0 || options.concurrency > MOST {
            return Err(QueueError::invalid(format!("a worker runs 1 to {MOST} handlers at once")));
        }
        if options.prefetch > MOST {
            return Err(QueueError::invalid(format!("a worker takes {MOST} jobs ahead at most")));
        }
        let group = options.group.as_deref().map_or_else(|| Ok(Group::main()), Group::new);
        let group = group.map_err(|error| invalid(&error))?;
        let label = options.consumer.clone().unwrap_or_else(|| std::process::id().to_string());
        // One that a person gives has the bounds of other names; what is added at the start may cut it.
        Consumer::new(&label).map_err(|error| invalid(&error))?;
        let consumer = Consumer::start(&label).map_err(QueueError::store_failed)?;
        let store = Arc::clone(queue.queue.store()?);
        let found = queue.call("subscribe", store.subscribe(&queue.id, &group)).await?;
        tracing::info!(queue = %queue.id.name, %group, %consumer, ?found, "a worker starts");
        let keys = self.once.as_ref().map(|once| &once.keeper).or_else(|| self.handler.keys());
        let joint = keys.is_some_and(|keys| store.joins(keys.store()));
        let figures = Figures::of(&queue.id.name);
        let time = Arc::new(StoreTime::new());
        let clockwork = Clockwork::new(queue.clone(), Arc::clone(&store), Arc::clone(&time));
        let core = Arc::new(Core {
            store,
            time,
            clock: Arc::clone(queue.queue.clock()),
            timeout: queue.queue.timeout(),
            queue: queue.id,
            group,
            consumer,
            lease,
            handler: self.handler,
            once: self.once,
            joint,
            options,
            held: Arc::default(),
            shares: Shares::new(queue.queue.limiter()),
            figures,
            stop: CancellationToken::new(),
        });
        queue.queue.runner().spawn(beat::keep(Arc::downgrade(&core)));
        let inline = Arc::clone(&core);
        if mode == Mode::Always && queue.queue.work_inline(&inline.queue.clone(), Worker::inline(inline)) {
            return Ok(Worker::idle(core, found));
        }
        Ok(Worker::of(core, mode, found, clockwork))
    }
}
