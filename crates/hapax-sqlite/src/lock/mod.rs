//! The contract of a store of locks, on the writer and the readers.

mod guard;
mod list;
mod row;
mod step;

pub use guard::admit;
pub(crate) use step::Release;

use crate::{step::Moment, store::SqliteStore, sweep::Ground};
use async_trait::async_trait;
use hapax_core::{
    Name, Span, StoreResult, Token,
    idempotency::{Extended, Write},
    lock::{Acquire, Acquired, Fence, HolderInfo, ListLocks, LockInfo, LockPage, LockStore, machine},
};
use rusqlite::{Connection, Row};
use std::time::Duration;
use step::{Break, Extend, SeedFence};

const SHOW: &str = "look at a lock";
const LIST: &str = "list locks";
const WAIT: &str = "wait for a lock";

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl LockStore for SqliteStore {
    async fn acquire(&self, req: &Acquire) -> StoreResult<Acquired> {
        if let Some(answer) = self.writer.here(req)? {
            return Ok(answer);
        }
        match self.look(req).await? {
            Some(busy) => Ok(busy),
            None => self.writer.queued(req).await,
        }
    }

    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        let answer = self.writer.one(&Extend(name.clone(), *token, lease)).await;
        self.writer.told(answer, Extended::Fenced)
    }

    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        let answer = self.writer.one(&Release(name.clone(), *token)).await;
        self.writer.told(answer, Write::Fenced)
    }

    async fn show(&self, name: &Name) -> StoreResult<LockInfo> {
        match self.readers.here(SHOW, |at| show(name, at))? {
            Some(found) => Ok(found),
            None => {
                let name = name.clone();
                self.readers.elsewhere(SHOW, move |at| show(&name, at)).await
            }
        }
    }

    async fn list(&self, req: &ListLocks) -> StoreResult<LockPage> {
        // It may have to pass any number of locks that nobody holds.
        let req = req.clone();
        self.readers.elsewhere(LIST, move |at| list::page(at, &req)).await
    }

    async fn break_lock(&self, name: &Name) -> StoreResult<Option<HolderInfo>> {
        self.writer.one(&Break(name.clone())).await
    }

    async fn seed_fence(&self, name: &Name, least: Fence) -> StoreResult<Fence> {
        self.writer.one(&SeedFence(name.clone(), least)).await
    }

    async fn wait(&self, name: &Name, limit: Duration) -> StoreResult<()> {
        let name = name.clone();
        self.await_change(WAIT, limit, move |at| {
            let slot = row::load(at.conn, &name, at.boot_id)?;
            let held = slot.and_then(|lock| lock.held);
            Ok(Some(held.map_or(Duration::ZERO, |held| held.until.since(at.now.boot))))
        })
        .await
    }

    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        self.sweep_all::<Locks>(limit).await
    }

    async fn extend_many(&self, reqs: &[(Name, Token, Span)]) -> Vec<StoreResult<Extended>> {
        let steps = reqs.iter().map(|(name, token, lease)| Extend(name.clone(), *token, *lease));
        let answers = self.writer.many(steps.collect()).await;
        answers.into_iter().map(|answer| self.writer.told(answer, Extended::Fenced)).collect()
    }
}

fn show(name: &Name, at: &Moment<'_>) -> rusqlite::Result<LockInfo> {
    Ok(machine::show(&row::load(at.conn, name, at.boot_id)?, &at.now))
}

/// The table of locks.
pub(crate) struct Locks;

impl Ground for Locks {
    type Id = [String; 2];
    const SCAN: &'static str = concat!(
        "SELECT namespace, key, ",
        row::columns!(),
        " FROM hapax_lock WHERE (namespace, key) > (?1, ?2) ORDER BY namespace, key"
    );
    const PLACE: [&'static str; 2] = ["pruned_lock_namespace", "pruned_lock_key"];

    fn over(row: &Row<'_>, at: &Moment<'_>) -> rusqlite::Result<Option<Self::Id>> {
        let lock = row::read(row, 2, at.boot_id)?;
        machine::may_forget(&lock, &at.now).then(|| Ok([row.get(0)?, row.get(1)?])).transpose()
    }
    fn remove(conn: &Connection, id: &Self::Id) -> rusqlite::Result<()> {
        conn.prepare_cached(row::DELETE)?.execute(id.each_ref()).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_statement_passes_rows_that_it_does_not_want() {
        crate::schema::check_plans(&[row::LOAD, row::UPDATE, row::DELETE, list::PAGE, Locks::SCAN]);
    }
}
