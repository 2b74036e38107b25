//! The contract of a store of rate limits, on the writer and the readers.

mod log;
mod row;
mod step;

use crate::{number::integer, step::Moment, store::SqliteStore, sweep::Ground};
use async_trait::async_trait;
use hapax_core::{
    Namespace, StoreResult,
    limit::{Answer, Check, Decide, Decided, LimitKey, LimitStore},
};
use rusqlite::{Connection, Row, params};
use step::Reset;

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl LimitStore for SqliteStore {
    async fn decide(&self, req: &Decide) -> StoreResult<Decided> {
        // A dry run writes nothing, so it is for the readers alone.
        if !req.dry_run
            && let Some(decided) = self.writer.here(req)?
        {
            return Ok(decided);
        }
        match self.look(req).await? {
            Some(unchanged) => Ok(unchanged),
            None => self.writer.queued(req).await,
        }
    }

    /// Never: a decision is written down.
    fn decide_now(&self, _: &Namespace, _: &Check, _: bool) -> Option<StoreResult<Answer>> {
        None
    }

    async fn reset(&self, namespace: &Namespace, key: &LimitKey) -> StoreResult<()> {
        self.writer.one(&Reset(namespace.clone(), key.clone())).await
    }

    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        self.sweep_all::<Limits>(limit).await
    }
}

/// The table of limits.
pub(crate) struct Limits;

impl Ground for Limits {
    type Id = (String, String, i64, bool);
    const SCAN: &'static str = "SELECT namespace, key, algorithm, shadow, until FROM hapax_limit \
                                WHERE (namespace, key) > (?1, ?2) ORDER BY namespace, key";
    const PLACE: [&'static str; 2] = ["pruned_limit_namespace", "pruned_limit_key"];

    fn over(row: &Row<'_>, at: &Moment<'_>) -> rusqlite::Result<Option<Self::Id>> {
        let is_over = row.get::<_, i64>(4)? <= integer(step::now(at));
        is_over.then(|| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))).transpose()
    }
    fn remove(conn: &Connection, (namespace, key, algorithm, shadow): &Self::Id) -> rusqlite::Result<()> {
        let id = params![namespace, key, algorithm, shadow];
        conn.prepare_cached(row::DELETE)?.execute(id).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_statement_passes_rows_that_it_does_not_want() {
        crate::schema::check_plans(&[row::LOAD, row::UPDATE, row::DELETE, step::RESET, Limits::SCAN]);
    }
}
