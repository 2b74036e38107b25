//! What is answered in place of a store that cannot be opened.

use crate::failure::Failure;
use hapax::{
    RateLimiter, WhenDown, async_trait,
    core::{
        Namespace, StoreError, StoreErrorKind, StoreResult,
        limit::{Decide, Decided, LimitKey, LimitStore},
    },
};
use std::sync::Arc;

/// The answers of `--when-down`. Each process for itself is none of them: a command is a process of its own.
pub(super) fn parse(text: &str) -> Result<WhenDown, String> {
    match text {
        "open" => Ok(WhenDown::Open),
        "closed" => Ok(WhenDown::Closed),
        _ => Err(format!(
            "`{text}` is no answer: `open` lets everything pass while the store is out of reach, `closed` nothing"
        )),
    }
}

/// Whether a store that could not be opened may be there again in a while.
pub(super) fn is_out_of_reach(failure: &Failure) -> bool {
    matches!(failure.code, "store.unavailable" | "store.timeout")
}

/// Asks nobody.
pub(super) fn limits() -> RateLimiter {
    RateLimiter::new(Arc::new(OutOfReach))
}

#[derive(Debug)]
struct OutOfReach;

fn out_of_reach<T>(op: &'static str) -> StoreResult<T> {
    Err(StoreError::new(StoreErrorKind::Unavailable, "hapax", op, "the store could not be opened"))
}

#[async_trait]
impl LimitStore for OutOfReach {
    async fn decide(&self, _: &Decide) -> StoreResult<Decided> {
        out_of_reach("decide over a limit")
    }
    async fn reset(&self, _: &Namespace, _: &LimitKey) -> StoreResult<()> {
        out_of_reach("reset a limit")
    }
    async fn prune(&self, _: usize) -> StoreResult<usize> {
        out_of_reach("forget limits")
    }
}
