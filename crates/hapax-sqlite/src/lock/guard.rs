//! Writes of holders, told apart by their fences where they arrive.

use crate::{
    error::{Failure, config},
    number::integer,
};
use hapax_core::{
    IntoKey, Key, StoreResult,
    lock::{Fence, Guarded},
};
use rusqlite::{Transaction, params};
use std::path::Path;

const OP: &str = "admit a write";

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
/// use hapax_core::{BoxError, lock::{Fence, Guarded}};
/// use hapax_sqlite::{admit, rusqlite::Connection};
///
/// fn close(database: &mut Connection, fence: Fence) -> Result<Guarded, BoxError> {
///     let tx = database.transaction()?;
///     let verdict = admit(&tx, "account:7", fence)?;
///     if verdict == Guarded::Applied {
///         tx.execute("UPDATE account SET state = 'closed' WHERE id = 7", [])?;
///         tx.commit()?;
///     }
///     Ok(verdict)
/// }
/// # fn main() -> Result<(), BoxError> {
/// # let mut database = Connection::open_in_memory()?;
/// # database.execute_batch("CREATE TABLE account (id, state)")?;
/// # assert_eq!(close(&mut database, Fence::new(2)?)?, Guarded::Applied);
/// # assert_eq!(close(&mut database, Fence::new(2)?)?, Guarded::Repeat);
/// # assert_eq!(close(&mut database, Fence::new(1)?)?, Guarded::Stale);
/// # Ok(()) }
/// ```
///
/// # Errors
/// Codes: `store.timeout` (locked), `store.auth` (not to be written), `store.unavailable` (the disk), `store.corrupt`, and
/// `store.config` where the resource is no [`Key`]. Always [`Applied::No`](hapax_core::Applied): what fails within a
/// transaction goes with it. The source is SQLite's error.
pub fn admit(tx: &Transaction<'_>, resource: impl IntoKey, fence: Fence) -> StoreResult<Guarded> {
    let resource =
        resource.into_key().map_err(|error| config(OP, "the resource can be no key").with_source(error))?;
    let file = tx.path().filter(|path| !path.is_empty()).unwrap_or("a database in memory");
    admitted(tx, &resource, fence).map_err(|error| Failure::of(Path::new(file), error).error(OP))
}

fn admitted(tx: &Transaction<'_>, resource: &Key, fence: Fence) -> rusqlite::Result<Guarded> {
    tx.prepare_cached(TABLE)?.execute([])?;
    let number = integer(fence.get());
    if tx.prepare_cached(ADMIT)?.execute(params![resource.as_str(), number])? > 0 {
        return Ok(Guarded::Applied);
    }
    let last: i64 = tx.prepare_cached(LAST)?.query_row([resource.as_str()], |row| row.get(0))?;
    Ok(if last == number { Guarded::Repeat } else { Guarded::Stale })
}
