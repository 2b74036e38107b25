//! What a store of rate limits promises.
//!
//! A limit is a [`LimitKey`] and a [`Quota`]; a store keeps what it needs to count, and lets every state go when it
//! equals a fresh one. One [decision](LimitStore::decide) over several limits is atomic: all of them count, or none.
//! What is refused counts nowhere, so a client that keeps asking is let through as soon as one that waits.
//!
//! The rules are the pure functions of [`machine`], in whole numbers: what a store answers is what the definition of
//! the algorithm says, to the millisecond.

mod key;
pub mod machine;
mod quota;
mod request;

pub use key::LimitKey;
pub use machine::State;
pub use quota::{Algorithm, Bound, InvalidAlgorithm, InvalidQuota, Quota};
pub use request::{Answer, Check, Decide, Decided};

use crate::{Namespace, StoreResult};
use async_trait::async_trait;
use std::{fmt, sync::Arc};

/// A decision is over so many limits at most.
pub const MOST: usize = 16;

/// A store of rate limits.
#[async_trait]
pub trait LimitStore: Send + Sync + fmt::Debug {
    /// Decides over all limits of the request, by the rules of [`machine::decide`]. Not to be sent again after a lost
    /// reply: it may have counted, and would count twice.
    ///
    /// No two checks of a request have the same key, algorithm and [`shadow`](Check::shadow); there are [`MOST`] at
    /// most, and one at least.
    async fn decide(&self, req: &Decide) -> StoreResult<Decided>;

    /// The same for one limit, where the store can answer at once, without waiting for anything: none where it cannot.
    fn decide_now(&self, namespace: &Namespace, check: &Check, dry_run: bool) -> Option<StoreResult<Answer>> {
        let _ = (namespace, check, dry_run);
        None
    }

    /// Forgets what was counted under a key, whatever the algorithm, shadows too.
    async fn reset(&self, namespace: &Namespace, key: &LimitKey) -> StoreResult<()>;

    /// Forgets up to `limit` states that equal fresh ones; answers how many. Never needed for a right answer.
    async fn prune(&self, limit: usize) -> StoreResult<usize>;
}

// A URL picks the store at run time.
const _: fn(&dyn LimitStore) = |_| {};

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: LimitStore + ?Sized> LimitStore for Arc<S> {
    async fn decide(&self, req: &Decide) -> StoreResult<Decided> {
        (**self).decide(req).await
    }
    fn decide_now(&self, namespace: &Namespace, check: &Check, dry_run: bool) -> Option<StoreResult<Answer>> {
        (**self).decide_now(namespace, check, dry_run)
    }
    async fn reset(&self, namespace: &Namespace, key: &LimitKey) -> StoreResult<()> {
        (**self).reset(namespace, key).await
    }
    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        (**self).prune(limit).await
    }
}
