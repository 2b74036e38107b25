//! The program: what it boots, and how long that may take.

use crate::{
    Ctx, Events, Report, ServiceError, ServiceErrorKind, StopCause,
    container::{Container, Limits, Starter},
    ctx::CAPTURES,
    event::{Event, Listeners},
    notify::Notifier,
    signals::{self, Running, Watch},
    stop,
};
use futures_util::{FutureExt, future::try_join_all};
use hapax_core::{BoxError, Span};
use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    future::pending,
    panic::{AssertUnwindSafe, resume_unwind},
    pin::pin,
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, timeout};

/// The name under which the application itself loads.
const MAIN: &str = "main";

/// A program made of services: which of them it boots, what they are called, how long things may take.
///
/// ```no_run
/// use hapax_service::{App, Ctx, Report};
/// use std::time::Duration;
///
/// # #[derive(Clone)] struct Store;
/// async fn store(ctx: Ctx) -> std::io::Result<Store> {
///     ctx.on_stop(async || println!("the store stops last"));
///     Ok(Store)
/// }
///
/// async fn worker(ctx: Ctx) -> anyhow::Result<()> {
///     let store = ctx.load(store).await?;
///     let task = tokio::spawn({
///         let stopping = ctx.stopping();
///         async move {
///             // Works with the store until the application stops.
///             stopping.await;
///             drop(store);
///         }
///     });
///     ctx.on_stop(async || task.await);
///     Ok(())
/// }
///
/// #[tokio::main]
/// async fn main() -> Report {
///     App::new().boot("worker", worker).name("store", store).stop_within(Duration::from_secs(20)).run().await
/// }
/// ```
#[must_use = "nothing starts until `run`"]
pub struct App {
    boots: Vec<Starter>,
    names: HashMap<TypeId, &'static str>,
    limits: Limits,
    listeners: Listeners,
    invalid: Option<ServiceError>,
}

impl Default for App {
    fn default() -> Self {
        Self::new()
    }
}

impl App {
    /// Nothing to boot, 25 s to stop.
    pub fn new() -> Self {
        let (limits, listeners) = (Limits::default(), Listeners::default());
        Self { boots: Vec::new(), names: HashMap::new(), limits, listeners, invalid: None }
    }

