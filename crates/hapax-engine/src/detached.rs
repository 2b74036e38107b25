//! A call that goes on when its caller leaves, once its effect has begun.

use crate::{
    IdempotencyError,
    run::{Out, Pending, Settings},
};
use hapax_core::{StoreError, StoreErrorKind, Timestamp};
use std::{
    panic::resume_unwind,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

/// What the call and its caller agree on: the effect begins, or the caller leaves before. Never both.
#[derive(Debug, Default)]
pub(crate) struct Start(Mutex<Stage>);

#[derive(Debug, Default, Clone, Copy)]
enum Stage {
    #[default]
    Before,
    Begun(Timestamp),
    Left,
}

impl Start {
    /// Returns when the effect may begin: never, when the caller has left. The call is then ended from outside.
    pub(crate) async fn begin(&self, now: Timestamp) {
        let left = {
            let mut stage = self.stage();
            if matches!(*stage, Stage::Before) {
                *stage = Stage::Begun(now);
            }
            matches!(*stage, Stage::Left)
        };
        if left {
            std::future::pending::<()>().await;
        }
    }

    /// Whether the caller left before the effect began.
    fn leave(&self) -> bool {
        let mut stage = self.stage();
        if matches!(*stage, Stage::Before) {
            *stage = Stage::Left;
        }
        matches!(*stage, Stage::Left)
    }

    fn begun_at(&self) -> Option<Timestamp> {
        match *self.stage() {
            Stage::Begun(at) => Some(at),
            Stage::Before | Stage::Left => None,
        }
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Boxed<T, E> = Box<dyn Pending<'static, T, E> + 'static>;

/// The caller's end of the call.
pub(crate) struct Detached<T, E> {
    call: Option<Boxed<T, E>>,
    task: Option<tokio::task::JoinHandle<Out<T, E>>>,
    start: Arc<Start>,
}

impl<T, E> Detached<T, E> {
    pub(crate) fn new(call: Boxed<T, E>) -> Self {
        Self { call: Some(call), task: None, start: Arc::default() }
    }

    /// The runtime ended before the call did.
    fn cut_off(&self, source: tokio::task::JoinError) -> IdempotencyError {
        match self.start.begun_at() {
            Some(since) => IdempotencyError::unknown(since, false, Some(source.into())),
            None => {
                let reason = "the runtime of the call ended before its effect began";
                let error = StoreError::new(StoreErrorKind::Internal, "hapax", "run", reason);
                IdempotencyError::store_failed(error.with_source(source))
            }
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> Future for Detached<T, E> {
    type Output = Out<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(mut call) = self.call.take() {
            if let Some(settings) = call.settings() {
                settings.start = Some(Arc::clone(&self.start));
            }
            self.task = Some(tokio::spawn(call));
        }
        let Some(task) = self.task.as_mut() else { return Poll::Pending };
        Pin::new(task).poll(cx).map(|ended| {
            ended.unwrap_or_else(|error| match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(error) => Err(self.cut_off(error)),
            })
        })
    }
}

impl<T: Send + 'static, E: Send + 'static> Pending<'static, T, E> for Detached<T, E> {
    fn settings(&mut self) -> Option<&mut Settings<'static, T>> {
        self.call.as_mut()?.settings()
    }
}

impl<T, E> Drop for Detached<T, E> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take()
            && self.start.leave()
        {
            task.abort();
        }
    }
}
