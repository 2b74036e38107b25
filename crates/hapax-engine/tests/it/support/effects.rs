use hapax_engine::{Class, Classify};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};
use tokio::{task::yield_now, time::Instant};

/// How often effects began, and how often they had their consequence. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    begun: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl Calls {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    pub(crate) fn ended(&self) -> usize {
        self.ended.load(Ordering::SeqCst)
    }

    /// An effect that ends at once.
    #[expect(clippy::unused_async, reason = "effects are futures")]
    pub(crate) async fn effect<E>(&self, value: u32) -> Result<u32, E> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.ended.fetch_add(1, Ordering::SeqCst);
        Ok(value)
    }

    /// An effect with await points in it.
    pub(crate) async fn slow(&self, value: u32) -> Result<u32, Broken> {
        self.ending(Ok(value)).await
    }

    /// As `slow`, with any end.
    pub(crate) async fn ending(&self, end: Result<u32, Broken>) -> Result<u32, Broken> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        yield_now().await;
        yield_now().await;
        self.ended.fetch_add(1, Ordering::SeqCst);
        end
    }

    /// An effect that goes on until its future is dropped.
    pub(crate) async fn forever<T, E>(&self) -> Result<T, E> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        std::future::pending().await
    }

    /// As `forever`, with everything that it needs.
    pub(crate) async fn forever_owned(self) -> Result<u32, Broken> {
        self.forever().await
    }
}

/// An error with a class of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    #[error("it failed")]
    Failed,
    #[error("nobody knows")]
    Unknown,
}

impl Classify for Broken {
    fn class(&self) -> Class {
        match self {
            Self::Failed => Class::Failed,
            Self::Unknown => Class::Unknown,
        }
    }
}

/// An error of somebody else: no class.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Failure(pub(crate) &'static str);

/// Polls once, with the waker of the test.
pub(crate) async fn once<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// Polls `n` times, or until the end, which it answers if it came. Other tasks get a turn after each poll.
pub(crate) async fn poll_times<F: Future + ?Sized>(future: &mut Pin<Box<F>>, n: usize) -> Option<F::Output> {
    for _ in 0..n {
        if let Poll::Ready(output) = once(future).await {
            return Some(output);
        }
        yield_now().await;
    }
    None
}

/// As `poll_times`; time passes after each poll.
pub(crate) async fn poll_over_time<F: Future + ?Sized>(
    future: &mut Pin<Box<F>>,
    n: usize,
    pause: Duration,
) -> Option<F::Output> {
    for _ in 0..n {
        if let Poll::Ready(output) = once(future).await {
            return Some(output);
        }
        tokio::time::sleep(pause).await;
    }
    None
}

/// Waits until `condition` holds: an hour of paused time at most.
pub(crate) async fn until<Fut: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> Fut) {
    let deadline = Instant::now() + super::secs(3600);
    while !condition().await {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(super::ms(1)).await;
    }
}
