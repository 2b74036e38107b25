//! What a factory is given.

use crate::{
    StopOutcome,
    container::{Container, Starter},
    error::{ServiceError, ServiceErrorKind},
    hook::Hook,
    service::Service,
};
use hapax_core::{BoxError, Span};
use std::{fmt, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Handed to the factory of a service: loads what it needs, and keeps what is to be done when it stops.
///
/// Cheap to clone. A clone may go into the tasks of the service: what they load, the service loads.
#[derive(Clone)]
pub struct Ctx {
    container: Arc<Container>,
    service: Arc<Service>,
}

impl Ctx {
    pub(crate) fn new(container: &Arc<Container>, service: &Arc<Service>) -> Self {
        Self { container: Arc::clone(container), service: Arc::clone(service) }
    }

    /// The service that `factory` makes: started now if nobody asked for it before, else the one that is there. Those who
    /// ask while it starts wait for the same start.
    ///
    /// The function is the key. It is a plain `async fn(Ctx) -> Result<T, E>`, or a closure that captures nothing; what it
    /// needs, it loads.
    ///
    /// ```
    /// # use hapax_service::Ctx;
    /// # #[derive(Clone)] struct Pool;
    /// # impl Pool { async fn connect() -> std::io::Result<Pool> { Ok(Pool) } async fn close(&self) {} }
    /// async fn pool(ctx: Ctx) -> std::io::Result<Pool> {
    ///     let pool = Pool::connect().await?;
    ///     let closing = pool.clone();
    ///     ctx.on_stop(async move || closing.close().await);
    ///     Ok(pool)
    /// }
    /// # struct Shop(Pool);
    /// async fn shop(ctx: Ctx) -> anyhow::Result<std::sync::Arc<Shop>> {
    ///     let pool = ctx.load(pool).await?; // stops after the shop
    ///     Ok(std::sync::Arc::new(Shop(pool)))
    /// }
    /// ```
    ///
    /// A closure that captures is refused, by `cargo check` for `async` closures, by `cargo build` for others:
    ///
    /// ```compile_fail,E0080
    /// # use hapax_service::{Ctx, ServiceError};
    /// # async fn f(ctx: Ctx) -> Result<u8, ServiceError> {
    /// let port = 8080_u16;
    /// ctx.load(move |_| async move { Ok::<_, std::io::Error>(port as u8) }).await
    /// # }
    /// # fn main() { let _ = f; hapax_service::App::new().boot("f", f); }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ServiceError`]: `service.start_failed`, `service.panicked` and `service.start_timeout` when it, or a service that it
    /// loads, could not start; `service.cycle` when it loads, at once or by others, the service that asks, also where both ask
    /// at the same time; `service.stopping` when the application stops. A failed start is kept: who asks later gets the same error, and
    /// [`retry_start`](Self::retry_start) starts it again.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the start goes on, and the service stops with the others.
    pub async fn load<F, Fut, T, E>(&self, factory: F) -> Result<T, ServiceError>
    where
        F: Fn(Self) -> Fut + Send + Sync + Copy + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Clone + Send + Sync + 'static,
        E: Into<BoxError>,
    {
        const { assert!(size_of::<F>() == 0, "{}", CAPTURES) };
        self.load_as(Starter::new(factory), false).await
    }

    /// As [`load`](Self::load), and a service that could not start is started again. Its hooks have run by then. Those who
    /// ask meanwhile wait for the new start.
    ///
    /// # Errors
    ///
    /// Those of `load`.
    ///
    /// # Cancel safety
    ///
    /// That of `load`.
    pub async fn retry_start<F, Fut, T, E>(&self, factory: F) -> Result<T, ServiceError>
    where
        F: Fn(Self) -> Fut + Send + Sync + Copy + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Clone + Send + Sync + 'static,
        E: Into<BoxError>,
    {
        const { assert!(size_of::<F>() == 0, "{}", CAPTURES) };
        self.load_as(Starter::new(factory), true).await
    }

    async fn load_as<T: Clone + 'static>(&self, starter: Starter, again: bool) -> Result<T, ServiceError> {
        let value = self.container.load(&self.service, starter, again).await?;
        // The type of the factory decides on that of the value.
        let value = value.downcast_ref::<T>().cloned();
        value.ok_or_else(|| ServiceError::new(ServiceErrorKind::Invalid, vec![self.service.name]))
    }

    /// Runs `hook` when the service stops: last in, first out, before anything stops that the service loaded, and also when
    /// the service could not start. A hook that fails or panics is reported, and the next one runs. A hook that comes when the
    /// service has stopped runs at once.
    ///
    /// ```
    /// # async fn factory(ctx: hapax_service::Ctx) -> std::io::Result<()> {
    /// let file = std::fs::File::create("/dev/null")?;
    /// ctx.on_stop(async move || file.sync_all()); // an error goes into the report
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// A hook is dropped at its await when its time is up: see [`App::stop_within`](crate::App::stop_within).
    pub fn on_stop<F, Fut>(&self, hook: F)
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output: StopOutcome> + Send + 'static,
    {
        self.container.on_stop(&self.service, Hook::new(hook));
    }

    /// Is over when the application begins to stop, before any hook runs. For loops that take on work, and for servers:
    /// `axum::serve(..).with_graceful_shutdown(ctx.stopping())`.
    ///
    /// A factory that still runs then has a fifth of [`App::stop_within`](crate::App::stop_within), at most 5 s, to come to
    /// an end; then it is dropped. It borrows nothing, and is cancel safe.
    pub fn stopping(&self) -> impl Future<Output = ()> + Send + use<> {
        self.container.stopping.clone().cancelled_owned()
    }

    /// Whether the application stops.
    pub fn is_stopping(&self) -> bool {
        self.container.stopping.is_cancelled()
    }

    /// What is left of the time in which the service has to have stopped, or of that of the application; none while it does
    /// not stop. For hooks that have to choose what to do first.
    pub fn time_left(&self) -> Option<Duration> {
        let both = [self.service.stop_by(), self.container.stop_by.get().copied()];
        both.into_iter().flatten().min().map(|by| by.saturating_duration_since(Instant::now()))
    }

    /// Stops the application, in order, as a signal would. For a service that cannot go on.
    pub fn stop_app(&self) {
        // The first one is the cause.
        let _ = self.container.asked_by.set(self.service.name);
        self.container.asked.cancel();
    }

    /// The service may take this long to start, what it loads included, counted from the moment when it was asked for; goes before
    /// [`App::each_start_within`](crate::App::each_start_within). A limit of less than 1 ms or more than 400 days fails the
    /// start with `service.invalid`.
    pub fn start_within(&self, limit: Duration) {
        if let Some(limit) = self.checked(limit) {
            self.service.start_by.send_replace(Some(self.service.began + limit));
        }
    }

    /// All hooks of the service together may take this long; goes before
    /// [`App::each_stop_within`](crate::App::each_stop_within). Limits are checked as those of
    /// [`start_within`](Self::start_within).
    pub fn stop_within(&self, limit: Duration) {
        if let Some(limit) = self.checked(limit) {
            self.service.set_stop_within(limit);
        }
    }

    fn checked(&self, limit: Duration) -> Option<Duration> {
        let refuse = |error| ServiceError::because(ServiceErrorKind::Invalid, self.service.name, error);
        Span::new(limit).map(Span::get).map_err(|error| self.service.set_invalid(refuse(error))).ok()
    }

    /// The name of the service: that of [`App::boot`](crate::App::boot) or [`App::name`](crate::App::name), else the path of
    /// its function.
    pub fn name(&self) -> &'static str {
        self.service.name
    }
}

/// Said by the compiler.
pub(crate) const CAPTURES: &str =
    "a service is a plain `async fn(Ctx) -> Result<T, E>`: a closure that captures has no identity";

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").field("service", &self.service.name).finish_non_exhaustive()
    }
}
