//! What runs when a service stops.

use crate::error::Panic;
use futures_util::FutureExt;
use hapax_core::{BoxError, BoxFuture};
use hapax_engine::{Closed, queue::Ran};
use std::panic::AssertUnwindSafe;

/// What a stop hook may end with: nothing, a [`Result`] of such, or what something of hapax says that was closed. A failure
/// goes into the [`Report`](crate::Report).
#[diagnostic::on_unimplemented(
    message = "a stop hook ends with `()` or a `Result`, not with `{Self}`",
    label = "this hook's value would be lost",
    note = "where the value is of no interest, say so: `async move || {{ stop().await; }}`",
    note = "where it tells of a failure, turn it into a `Result`"
)]
pub trait StopOutcome: Send {
    /// The failure, if it is one.
    fn into_result(self) -> Result<(), BoxError>;
}

impl StopOutcome for () {
    fn into_result(self) -> Result<(), BoxError> {
        Ok(())
    }
}

/// What a task returns, for one, is such a result within another.
impl<T: StopOutcome, E: Into<BoxError> + Send> StopOutcome for Result<T, E> {
    fn into_result(self) -> Result<(), BoxError> {
        self.map_err(Into::into)?.into_result()
    }
}

/// Of `hapax.close()`: a failure where something could not be stored.
impl StopOutcome for Closed {
    fn into_result(self) -> Result<(), BoxError> {
        if self.is_clean() {
            return Ok(());
        }
        let Self { unstored, unreleased, .. } = self;
        Err(format!("{unstored} receipts could not be stored, {unreleased} keys not be freed").into())
    }
}

/// Of a worker's `stop()`: what it gave back runs elsewhere.
impl StopOutcome for Ran {
    fn into_result(self) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Why a hook did not do what it should.
pub(crate) enum HookFault {
    Failed(BoxError),
    Panicked(Panic),
}

/// One of them.
pub(crate) struct Hook(Box<dyn FnOnce() -> BoxFuture<'static, Result<(), BoxError>> + Send>);

impl Hook {
    pub(crate) fn new<F, Fut>(hook: F) -> Self
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output: StopOutcome> + Send + 'static,
    {
        Self(Box::new(|| Box::pin(async move { hook().await.into_result() })))
    }

    pub(crate) async fn run(self) -> Result<(), HookFault> {
        // The hook is called in the future, so that a panic on the way to its own future is caught as well.
        match AssertUnwindSafe(async move { (self.0)().await }).catch_unwind().await {
            Ok(ended) => ended.map_err(HookFault::Failed),
            Err(payload) => Err(HookFault::Panicked(Panic::of(&*payload))),
        }
    }
}
