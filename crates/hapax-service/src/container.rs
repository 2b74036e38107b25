//! The services of a running application.

use crate::{
    Ctx,
    error::{ServiceError, ServiceErrorKind},
    event::{Event, Listeners},
    graph::{Graph, ROOT},
    hook::Hook,
    lifecycle,
    service::{Progress, Service, Value},
};
use hapax_core::{BoxError, BoxFuture};
use std::{
    any::{TypeId, type_name},
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};
use tokio::{runtime::Handle, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) start: Option<Duration>,
    pub(crate) each_start: Option<Duration>,
    pub(crate) drain: Duration,
    pub(crate) stop: Duration,
    pub(crate) each_stop: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        // Kubernetes kills after 30 s, systemd after 90 s.
        let stop = Duration::from_secs(25);
        Self { start: None, each_start: None, drain: Duration::ZERO, stop, each_stop: None }
    }
}

/// A factory, with its types forgotten. It holds nothing, so that making one costs nothing.
pub(crate) struct Starter {
    key: TypeId,
    path: &'static str,
    call: Box<dyn FnOnce(Ctx) -> BoxFuture<'static, Result<Value, BoxError>> + Send>,
}

impl Starter {
    pub(crate) fn new<F, Fut, T, E>(factory: F) -> Self
    where
        F: Fn(Ctx) -> Fut + Send + Sync + Copy + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Clone + Send + Sync + 'static,
        E: Into<BoxError>,
    {
        let call = move |ctx| -> BoxFuture<'static, Result<Value, BoxError>> {
            Box::pin(async move {
                let value = factory(ctx).await.map_err(Into::into)?;
                Ok(Arc::new(value) as Value)
            })
        };
        Self { key: TypeId::of::<F>(), path: type_name::<F>(), call: Box::new(call) }
    }
}

pub(crate) struct Container {
    graph: Mutex<Graph>,
    names: HashMap<TypeId, &'static str>,
    pub(crate) limits: Limits,
    listeners: Listeners,
    pub(crate) runtime: Handle,
    /// The application stops: nothing is started any more.
    pub(crate) stopping: CancellationToken,
    /// A service asked for the stop; which.
    pub(crate) asked: CancellationToken,
    pub(crate) asked_by: OnceLock<&'static str>,
    /// When the application has stopped at the latest; known once it stops.
    pub(crate) stop_by: OnceLock<Instant>,
    /// Hooks that came when their service had stopped.
    pub(crate) late: TaskTracker,
}

impl Container {
    pub(crate) fn new(
        limits: Limits,
        names: HashMap<TypeId, &'static str>,
        listeners: Listeners,
    ) -> Arc<Self> {
        Arc::new(Self {
            graph: Mutex::default(),
            names,
            limits,
            listeners,
            runtime: Handle::current(),
            stopping: CancellationToken::new(),
            asked: CancellationToken::new(),
            asked_by: OnceLock::new(),
            stop_by: OnceLock::new(),
            late: TaskTracker::new(),
        })
    }

    // Nothing of the user's runs under this lock.
    pub(crate) fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tell(&self, event: &Event) {
        self.listeners.tell(event);
    }

    /// The service in whose name the application itself loads: it starts at once, and has no value.
    pub(crate) fn root(self: &Arc<Self>, name: &'static str) -> Arc<Service> {
        let mut graph = self.graph();
        let root = graph.add(None, name);
        root.progress.send_replace(Progress::Ready(Arc::new(())));
        root.set_task(self.runtime.spawn(lifecycle::stop_when_told(Arc::clone(self), Arc::clone(&root))));
        root
    }

    /// The value of a service, which is started when nobody has asked for it before. Cancel safe: the start goes on.
    pub(crate) async fn load(
        self: &Arc<Self>,
        from: &Service,
        starter: Starter,
        again: bool,
    ) -> Result<Value, ServiceError> {
        let name = self.name(&starter);
        let service = self.enter(from, starter, again).inspect_err(|error| from.was_refused(error))?;
        let mut progress = service.progress.subscribe();
        let ended = tokio::select! {
            biased;
            ended = progress.wait_for(|progress| !matches!(progress, Progress::Starting)) => {
                ended.map(|progress| progress.clone()).ok()
            }
            // Whoever waits need not wait for the end of that start.
            () = self.stopping.cancelled() => None,
        };
        let error = match ended {
            Some(Progress::Ready(value)) => return Ok(value),
            Some(Progress::Failed(error)) => error,
            _ => ServiceError::new(ServiceErrorKind::Stopping, vec![name]),
        };
        from.was_refused(&error);
        Err(error)
    }

    fn name(&self, starter: &Starter) -> &'static str {
        self.names.get(&starter.key).copied().unwrap_or(starter.path)
    }

    /// Finds or starts a service, and writes down who asked for it.
    fn enter(
        self: &Arc<Self>,
        from: &Service,
        starter: Starter,
        again: bool,
    ) -> Result<Arc<Service>, ServiceError> {
        let name = self.name(&starter);
        let mut graph = self.graph();
        if graph.closed {
            return Err(ServiceError::new(ServiceErrorKind::Stopping, vec![name]));
        }
        let found = graph.current(starter.key).filter(|service| !(again && service.has_failed()));
        let cycle = |way| ServiceError::new(ServiceErrorKind::Cycle, way);
        if let Some(service) = found {
            graph.depend(from.id, service.id).map_err(cycle)?;
            return Ok(service);
        }
        let service = graph.add(Some(starter.key), name);
        graph.depend(from.id, service.id).map_err(cycle)?;
        if let Some(limit) = self.limits.each_start {
            service.start_by.send_replace(Some(service.began + limit));
        }
        let ctx = Ctx::new(self, &service);
        let start = lifecycle::live(Arc::clone(self), Arc::clone(&service), ctx, starter.call);
        service.set_task(self.runtime.spawn(start));
        Ok(service)
    }

    /// Keeps a hook; when its service has stopped, runs it at once.
    pub(crate) fn on_stop(self: &Arc<Self>, service: &Arc<Service>, hook: Hook) {
        if let Err(hook) = service.keep(hook) {
            let service = Arc::clone(service);
            let run = async move { lifecycle::run_hook(&service, hook).await };
            self.late.spawn_on(run, &self.runtime);
        }
    }

    /// The names of those that have not ended, unless that is being decided right now.
    pub(crate) fn unfinished(&self) -> Vec<&'static str> {
        let Ok(graph) = self.graph.try_lock() else { return Vec::new() };
        let services = graph.services();
        drop(graph);
        let left = services.iter().filter(|service| service.record().state.is_none() && service.id != ROOT);
        left.map(|service| service.name).collect()
    }

    /// Ends what still runs, and forgets everything of the user's, which may hold this container.
    pub(crate) fn clear(&self) {
        let services = {
            let mut graph = self.graph();
            graph.closed = true;
            graph.services()
        };
        self.stopping.cancel();
        for service in services {
            if let Some(task) = service.take_task() {
                task.abort();
            }
            service.clear();
        }
    }
}
