//! Removing rows that are over, without an index: a few at a time, from where the last look ended.

use crate::{call::Call, error::Failure, store::PostgresStore, value::Value};
use hapax_core::StoreResult;
use sqlx::{Error, Row as _, postgres::PgRow};
use std::sync::PoisonError;
use tokio::time::Instant;

const OP: &str = "prune";
/// So many rows are looked at in one transaction, which removes so many at most: others wait for it.
const ROWS: i64 = 1_024;
const MOST: usize = 256;

/// After this name the next look begins.
pub(crate) type Position = Vec<u8>;

impl PostgresStore {
    /// Looks at the whole table once at most, and no longer than a call may take; the next call goes on from there.
    pub(crate) async fn sweep(&self, limit: usize) -> StoreResult<usize> {
        let start = self.position.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (mut at, mut gone, mut again) = (start.clone(), 0, false);
        let mut deadline = None;
        while gone < limit {
            let most = (limit - gone).min(MOST);
            let (went, last) = self.look(&at, most).await?;
            gone += went;
            // From the first answer on, which says that there is a runtime.
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + self.limit());
            if went < most {
                match last {
                    Some(last) => at = last,
                    // The end of the table: on from its beginning, where the look did not begin there.
                    None => {
                        at = Position::new();
                        if again || start == at {
                            break;
                        }
                        again = true;
                    }
                }
            }
            if Instant::now() >= deadline || (again && at >= start) {
                break;
            }
        }
        *self.position.lock().unwrap_or_else(PoisonError::into_inner) = at;
        Ok(gone)
    }

    /// How many went, and the last row that was looked at; none at the end of the table.
    async fn look(&self, at: &Position, most: usize) -> StoreResult<(usize, Option<Position>)> {
        let values = [Value::bytes(at), Value::Big(ROWS), Value::Big(i64::try_from(most).unwrap_or(ROWS))];
        let call = Call::one(self.schema(), "prune", &values);
        let rows = self.sessions.call_within_limit(&call).await.map_err(|failure| failure.error(OP))?;
        let row = rows.first().ok_or_else(|| Failure::nonsense(&self.sessions.place).error(OP))?;
        read(row).map_err(|error| Failure::of(&self.sessions.place, error).error(OP))
    }
}

fn read(row: &PgRow) -> Result<(usize, Option<Position>), Error> {
    let gone = usize::try_from(row.try_get::<i64, _>("gone")?).unwrap_or(0);
    let last = row.try_get("last")?;
    Ok((gone, last))
}
