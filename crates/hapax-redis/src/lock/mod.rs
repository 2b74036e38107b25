//! Locks on Redis.
//!
//! A lock is one string, with its fence, its holder and its last release in it, so that a step is one script that reads it
//! and writes it once. The key outlives the lease by the time for which a fence is remembered; see `docs/decisions.md`.

mod guard;
mod list;
mod script;
mod step;
mod wait;

pub use guard::Guard;

use crate::store::RedisStore;
use async_trait::async_trait;
use hapax_core::{
    Name, Span, StoreResult, Token,
    lock::{Acquire, Acquired, Extended, Fence, HolderInfo, ListLocks, LockInfo, LockPage, LockStore, Write},
};
use std::{fmt, sync::Arc, time::Duration};
use step::{Break, Extend, Release, Seed, Show};

/// Locks beside the keys of a [`RedisStore`], on its connections; who waits has one more.
///
/// - A lease is compared with the server's clock at each step.
/// - With `wait_replicas`, a grant and a renewal count once so many replicas have them. Without, a failover may forget
///   both: two hold the lock then, and the fence of the second is larger.
/// - Who waits is woken by the release; when the lease ends, or a release was missed, it looks for itself, once a second.
pub struct RedisLocks(Arc<Locks>);

/// What tasks share with the callers that they work for.
struct Locks {
    store: Arc<RedisStore>,
    waiters: wait::Waiters,
}

impl RedisLocks {
    /// The locks of a store.
    pub fn of(store: &Arc<RedisStore>) -> Self {
        Self(Arc::new(Locks { store: Arc::clone(store), waiters: wait::Waiters::default() }))
    }
}

#[async_trait]
impl LockStore for RedisLocks {
    async fn acquire(&self, req: &Acquire) -> StoreResult<Acquired> {
        self.0.store.take(req).await
    }

    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        self.0.store.take(&Extend(name, token, lease)).await
    }

    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        self.0.store.take(&Release(name, token)).await
    }

    async fn show(&self, name: &Name) -> StoreResult<LockInfo> {
        self.0.store.take(&Show(name)).await
    }

    async fn list(&self, req: &ListLocks) -> StoreResult<LockPage> {
        self.0.page(req).await
    }

    async fn break_lock(&self, name: &Name) -> StoreResult<Option<HolderInfo>> {
        self.0.store.take(&Break(name)).await
    }

    async fn seed_fence(&self, name: &Name, least: Fence) -> StoreResult<Fence> {
        self.0.store.take(&Seed(name, least)).await
    }

    async fn wait(&self, name: &Name, limit: Duration) -> StoreResult<()> {
        self.0.waited(name, limit).await
    }

    /// Nothing: Redis itself removes what is over.
    async fn prune(&self, _: usize) -> StoreResult<usize> {
        Ok(0)
    }

    async fn extend_many(&self, reqs: &[(Name, Token, Span)]) -> Vec<StoreResult<Extended>> {
        let steps: Vec<_> = reqs.iter().map(|(name, token, lease)| Extend(name, token, *lease)).collect();
        self.0.store.take_many(&steps).await
    }
}

impl fmt::Debug for RedisLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLocks").field("store", &self.0.store).finish_non_exhaustive()
    }
}
