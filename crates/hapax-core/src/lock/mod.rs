//! What a store of locks promises.
//!
//! A lock is held under a token for a lease, which its holder renews. Each method is one atomic step, and each is
//! harmless when it is sent again: an acquire that finds its own token answers as the first time did, and a release
//! that was carried out before says so again. With every grant comes a [`Fence`], a number above all that were given
//! under this name before; whoever is written to can refuse a holder whose time is over.
//!
//! A lease is a promise about time and not about work: a holder that is paused goes on when it wakes, though another
//! holds the lock by then. The fence is what protects against that, where it is compared.

pub mod machine;
mod request;

pub use crate::idempotency::{Extended, Write};
pub use machine::{Held, Lock};
pub use request::{
    Acquire, Acquired, Fence, Grant, Guarded, Holder, HolderInfo, InvalidFence, ListLocks, LockInfo, LockPage,
};

use crate::{IntoKey, InvalidKey, Name, Namespace, Scope, Span, StoreResult, Token};
use async_trait::async_trait;
use std::{fmt, sync::Arc, time::Duration};

/// What the names of locks have as their scope.
pub const SCOPE: &str = "lock";
/// A store remembers the fence of a lock that nobody holds for so long at least. After that the clock has passed it:
/// a fence is never below the time in microseconds.
pub const FENCE_KEPT: Duration = Duration::from_hours(7 * 24);

/// The name of a lock.
pub fn name(namespace: &Namespace, key: impl IntoKey) -> Result<Name, InvalidKey> {
    key.into_name(namespace, &Scope::new(SCOPE)?)
}

/// A store of locks.
///
/// The decisions of each step are those of [`machine`]. Leases are measured on the store's own clock, and
/// [`until`](Grant::until) is a reading of it.
#[async_trait]
pub trait LockStore: Send + Sync + fmt::Debug {
    /// Takes the lock for the request's token, unless another holds it. To be sent again after a lost reply, under the
    /// same token: a lease that this token holds is answered with the same end and the same fence.
    async fn acquire(&self, req: &Acquire) -> StoreResult<Acquired>;

    /// Makes the lease longer; never shortens it. [`Fenced`](Extended::Fenced): the token does not hold the lock, and
    /// nothing is revived.
    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended>;

    /// Gives the lock back. [`Applied`](Write::Applied) proves that the token held it until this step, or until an
    /// earlier release of its own; [`Fenced`](Write::Fenced), that it did not.
    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write>;

    /// Who holds the lock, and its last fence.
    async fn show(&self, name: &Name) -> StoreResult<LockInfo>;

    /// A page of the locks that are held.
    async fn list(&self, req: &ListLocks) -> StoreResult<LockPage>;

    /// Takes the lock from its holder, whose next extend and release are fenced; answers whose it was. What the holder
    /// does meanwhile goes on: only its fence is old.
    async fn break_lock(&self, name: &Name) -> StoreResult<Option<HolderInfo>>;

    /// Makes the next fence larger than `least`, as after the loss of a store whose fences were ahead of the clock;
    /// answers the last fence as it is now.
    async fn seed_fence(&self, name: &Name, least: Fence) -> StoreResult<Fence>;

    /// Returns when the lock may be free, or when `limit` is over. A hint: it may return early, and who waits tries
    /// again. Where a store cannot tell, it returns at once, and who waits makes pauses of its own.
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping it.
    async fn wait(&self, name: &Name, limit: Duration) -> StoreResult<()>;

    /// Forgets up to `limit` locks that nobody holds and whose fence need not be remembered; answers how many. Never
    /// needed for a right answer.
    async fn prune(&self, limit: usize) -> StoreResult<usize>;

    /// A batch, each with its own answer, in order. One round trip where the store can; the default loops.
    async fn extend_many(&self, reqs: &[(Name, Token, Span)]) -> Vec<StoreResult<Extended>> {
        let mut answers = Vec::with_capacity(reqs.len());
        for (name, token, lease) in reqs {
            answers.push(self.extend(name, token, *lease).await);
        }
        answers
    }
}

// A URL picks the store at run time.
const _: fn(&dyn LockStore) = |_| {};

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: LockStore + ?Sized> LockStore for Arc<S> {
    async fn acquire(&self, req: &Acquire) -> StoreResult<Acquired> {
        (**self).acquire(req).await
    }
    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        (**self).extend(name, token, lease).await
    }
    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        (**self).release(name, token).await
    }
    async fn show(&self, name: &Name) -> StoreResult<LockInfo> {
        (**self).show(name).await
    }
    async fn list(&self, req: &ListLocks) -> StoreResult<LockPage> {
        (**self).list(req).await
    }
    async fn break_lock(&self, name: &Name) -> StoreResult<Option<HolderInfo>> {
        (**self).break_lock(name).await
    }
    async fn seed_fence(&self, name: &Name, least: Fence) -> StoreResult<Fence> {
        (**self).seed_fence(name, least).await
    }
    async fn wait(&self, name: &Name, limit: Duration) -> StoreResult<()> {
        (**self).wait(name, limit).await
    }
    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        (**self).prune(limit).await
    }
    async fn extend_many(&self, reqs: &[(Name, Token, Span)]) -> Vec<StoreResult<Extended>> {
        (**self).extend_many(reqs).await
    }
}
