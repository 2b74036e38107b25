//! Rate limits on Redis.
//!
//! What is kept of a limit lies under one key, and a decision over all of its limits is one script, in whole numbers on the
//! server's clock. In a Cluster limits of several names lie apart; see `apart.rs`.

mod apart;
mod script;
mod step;

use crate::{ask::Ask, error::BACKEND, store::RedisStore};
use async_trait::async_trait;
use hapax_core::{
    Namespace, StoreError, StoreErrorKind, StoreResult,
    limit::{Answer, Decide, Decided, LimitKey, LimitStore, MOST},
};
use std::{fmt, sync::Arc};
use step::{Count, Limits, Look, Sight, all_keys};

/// Rate limits beside the keys of a [`RedisStore`], on its connections. Decisions of callers that are ready together leave
/// together.
///
/// - What is kept of a limit goes when it equals a fresh state, so every key has an end.
/// - In a Cluster a decision over several names is not one step: it says `best_effort`.
/// - A failover, and a loss of power with `appendfsync everysec`, forget what was counted a moment before.
pub struct RedisLimits {
    store: Arc<RedisStore>,
}

impl RedisLimits {
    /// The limits of a store.
    pub fn of(store: &Arc<RedisStore>) -> Self {
        Self { store: Arc::clone(store) }
    }

    /// Decides over limits that lie together.
    async fn together(&self, limits: Limits<'_>, dry_run: bool) -> StoreResult<Vec<Answer>> {
        if dry_run {
            return self.store.take(&Look(limits, Sight::DryRun)).await;
        }
        self.store.take(&Count(limits)).await
    }
}

#[async_trait]
impl LimitStore for RedisLimits {
    async fn decide(&self, req: &Decide) -> StoreResult<Decided> {
        if req.checks.is_empty() || req.checks.len() > MOST {
            let reason = format!("a decision is over 1 to {MOST} limits, not {}", req.checks.len());
            let unsupported = StoreErrorKind::Unsupported;
            return Err(StoreError::new(unsupported, BACKEND, "check a limit", reason));
        }
        let limits = Limits { namespace: &req.namespace, checks: &req.checks };
        if self.store.connector().is_cluster() && apart::lie_apart(&req.checks) {
            // Apart, so that the usual call stays small.
            return Box::pin(self.decide_apart(req)).await;
        }
        Ok(Decided { answers: self.together(limits, req.dry_run).await?, best_effort: false })
    }

    async fn reset(&self, namespace: &Namespace, key: &LimitKey) -> StoreResult<()> {
        let keys = all_keys(self.store.keys(), namespace, key);
        let mut forget = redis::cmd("DEL");
        forget.arg(&keys);
        let first = keys.into_iter().next().unwrap_or_default();
        let forgotten = self.store.lines.call_one(&Ask::Plain(first, forget), true).await;
        forgotten.map(drop).map_err(|failure| failure.error("reset a limit"))
    }

    /// Nothing: Redis itself removes what is over.
    async fn prune(&self, _: usize) -> StoreResult<usize> {
        Ok(0)
    }
}

impl fmt::Debug for RedisLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLimits").field("store", &self.store).finish_non_exhaustive()
    }
}
