//! The future of a call, with its settings.

use crate::{
    Answer, Codec, EffectError, IdempotencyError, Json, Lease, Verdict,
    detached::{Detached, Start},
    effect::{self, Call},
};
use hapax_core::BoxFuture;
use std::{
    fmt,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

pub(crate) type Ask<'a, T> = Box<dyn FnOnce() -> BoxFuture<'a, Verdict<T>> + Send + 'a>;

/// What a call may be told before it starts.
pub(crate) struct Settings<'a, T> {
    pub(crate) lease: Option<Duration>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) unknown_ttl: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    pub(crate) open: bool,
    pub(crate) ask: Option<Ask<'a, T>>,
    /// Of a detached call, which ends with its caller as long as its effect has not begun.
    pub(crate) start: Option<Arc<Start>>,
}

impl<T> Default for Settings<'_, T> {
    fn default() -> Self {
        Self {
            lease: None,
            ttl: None,
            unknown_ttl: None,
            timeout: None,
            wait: None,
            open: false,
            ask: None,
            start: None,
        }
    }
}

pub(crate) type Out<T, E> = Result<Result<Answer<T>, E>, IdempotencyError>;

/// What `run` makes: settings may change until the first poll, and the type stays short.
pub(crate) trait Pending<'a, T, E>: Future<Output = Out<T, E>> + Send + Unpin {
    fn settings(&mut self) -> Option<&mut Settings<'a, T>>;
}

/// Small until it has to reserve: most replays end at the first poll, and the future of a whole call is large.
struct Lazy<'a, F, T, C, M, Fut> {
    start: Option<Parts<'a, F, T, C>>,
    make: M,
    running: Option<Pin<Box<Fut>>>,
}

struct Parts<'a, F, T, C> {
    call: Call<C>,
    effect: F,
    settings: Settings<'a, T>,
}

// Nothing in it is pinned but the future, which has a box of its own.
impl<F, T, C, M, Fut> Unpin for Lazy<'_, F, T, C, M, Fut> {}

impl<'a, F, T, E, C, M, Fut> Future for Lazy<'a, F, T, C, M, Fut>
where
    C: Codec<T>,
    M: Fn(Call<C>, F, Settings<'a, T>) -> Fut,
    Fut: Future<Output = Out<T, E>>,
{
    type Output = Out<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Out<T, E>> {
        if let Some(parts) = &mut self.start
            && let Some(answer) = effect::glance(&mut parts.call, &parts.settings)
        {
            self.start = None;
            return Poll::Ready(answer.map(Ok));
        }
        if let Some(Parts { call, effect, settings }) = self.start.take() {
            self.running = Some(Box::pin((self.make)(call, effect, settings)));
        }
        match &mut self.running {
            Some(running) => running.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

impl<'a, F, T, E, C, M, Fut> Pending<'a, T, E> for Lazy<'a, F, T, C, M, Fut>
where
    F: Send,
    T: Send,
    C: Codec<T>,
    M: Fn(Call<C>, F, Settings<'a, T>) -> Fut + Send,
    Fut: Future<Output = Out<T, E>> + Send,
{
    fn settings(&mut self) -> Option<&mut Settings<'a, T>> {
        self.start.as_mut().map(|parts| &mut parts.settings)
    }
}

/// A call that has not started: a future with settings. Its output is `Ok(Ok(value))`, and two `?` give the value: the
/// first for hapax, the second for the effect.
#[must_use = "the effect does not run until this is awaited"]
pub struct Run<'a, T, E, C = Json> {
    call: Box<dyn Pending<'a, T, E> + 'a>,
    codec: PhantomData<fn() -> C>,
}

impl<T, E, C> fmt::Debug for Run<'_, T, E, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Run(…)")
    }
}

impl<'a, T, E, C> Run<'a, T, E, C> {
    pub(crate) fn new<F, Fut, R>(call: Call<C>, effect: F) -> Self
    where
        F: FnOnce(Lease) -> Fut + Send + 'a,
        Fut: Future<Output = Result<T, R>> + Send + 'a,
        T: Send + 'a,
        E: Send,
        R: EffectError<Error = E> + 'a,
        C: Codec<T>,
    {
        let start = Some(Parts { call, effect, settings: Settings::default() });
        Self { call: Box::new(Lazy { start, make: effect::run, running: None }), codec: PhantomData }
    }

    fn set(mut self, change: impl FnOnce(&mut Settings<'a, T>)) -> Self {
        let settings = self.call.settings();
        debug_assert!(settings.is_some(), "a setting after the first poll has no effect");
        if let Some(settings) = settings {
            change(settings);
        }
        self
    }

    /// Held for so long unless renewed, and renewed while the effect runs (60 s).
    pub fn lease(self, lease: Duration) -> Self {
        self.set(|s| s.lease = Some(lease))
    }

    /// How long the result answers (24 h).
    pub fn ttl(self, ttl: Duration) -> Self {
        self.set(|s| s.ttl = Some(ttl))
    }

    /// How long an unknown outcome holds the key (24 h).
    pub fn unknown_ttl(self, ttl: Duration) -> Self {
        self.set(|s| s.unknown_ttl = Some(ttl))
    }

    /// The effect is dropped after `limit`; its outcome is then unknown.
    pub fn timeout(self, limit: Duration) -> Self {
        self.set(|s| s.timeout = Some(limit))
    }

    /// Waits up to `limit` for a call that is in flight, instead of answering `InFlight` at once.
    pub fn wait(self, limit: Duration) -> Self {
        self.set(|s| s.wait = Some(limit))
    }

    /// Asked, by one caller at a time, when an unknown outcome is found: did it happen?
    pub fn resolver<R, Fut>(self, ask: R) -> Self
    where
        R: FnOnce() -> Fut + Send + 'a,
        Fut: Future<Output = Verdict<T>> + Send + 'a,
    {
        self.set(|s| s.ask = Some(Box::new(move || Box::pin(ask()))))
    }

    /// Runs without deduplication when the store cannot be reached. May run twice.
    pub fn run_when_store_is_down(self) -> Self {
        self.set(|s| s.open = true)
    }

    /// Answers with the story of the value: replayed or not, first run, expiry.
    pub fn detailed(self) -> Detailed<'a, T, E, C> {
        Detailed { run: self }
    }
}

impl<T: Send + 'static, E: Send + 'static, C: 'static> Run<'static, T, E, C> {
    /// Once begun, the effect goes on when the caller is dropped. Needs a tokio runtime.
    pub fn detached(self) -> Self {
        Self { call: Box::new(Detached::new(self.call)), codec: PhantomData }
    }
}

impl<T, E, C> Future for Run<'_, T, E, C> {
    type Output = Result<Result<T, E>, IdempotencyError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.call).poll(cx).map_ok(|result| result.map(|answer| answer.value))
    }
}

/// A [`Run`] that answers with an [`Answer`].
#[must_use = "the effect does not run until this is awaited"]
#[derive(Debug)]
pub struct Detailed<'a, T, E, C = Json> {
    run: Run<'a, T, E, C>,
}

impl<T, E, C> Future for Detailed<'_, T, E, C> {
    type Output = Result<Result<Answer<T>, E>, IdempotencyError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.run.call).poll(cx)
    }
}
