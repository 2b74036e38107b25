//! Calls to a store that always end: by an answer, by the time-out, or by a panic of the store.

use futures_util::FutureExt;
use hapax_core::{StoreError, StoreErrorKind, StoreResult};
use std::{panic::AssertUnwindSafe, time::Duration};
use tokio::time::Instant;

/// Why there is no answer.
#[derive(Clone, Copy)]
enum Silence {
    TimedOut,
    Panicked,
    /// A batch came back with fewer answers than it had requests.
    Missing,
}

impl Silence {
    /// The request may have been carried out in any of these cases.
    fn error(self, op: &'static str) -> StoreError {
        let (kind, reason) = match self {
            Self::TimedOut => (StoreErrorKind::Timeout, "no answer within the time-out"),
            Self::Panicked => (StoreErrorKind::Internal, "the store panicked"),
            Self::Missing => (StoreErrorKind::Internal, "the store answered fewer keys than it was asked"),
        };
        StoreError::new(kind, "hapax", op, reason).maybe_applied()
    }
}

/// The answer to one step.
pub(crate) async fn one<T>(
    limit: Duration,
    op: &'static str,
    step: impl Future<Output = StoreResult<T>>,
) -> StoreResult<T> {
    bounded(limit, op, step).await.unwrap_or_else(|silence| Err(silence.error(op)))
}

/// The answers to a batch: `n` of them, whatever the store says.
pub(super) async fn many<T>(
    limit: Duration,
    op: &'static str,
    n: usize,
    step: impl Future<Output = Vec<StoreResult<T>>>,
) -> Vec<StoreResult<T>> {
    let (mut answers, silence) = match bounded(limit, op, step).await {
        Ok(answers) => (answers, Silence::Missing),
        Err(silence) => (Vec::with_capacity(n), silence),
    };
    answers.truncate(n);
    answers.resize_with(n, || Err(silence.error(op)));
    answers
}

/// A store that answered less than it was asked.
pub(crate) fn missing(op: &'static str) -> StoreError {
    Silence::Missing.error(op)
}

/// The instant `by` from now. A duration that has no end ends in some decades: nothing overflows.
pub(crate) fn from_now(by: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(by).unwrap_or(now + Duration::from_hours(24 * 365 * 30))
}

async fn bounded<T>(limit: Duration, op: &'static str, step: impl Future<Output = T>) -> Result<T, Silence> {
    // The loops behind renewal and background work must outlive a store that panics.
    match tokio::time::timeout(limit, AssertUnwindSafe(step).catch_unwind()).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => {
            tracing::error!(code = "store.internal", op, "the store panicked");
            Err(Silence::Panicked)
        }
        Err(_) => Err(Silence::TimedOut),
    }
}
