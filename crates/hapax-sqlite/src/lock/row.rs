//! From a row to a lock, and back. What hapax did not write so is an error: nothing here is guessed.

use crate::number::{integer, natural};
use hapax_core::{
    BootTime, Name, Timestamp, Token,
    lock::{Fence, Held, Holder, Lock, machine::Slot},
};
use rusqlite::{Connection, OptionalExtension, Row, params, types::FromSqlError};

/// The columns after the name.
macro_rules! columns {
    () => {
        "fence, released, used_at, token, held_fence, holder, since, boot_id, until"
    };
}
pub(super) use columns;

pub(super) const LOAD: &str =
    concat!("SELECT ", columns!(), " FROM hapax_lock WHERE namespace = ?1 AND key = ?2");
const INSERT: &str = concat!(
    "INSERT INTO hapax_lock (namespace, key, ",
    columns!(),
    ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
);
pub(super) const UPDATE: &str = concat!(
    "UPDATE hapax_lock SET (",
    columns!(),
    ") = (?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) WHERE namespace = ?1 AND key = ?2"
);
pub(super) const DELETE: &str = "DELETE FROM hapax_lock WHERE namespace = ?1 AND key = ?2";

/// What lies under a name. `boot_id` is the life of the machine in which leases count now.
pub(super) fn load(conn: &Connection, name: &Name, boot_id: &str) -> rusqlite::Result<Slot> {
    let mut statement = conn.prepare_cached(LOAD)?;
    statement.query_row([name.namespace(), name.key()], |row| read(row, 0, boot_id)).optional()
}

/// From a row whose columns begin at `first`.
pub(super) fn read(row: &Row<'_>, first: usize, boot_id: &str) -> rusqlite::Result<Lock> {
    let held = match row.get::<_, Option<[u8; 16]>>(first + 3)? {
        None => None,
        Some(token) => Some(Held {
            token: Token::from_bytes(token),
            fence: fence(row, first + 4)?,
            holder: Holder::new(row.get_ref(first + 5)?.as_str_or_null()?.unwrap_or_default()),
            since: Timestamp::from_millis(row.get(first + 6)?),
            // Where the machine started anew since, the holder is dead.
            until: match row.get_ref(first + 7)?.as_str()? {
                id if id == boot_id => BootTime::from_millis(natural(row.get(first + 8)?)),
                _ => BootTime::from_millis(0),
            },
        }),
    };
    Ok(Lock {
        fence: fence(row, first)?,
        held,
        released: row.get::<_, Option<[u8; 16]>>(first + 1)?.map(Token::from_bytes),
        used_at: Timestamp::from_millis(row.get(first + 2)?),
    })
}

fn fence(row: &Row<'_>, at: usize) -> rusqlite::Result<Fence> {
    Fence::new(natural(row.get(at)?)).map_err(|error| FromSqlError::Other(Box::new(error)).into())
}

/// Makes the row of a name say `after`, where it said `before`.
pub(super) fn store(
    conn: &Connection,
    name: &Name,
    boot_id: &str,
    before: &Slot,
    after: &Slot,
) -> rusqlite::Result<()> {
    let Some(lock) = after else {
        return conn.prepare_cached(DELETE)?.execute([name.namespace(), name.key()]).map(drop);
    };
    let held = lock.held.as_ref();
    let mut statement = conn.prepare_cached(if before.is_some() { UPDATE } else { INSERT })?;
    let values = params![
        name.namespace(),
        name.key(),
        integer(lock.fence.get()),
        lock.released.as_ref().map(Token::as_bytes),
        lock.used_at.as_millis(),
        held.map(|held| held.token.as_bytes()),
        held.map(|held| integer(held.fence.get())),
        held.map(|held| held.holder.as_str()).filter(|text| !text.is_empty()),
        held.map(|held| held.since.as_millis()),
        held.map(|_| boot_id),
        held.map(|held| integer(held.until.as_millis())),
    ];
    statement.execute(values).map(drop)
}
