//! What the database must look like, and making it so.

use crate::error::Failure;
use hapax_core::{StoreErrorKind, error::needs_newer};
use rusqlite::{Connection, OptionalExtension, ToSql, params};
use std::path::Path;

pub(crate) const V1: &str = concat!(
    include_str!("schema/v1.sql"),
    include_str!("schema/v1_queue.sql"),
    include_str!("schema/v1_lock.sql"),
    include_str!("schema/v1_limit.sql"),
);
/// `hapx`; the same number stands in the schema.
const APPLICATION_ID: i32 = 0x6861_7078;
/// The newest layout that this version reads.
pub(crate) const READER: i64 = 1;
/// The newest layout that this version writes.
pub(crate) const WRITER: i64 = 1;

pub(crate) const META: &str = "SELECT value FROM hapax_meta WHERE name = ?1";
const SET_META: &str = "INSERT INTO hapax_meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";

/// Whose database it is.
#[derive(Debug, PartialEq, Eq)]
enum Owner {
    Nobody,
    Hapax,
    Another,
}

/// What a store says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) number: i64,
    min_reader: i64,
    min_writer: i64,
}

/// Why a database is not taken.
#[derive(Debug)]
pub(crate) enum Refusal {
    Sqlite(rusqlite::Error),
    Failure(Failure),
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Makes the schema in an empty database, and checks that of any other. Nothing is written to a database of another
/// program, or of a version of hapax that this one cannot work with.
pub(crate) fn prepare(conn: &Connection, path: &Path) -> Result<(), Refusal> {
    let found = owner(conn)?;
    match found {
        Owner::Another => return Err(Refusal::Failure(foreign(path))),
        Owner::Hapax => kept_layout(conn, path)?.check(path).map_err(Refusal::Failure)?,
        Owner::Nobody => {}
    }
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        let reason =
            format!("`{}` cannot have a write-ahead log here: its journal stays `{mode}`", path.display());
        return Err(Refusal::Failure(Failure::new(StoreErrorKind::Unsupported, reason)));
    }
    if found == Owner::Hapax || owner(conn)? == Owner::Hapax {
        return Ok(());
    }
    conn.execute_batch("BEGIN IMMEDIATE")?;
    // Many processes may find the file empty at once: the first to get here makes the schema.
    let made = match owner(conn) {
        Ok(Owner::Nobody) => {
            conn.execute_batch(V1).and_then(|()| conn.execute_batch("COMMIT")).map_err(Refusal::from)
        }
        Ok(Owner::Hapax) => conn.execute_batch("COMMIT").map_err(Refusal::from),
        Ok(Owner::Another) => Err(Refusal::Failure(foreign(path))),
        Err(error) => Err(error.into()),
    };
    if made.is_err() && !conn.is_autocommit() {
        conn.execute_batch("ROLLBACK")?;
    }
    made
}

/// What the store in this database says of itself.
pub(crate) fn layout(conn: &Connection, path: &Path) -> Result<Layout, Refusal> {
    if owner(conn)? != Owner::Hapax {
        return Err(Refusal::Failure(foreign(path)));
    }
    kept_layout(conn, path)
}

fn kept_layout(conn: &Connection, path: &Path) -> Result<Layout, Refusal> {
    let mut statement = conn.prepare_cached(META)?;
    let mut read = |name: &str| -> Result<i64, Refusal> {
        let value = statement.query_row([name], |row| row.get(0)).optional()?;
        value.ok_or_else(|| {
            let reason = format!("`{}` does not say its `{name}`: restore it from a backup", path.display());
            Refusal::Failure(Failure::new(StoreErrorKind::Corrupt, reason))
        })
    };
    Ok(Layout { number: read("layout")?, min_reader: read("min_reader")?, min_writer: read("min_writer")? })
}

impl Layout {
    /// Whether this version may read and write the store.
    pub(crate) fn check(self, path: &Path) -> Result<(), Failure> {
        if self.min_reader <= READER && self.min_writer <= WRITER {
            return Ok(());
        }
        Err(Failure::new(
            StoreErrorKind::Version,
            needs_newer(
                &format!("`{}`", path.display()),
                self.number,
                self.min_reader.max(self.min_writer),
                WRITER,
            ),
        ))
    }
}

/// Inside a write transaction: whether the store was upgraded past this process since it was opened.
pub(crate) fn may_write(conn: &Connection, path: &Path) -> Result<(), Refusal> {
    let mut statement = conn.prepare_cached(META)?;
    let min_writer: Option<i64> = statement.query_row(["min_writer"], |row| row.get(0)).optional()?;
    match min_writer {
        Some(min_writer) if min_writer <= WRITER => Ok(()),
        _ => layout(conn, path)?.check(path).map_err(Refusal::Failure),
    }
}

/// Sets one of the store's own values.
pub(crate) fn set_meta(conn: &Connection, name: &str, value: impl ToSql) -> rusqlite::Result<()> {
    conn.prepare_cached(SET_META)?.execute(params![name, value]).map(drop)
}

fn owner(conn: &Connection) -> rusqlite::Result<Owner> {
    // In one statement, so that all is of one moment: another process may be making the schema.
    let sql = "SELECT (SELECT application_id FROM pragma_application_id), \
               (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema)";
    conn.query_row(sql, [], |row| {
        Ok(match (row.get(0)?, row.get(1)?, row.get(2)?) {
            (APPLICATION_ID, _, _) => Owner::Hapax,
            (0, 0, 0) => Owner::Nobody,
            _ => Owner::Another,
        })
    })
}

fn foreign(path: &Path) -> Failure {
    let reason =
        format!("`{}` is a database of another program: name a file of its own for hapax", path.display());
    Failure::new(StoreErrorKind::Config, reason)
}

/// Whatever the tables hold, each statement goes to its rows by an index, in the order of that index.
#[cfg(test)]
pub(crate) fn check_plans(statements: &[&str]) {
    let conn = Connection::open_in_memory().unwrap();
    conn.execute_batch(V1).unwrap();
    for sql in statements {
        let mut plan = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let mut rows = plan.raw_query();
        while let Some(row) = rows.next().unwrap() {
            let part: String = row.get(3).unwrap();
            assert!(part.starts_with("SEARCH"), "{part}: {sql}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_carries_the_id_of_the_code() {
        let conn = Connection::open_in_memory().unwrap();
        assert_eq!(owner(&conn).unwrap(), Owner::Nobody);
        conn.execute_batch(V1).unwrap();
        assert_eq!(owner(&conn).unwrap(), Owner::Hapax);
        let found = layout(&conn, Path::new("x")).unwrap();
        assert_eq!(found, Layout { number: 1, min_reader: 1, min_writer: 1 });
        assert!(found.check(Path::new("x")).is_ok());
    }

    #[test]
    fn databases_of_others_are_known() {
        for sql in ["CREATE TABLE t(a)", "PRAGMA application_id = 7", "PRAGMA user_version = 3"] {
            let conn = Connection::open_in_memory().unwrap();
            conn.execute_batch(sql).unwrap();
            assert_eq!(owner(&conn).unwrap(), Owner::Another, "{sql}");
        }
    }

    #[test]
    fn a_writer_notices_an_upgrade() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(V1).unwrap();
        assert!(may_write(&conn, Path::new("x")).is_ok());
        conn.execute_batch("UPDATE hapax_meta SET value = 2 WHERE name = 'min_writer'").unwrap();
        assert!(matches!(
            may_write(&conn, Path::new("x")),
            Err(Refusal::Failure(failure)) if failure.kind == StoreErrorKind::Version
        ));
    }
}
