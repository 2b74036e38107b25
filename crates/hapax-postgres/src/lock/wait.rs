//! Waiting for a lock: the server calls when it is given back, where it can be heard.

use super::row;
use crate::{store::PostgresStore, value::Value};
use hapax_core::{Name, StoreResult};
use sqlx::{Row as _, postgres::PgRow};
use std::{pin::pin, time::Duration};
use tokio::time::Instant;

const OP: &str = "wait for a lock";
/// So long the server knows that somebody listens.
const LISTENS: Duration = Duration::from_secs(30);
/// A call may be lost with its connection: who waits looks so often by itself.
const POLL: Duration = Duration::from_secs(2);

impl PostgresStore {
    /// Returns when the lock may be free. Where nothing is heard of the server, at once: whoever waits makes pauses.
    pub(super) async fn await_release(&self, name: &Name, limit: Duration) -> StoreResult<()> {
        let (start, ear) = (Instant::now(), &*self.ear);
        if !ear.listens() {
            return Ok(());
        }
        let mut rung = ear.rings();
        let mut listening = pin!(ear.listen());
        loop {
            let left = limit.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            // Its end is nothing that the server calls for.
            let Some(rest) = self.rest_of_lease(name).await? else { return Ok(()) };
            tokio::select! {
                _ = rung.changed() => {}
                () = tokio::time::sleep(rest.min(left).min(POLL)) => {}
                () = &mut listening => {}
            }
        }
    }

    /// None where the lock is free.
    async fn rest_of_lease(&self, name: &Name) -> StoreResult<Option<Duration>> {
        let mut values = row::name(name);
        values.push(Value::Big(i64::try_from(LISTENS.as_millis()).unwrap_or_default()));
        let read = |rows: &[PgRow]| {
            let row = row::first(rows)?;
            let rest: Option<i64> = row.try_get(0)?;
            Ok(rest.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or_default())))
        };
        self.asked_of_locks(OP, "lock_look", &values, read).await
    }
}
