//! The future of work under a lock, with its settings.

use super::{Lock, LockError, Locks, acquire};
use hapax_core::{BoxFuture, Name};
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

/// What may be said before it starts.
#[derive(Clone, Copy, Default)]
struct Settings {
    ttl: Option<Duration>,
    wait: Option<Duration>,
    drops: bool,
}

type Start<'a, R> = Box<dyn FnOnce(Settings) -> BoxFuture<'a, Result<R, LockError<R>>> + Send + 'a>;

/// Work under a lock that has not started: a future with settings.
#[must_use = "the work does not run until this is awaited"]
pub struct WithLock<'a, R> {
    start: Option<Start<'a, R>>,
    settings: Settings,
    running: Option<BoxFuture<'a, Result<R, LockError<R>>>>,
}

impl<R> fmt::Debug for WithLock<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WithLock(…)")
    }
}

impl<'a, R: Send + 'a> WithLock<'a, R> {
    pub(super) fn new<F, Fut>(locks: Locks, name: Result<Name, LockError>, body: F) -> Self
    where
        F: FnOnce(Lock) -> Fut + Send + 'a,
        Fut: Future<Output = R> + Send + 'a,
    {
        let start: Start<'a, R> = Box::new(move |settings| Box::pin(run(locks, name, settings, body)));
        Self { start: Some(start), settings: Settings::default(), running: None }
    }

    /// Held for so long unless renewed, and renewed while the work runs (30 s).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = Some(ttl);
        self
    }

    /// Waits up to `limit` for the lock, instead of answering `Busy` at once.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.settings.wait = Some(limit);
        self
    }

    /// Drops the work where it stands when the lock is lost. Without it the work is told, by [`Lock::lost`], and goes on.
    pub fn drop_body_when_lost(mut self) -> Self {
        self.settings.drops = true;
        self
    }
}

// Nothing in it is pinned but the future, which has a box of its own.
impl<R> Unpin for WithLock<'_, R> {}

impl<R> Future for WithLock<'_, R> {
    type Output = Result<R, LockError<R>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(start) = self.start.take() {
            self.running = Some(start(self.settings));
        }
        match &mut self.running {
            Some(running) => running.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

async fn run<F, Fut, R>(
    locks: Locks,
    name: Result<Name, LockError>,
    settings: Settings,
    body: F,
) -> Result<R, LockError<R>>
where
    F: FnOnce(Lock) -> Fut,
    Fut: Future<Output = R>,
{
    let without = |error: LockError| error.with_value(None);
    let name = name.map_err(without)?;
    let terms = locks.terms(settings.ttl).map_err(without)?;
    let guard = acquire::acquire(&locks, &name, terms, settings.wait).await.map_err(without)?;
    let lock = guard.lock().clone();
    let body = body(lock.clone());
    let value = if settings.drops {
        tokio::select! {
            // A result that is there is a result.
            biased;
            value = body => value,
            cause = lock.lost() => {
                let fence = lock.fence();
                drop(guard);
                return Err(LockError::Lost { value: None, fence, cause });
            }
        }
    } else {
        body.await
    };
    match guard.release().await {
        Ok(()) => Ok(value),
        Err(error) => Err(error.with_value(Some(value))),
    }
}