    /// Starts the service that `factory` makes when the application runs, under this name. All of them start at the same time;
    /// what they need, they load.
    ///
    /// A name that is empty or given to another service, and a service that is booted twice, end `run` with `service.invalid`
    /// before anything starts.
    pub fn boot<F, Fut, T, E>(mut self, name: &'static str, factory: F) -> Self
    where
        F: Fn(Ctx) -> Fut + Send + Sync + Copy + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Clone + Send + Sync + 'static,
        E: Into<BoxError>,
    {
        const { assert!(size_of::<F>() == 0, "{}", CAPTURES) };
        self.boots.push(Starter::new(factory));
        self.called(TypeId::of::<F>(), name)
    }

    /// What the service that `factory` makes is called in reports, errors and events, when it is loaded and not booted. Without
    /// that, it has the path of its function. The rules for names are those of [`boot`](Self::boot).
    pub fn name<F, Fut>(self, name: &'static str, factory: F) -> Self
    where
        F: Fn(Ctx) -> Fut + Send + Sync + Copy + 'static,
    {
        const { assert!(size_of::<F>() == 0, "{}", CAPTURES) };
        let _ = factory;
        self.called(TypeId::of::<F>(), name)
    }

    fn called(mut self, key: TypeId, name: &'static str) -> Self {
        let fault = if name.is_empty() {
            Some("a name must not be empty")
        } else if self.names.values().any(|taken| *taken == name) {
            Some("two services must not have the same name")
        } else {
            self.names.insert(key, name).map(|_| "a service must not have two names")
        };
        if let Some(fault) = fault {
            self.refuse(name, fault);
        }
        self
    }

    /// All that is booted may take this long to start (no limit). When the time is up, the application stops, and the report names
    /// the service that the others wait for.
    ///
    /// This limit and the others are 1 ms to 400 days; one that is not ends `run` with `service.invalid`.
    pub fn start_within(mut self, total: Duration) -> Self {
        self.limits.start = self.checked(total);
        self
    }

    /// Each service may take this long to start, what it loads included (no limit). Its factory is dropped when the time is up, its
    /// hooks run, and it has failed with `service.start_timeout`. A service may have its own: [`Ctx::start_within`].
    pub fn each_start_within(mut self, limit: Duration) -> Self {
        self.limits.each_start = self.checked(limit);
        self
    }

    /// When the application has been ready, it waits this long between the end of [`Ctx::stopping`] and the first hook (not at
    /// all): for load balancers that have to learn that it goes. It is a part of the time to stop.
    pub fn drain_for(mut self, time: Duration) -> Self {
        self.limits.drain = self.checked(time).unwrap_or_default();
        self
    }

    /// Everything together may take this long to stop (25 s). When the time is up, hooks are dropped where they stand, those
    /// that have not run do not run, and the report names the services.
    ///
    /// Stay below what the supervisor gives: 30 s in Kubernetes, 90 s in systemd.
    pub fn stop_within(mut self, total: Duration) -> Self {
        self.limits.stop = self.checked(total).unwrap_or(self.limits.stop);
        self
    }

    /// All hooks of one service together may take this long (the time of the application). When it is up, the hook that runs is
    /// dropped, the rest of its hooks do not run, and what the service loaded stops. A service may have its own:
    /// [`Ctx::stop_within`].
    pub fn each_stop_within(mut self, limit: Duration) -> Self {
        self.limits.each_stop = self.checked(limit);
        self
    }

    fn checked(&mut self, limit: Duration) -> Option<Duration> {
        Span::new(limit).map(Span::get).map_err(|error| self.refuse(MAIN, error)).ok()
    }

    /// The first fault is told.
    fn refuse(&mut self, name: &'static str, fault: impl Into<BoxError>) {
        let error = ServiceError::because(ServiceErrorKind::Invalid, name, fault);
        self.invalid.get_or_insert(error);
    }

    /// What happens to the services from here on. Everybody who asks gets all events; `tracing` gets them as well.
    pub fn events(&mut self) -> Events {
        self.listeners.add()
    }

    /// Boots, waits for SIGINT or SIGTERM (or a service's [`Ctx::stop_app`]), and stops in order. For `main`, whose process it
    /// takes care of:
    ///
    /// - Signals are caught before the first service starts; those that were ignored when the process began stay ignored.
    /// - A second signal ends the process at once, with 130 (SIGINT) or 143 (SIGTERM).
    /// - A second after the time to stop the process ends, whatever still runs: also a hook that blocks its thread, blocking work that the
    ///   runtime waits for, and what `main` does while it holds the report. The exit code is 124, or that of the report when there is one.
    /// - A supervisor that listens (`NOTIFY_SOCKET`, as systemd sets it for `Type=notify`) is told `READY=1` when everything that is
    ///   booted is ready, and `STOPPING=1` before anything stops. Children inherit that variable unless they are started without it.
    ///
    /// What goes wrong is in the [`Report`], whose codes are those of [`CODES`](crate::CODES).
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: dropped, what runs is ended where it stands, and no hook runs.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time enabled.
    pub async fn run(self) -> Report {
        let running = Running::default();
        let heard = signals::listen(self.limits.stop, Arc::clone(&running)).await;
        let (watch, mut first) = match heard {
            Ok(heard) => heard,
            Err(error) => {
                return Report::refused(&ServiceError::because(ServiceErrorKind::Failed, "signals", error));
            }
        };
        let signal = async move {
            match first.wait_for(Option::is_some).await.ok().and_then(|signal| *signal) {
                Some(signal) => StopCause::Signal { name: signal.name },
                None => pending().await,
            }
        };
        let outside = Outside { notifier: Notifier::from_env(), watch: Some(watch), running };
        self.drive(outside, signal, |_| pending()).await
    }

    /// The same, stopped by the end of `signal`, and without the care for the process: no signal is caught, nobody is told, the
    /// process is not ended. For tests, and for programs that are stopped by something else.
    ///
    /// # Cancel safety, panics
    ///
    /// As [`run`](Self::run).
    pub async fn run_until<F: Future>(self, signal: F) -> Report {
        let signal = signal.map(|_| StopCause::Asked);
        self.drive(Outside::default(), signal, |_| pending()).await
    }

    /// Boots, runs `main`, and stops when it ends; as [`run_until`](Self::run_until), without care for the process. What `main` loads
    /// it loads for itself: its own hooks run first. It gives back what `main` returned, or none when the application did not
    /// come to it or was stopped by a service, in which case `main` is dropped where it stands.
    ///
    /// ```
    /// # use hapax_service::{App, Ctx};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// async fn answer(_: Ctx) -> std::io::Result<u8> {
    ///     Ok(42)
    /// }
    /// let (loaded, report) = App::new().run_with(async |ctx| ctx.load(answer).await).await;
    /// assert_eq!(loaded.unwrap().unwrap(), 42);
    /// assert!(report.is_clean());
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    ///
    /// # Panics
    ///
    /// As [`run`](Self::run), and with the panic of `main`, after everything has stopped in order.
    pub async fn run_with<F, Fut>(self, main: F) -> (Option<Fut::Output>, Report)
    where
        F: FnOnce(Ctx) -> Fut,
        Fut: Future,
    {
        let mut ended: Option<Result<Fut::Output, Box<dyn Any + Send>>> = None;
        let keep = &mut ended;
        let main = |ctx| async move {
            *keep = Some(AssertUnwindSafe(async { main(ctx).await }).catch_unwind().await);
            StopCause::Asked
        };
        let report = self.drive(Outside::default(), pending(), main).await;
        match ended {
            Some(Ok(value)) => (Some(value), report),
            Some(Err(panic)) => resume_unwind(panic),
            None => (None, report),
        }
    }

    async fn drive<S, M, Fut>(self, outside: Outside, stop: S, main: M) -> Report
    where
        S: Future<Output = StopCause>,
        M: FnOnce(Ctx) -> Fut,
        Fut: Future<Output = StopCause>,
    {
        if let Some(error) = self.invalid {
            return outside.end(Report::refused(&error));
        }
        let limits = self.limits;
        let container = Container::new(limits, self.names, self.listeners);
        let _ = outside.running.set(Arc::downgrade(&container));
        let _clear = Clear(Arc::clone(&container));
        let root = container.root(MAIN);
        let began = Instant::now();

        // The values are the services' own: nothing here may keep them when those stop.
        let load = async |starter| container.load(&root, starter, false).await.map(drop);
        let boots = self.boots.into_iter().map(load);
        let boot = timeout(limits.start.unwrap_or(Duration::MAX), try_join_all(boots));
        let asked = async {
            container.asked.cancelled().await;
            StopCause::Service { name: container.asked_by.get().copied().unwrap_or(MAIN) }
        };
        let mut stop = pin!(async {
            tokio::select! {
                cause = stop => cause,
                cause = asked => cause,
            }
        });
        let mut start = None;
        let mut failure = None;
        let booted = tokio::select! {
            biased;
            booted = boot => Ok(booted),
            cause = &mut stop => Err(cause),
        };
        let cause = match booted {
            Ok(Ok(Ok(_))) => {
                let took = began.elapsed();
                start = Some(took);
                container.tell(&Event::Booted { took });
                outside.notifier.tell("READY=1\nSTATUS=ready");
                tokio::select! {
                    biased;
                    cause = &mut stop => cause,
                    cause = main(Ctx::new(&container, &root)) => cause,
                }
            }
            Ok(failed) => {
                let slowest = || container.graph().way_to_the_slowest(root.id);
                let timed_out = |_| ServiceError::new(ServiceErrorKind::TimedOut, slowest());
                failure = failed.map_or_else(|elapsed| Some(timed_out(elapsed)), Result::err);
                StopCause::StartFailed
            }
            Err(cause) => cause,
        };

        let stop_began = Instant::now();
        if let Some(watch) = &outside.watch {
            watch.stopping();
        }
        outside.notifier.tell("STOPPING=1\nSTATUS=stopping");
        stop::begin(&container);
        container.tell(&Event::Draining { cause });
        let drain = if start.is_some() { limits.drain } else { Duration::ZERO };
        stop::in_order(&container, drain).await;
        let report = Report {
            cause,
            problem: failure.as_ref().map(crate::report::Problem::of),
            start,
            stop: stop_began.elapsed(),
            services: stop::reports(&container),
            watch: None,
        };
        container.tell(&Event::Ended { exit_code: report.exit_code() });
        outside.end(report)
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<_> = self.names.values().collect();
        names.sort_unstable();
        f.debug_struct("App").field("names", &names).field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// What there is around the application.
#[derive(Default)]
struct Outside {
    notifier: Notifier,
    watch: Option<Watch>,
    running: Running,
}

impl Outside {
    fn end(self, mut report: Report) -> Report {
        if let Some(watch) = self.watch {
            watch.ended(report.exit_code());
            report.watch = Some(Arc::new(watch));
        }
        report
    }
}

/// Leaves nothing running, and nothing that holds itself.
struct Clear(Arc<Container>);

impl Drop for Clear {
    fn drop(&mut self) {
        self.0.clear();
    }
}
