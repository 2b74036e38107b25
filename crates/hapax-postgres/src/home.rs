//! Whether a connection of the caller's leads to the database of the store.

use crate::{error::Failure, store::PostgresStore};
use hapax_core::{StoreResult, idempotency::IdempotencyStore};
use sqlx::{AssertSqlSafe, PgConnection, Row as _};

const OP: &str = "compare databases";
/// The schema or the table is not there: another database.
const ELSEWHERE: [&str; 2] = ["3F000", "42P01"];

impl PostgresStore {
    /// Whether `conn` leads to the database in which this store keeps its keys, under whatever address: only there does a
    /// receipt commit with the caller's rows. Both are asked for the secret of the store.
    ///
    /// Codes: `store.unavailable`, `store.timeout`, `store.auth` (the connection's user may not read the table `meta`).
    pub async fn is_home(&self, conn: &mut PgConnection) -> StoreResult<bool> {
        let ours = self.secret().await?.map(hex::encode);
        let sql = format!("SELECT value FROM \"{}\".meta WHERE name = 'secret'", self.schema());
        // In one message, for poolers.
        let asked = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_optional(conn);
        let found = match tokio::time::timeout(self.limit(), asked).await {
            Ok(Ok(row)) => row.and_then(|row| row.try_get::<String, _>(0).ok()),
            Ok(Err(sqlx::Error::Database(error)))
                if error.code().is_some_and(|code| ELSEWHERE.contains(&&*code)) =>
            {
                None
            }
            Ok(Err(error)) => return Err(Failure::of(&self.sessions.place, error).error(OP)),
            Err(_) => return Err(Failure::timeout(&self.sessions.place, self.limit()).error(OP)),
        };
        Ok(found.is_some() && found == ours)
    }
}
