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

/// One allocation a call, made by `run`: settings may change until the first poll, and the type stays short.
pub(crate) trait Pending<'a, T, E>: Future<Output = Out<T, E>> + Send {
    fn settings(self: Pin<&mut Self>) -> Option<&mut Settings<'a, T>>;
}

pin_project_lite::pin_project! {
    struct Lazy<F, S, M, Fut> {
        start: Option<(F, S)>,
        make: Option<M>,
        #[pin]
        running: Option<Fut>,
    }
}

impl<F, S, M: FnOnce(F, S) -> Fut, Fut: Future> Future for Lazy<F, S, M, Fut> {
    type Output = Fut::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Fut::Output> {
        let mut this = self.project();
        if let (Some((parts, settings)), Some(make)) = (this.start.take(), this.make.take()) {
            this.running.set(Some(make(parts, settings)));
        }
        match this.running.as_pin_mut() {
            Some(running) => running.poll(cx),
            None => Poll::Pending,
        }
    }
}

impl<'a, F: Send, M, Fut, T, E> Pending<'a, T, E> for Lazy<F, Settings<'a, T>, M, Fut>
where
    M: FnOnce(F, Settings<'a, T>) -> Fut + Send,
    Fut: Future<Output = Out<T, E>> + Send,
{
    fn settings(self: Pin<&mut Self>) -> Option<&mut Settings<'a, T>> {
        self.project().start.as_mut().map(|(_, settings)| settings)
    }
}

/// A call that has not started: a future with settings. Its output is `Ok(Ok(value))`, and two `?` give the value: the
/// first for hapax, the second for the effect.
#[must_use = "the effect does not run until this is awaited"]
pub struct Run<'a, T, E, C = Json> {
    call: Pin<Box<dyn Pending<'a, T, E> + 'a>>,
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
        let make = move |(effect, call): (F, Call<C>), settings| effect::run(call, effect, settings);
        let call =
            Lazy { start: Some(((effect, call), Settings::default())), make: Some(make), running: None };
        Self { call: Box::pin(call), codec: PhantomData }
    }

    fn set(mut self, change: impl FnOnce(&mut Settings<'a, T>)) -> Self {
        let settings = self.call.as_mut().settings();
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
        Self { call: Box::pin(Detached::new(self.call)), codec: PhantomData }
    }
}

impl<T, E, C> Future for Run<'_, T, E, C> {
    type Output = Result<Result<T, E>, IdempotencyError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.call.as_mut().poll(cx).map_ok(|result| result.map(|answer| answer.value))
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
        self.run.call.as_mut().poll(cx)
    }
}
