//! Writes of holders, told apart by their fences where they arrive.

use crate::number::integer;
use hapax_core::{
    IntoKey,
    lock::{Fence, Guarded},
};
use rusqlite::{Error, Transaction, params};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS hapax_guard (resource TEXT PRIMARY KEY, fence INTEGER NOT NULL) WITHOUT ROWID";
const ADMIT: &str = "INSERT INTO hapax_guard (resource, fence) VALUES (?1, ?2) \
                     ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence WHERE excluded.fence > fence";
const LAST: &str = "SELECT fence FROM hapax_guard WHERE resource = ?1";

/// Says whether the holder of a lock may write to a resource: no newer holder has. Call it first in the transaction that
/// writes, and write only on [`Guarded::Applied`]: the fence is remembered when the transaction commits.
///
/// The transaction may be one of any SQLite database, in one process or many; the fences lie in its table `hapax_guard`,
/// which is made with the first, and its rows stay until you remove them. `resource` names what is written, with as much
/// as a holder writes in one transaction: its second one under the same name is a [`Guarded::Repeat`].
///
/// ```
/// use hapax_core::lock::{Fence, Guarded};
/// use hapax_sqlite::{admit, rusqlite::{self, Connection}};
///
/// fn close(database: &mut Connection, fence: Fence) -> rusqlite::Result<Guarded> {
///     let tx = database.transaction()?;
///     let verdict = admit(&tx, "account:7", fence)?;
///     if verdict == Guarded::Applied {
///         tx.execute("UPDATE account SET state = 'closed' WHERE id = 7", [])?;
///         tx.commit()?;
///     }
///     Ok(verdict)
/// }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let mut database = Connection::open_in_memory()?;
/// # database.execute_batch("CREATE TABLE account (id, state)")?;
/// # assert_eq!(close(&mut database, Fence::new(2)?)?, Guarded::Applied);
/// # assert_eq!(close(&mut database, Fence::new(2)?)?, Guarded::Repeat);
/// # assert_eq!(close(&mut database, Fence::new(1)?)?, Guarded::Stale);
/// # Ok(()) }
/// ```
///
/// # Errors
/// SQLite's; [`Error::ToSqlConversionFailure`] where the resource is no [`Key`](hapax_core::Key).
pub fn admit(tx: &Transaction<'_>, resource: impl IntoKey, fence: Fence) -> rusqlite::Result<Guarded> {
    let resource = resource.into_key().map_err(|error| Error::ToSqlConversionFailure(Box::new(error)))?;
    tx.prepare_cached(TABLE)?.execute([])?;
    let number = integer(fence.get());
    if tx.prepare_cached(ADMIT)?.execute(params![resource.as_str(), number])? > 0 {
        return Ok(Guarded::Applied);
    }
    let last: i64 = tx.prepare_cached(LAST)?.query_row([resource.as_str()], |row| row.get(0))?;
    Ok(if last == number { Guarded::Repeat } else { Guarded::Stale })
}
