//! A handler that outlives its client.

use hapax_core::BoxFuture;
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::runtime::Handle;
use tracing::{Instrument, Span};

/// Runs where its client waits for it; when the client goes away before the end, in a task of its own from there on. Most
/// clients stay, and a task for each handler would wake another thread twice for a request.
pub(super) struct Lasting<T: Send + 'static> {
    work: Option<BoxFuture<'static, T>>,
    runtime: Handle,
    span: Span,
}

impl<T: Send + 'static> Lasting<T> {
    /// On the runtime, and in the span, of the caller.
    pub(super) fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self { work: Some(Box::pin(work)), runtime: Handle::current(), span: Span::current() }
    }
}

impl<T: Send + 'static> Future for Lasting<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // Not there while it runs, so that what panics is not run on.
        let Some(mut work) = self.work.take() else { return Poll::Pending };
        let answer = work.as_mut().poll(cx);
        if answer.is_pending() {
            self.work = Some(work);
        }
        answer
    }
}

impl<T: Send + 'static> Drop for Lasting<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            // Nobody waits for it; a runtime that ends drops it at once.
            drop(self.runtime.spawn(work.instrument(self.span.clone())));
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Lasting<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lasting").field("runs", &self.work.is_some()).finish_non_exhaustive()
    }
}
