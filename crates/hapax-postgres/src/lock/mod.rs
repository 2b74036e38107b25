//! Locks: a row for each, and each step a function of the server and one round trip.
//!
//! Steps of many callers share statements and commits, as those of keys do. A row outlives its lease, since the next fence
//! goes on from it.

mod guard;
mod row;
mod step;
mod wait;

pub use guard::admit;

use crate::{call::Call, error::Failure, store::PostgresStore, value::Value};
use async_trait::async_trait;
use futures_util::future::join_all;
use hapax_core::{
    Name, Span, StoreResult, Token,
    lock::{Acquire, Acquired, Extended, Fence, HolderInfo, ListLocks, LockInfo, LockPage, LockStore, Write},
};
use sqlx::{Error, Row as _, postgres::PgRow};
use std::time::Duration;

const LOOK: &str = "look at a lock";
const LIST: &str = "list locks";
const PRUNE: &str = "forget locks";

impl PostgresStore {
    /// Asks what may be asked again, apart from the steps of others.
    async fn asked_of_locks<A>(
        &self,
        op: &'static str,
        function: &'static str,
        values: &[Value],
        read: impl FnOnce(&[PgRow]) -> Result<A, Error>,
    ) -> StoreResult<A> {
        let call = Call::one(self.schema(), function, values);
        let rows = self.sessions.call_within_limit(&call).await.map_err(|failure| failure.error(op))?;
        read(&rows).map_err(|error| Failure::of(&self.sessions.place, error).undone().error(op))
    }
}

#[async_trait]
impl LockStore for PostgresStore {
    async fn acquire(&self, req: &Acquire) -> StoreResult<Acquired> {
        self.acquire_lock(req).await
    }

    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        self.extend_lock(name, token, lease).await
    }

    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        self.release_lock(name, token).await
    }

    async fn show(&self, name: &Name) -> StoreResult<LockInfo> {
        self.asked_of_locks(LOOK, "lock_show", &row::name(name), |rows| row::info(row::first(rows)?)).await
    }

    async fn list(&self, req: &ListLocks) -> StoreResult<LockPage> {
        let values = [
            Value::bytes(req.namespace.as_str().as_bytes()),
            Value::bytes(req.prefix.as_bytes()),
            Value::Bytes(req.after.as_ref().map(|key| key.as_str().as_bytes().to_vec())),
            // One more than asked for tells whether there are more.
            Value::Big(i64::try_from(req.limit).unwrap_or(i64::MAX).saturating_add(1)),
        ];
        let read = |rows: &[PgRow]| {
            let mut page = LockPage { locks: Vec::new(), more: rows.len() > req.limit };
            for row in rows.iter().take(req.limit) {
                // A name that hapax did not write is passed over.
                page.locks.extend(row::named(row, &req.namespace)?.zip(Some(row::holder(row)?)));
            }
            Ok(page)
        };
        self.asked_of_locks(LIST, "lock_list", &values, read).await
    }

    async fn break_lock(&self, name: &Name) -> StoreResult<Option<HolderInfo>> {
        self.take_away(name).await
    }

    async fn seed_fence(&self, name: &Name, least: Fence) -> StoreResult<Fence> {
        self.seed(name, least).await
    }

    async fn wait(&self, name: &Name, limit: Duration) -> StoreResult<()> {
        self.await_release(name, limit).await
    }

    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        let values = [Value::Big(i64::try_from(limit).unwrap_or(i64::MAX))];
        let read = |rows: &[PgRow]| {
            let gone: i64 = row::first(rows)?.try_get(0)?;
            Ok(usize::try_from(gone).unwrap_or_default())
        };
        self.asked_of_locks(PRUNE, "lock_prune", &values, read).await
    }

    async fn extend_many(&self, reqs: &[(Name, Token, Span)]) -> Vec<StoreResult<Extended>> {
        // What comes at the same time leaves together.
        join_all(reqs.iter().map(|(name, token, lease)| self.extend_lock(name, token, *lease))).await
    }
}
