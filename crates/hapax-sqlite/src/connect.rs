//! Opening connections.

use crate::{
    error::{Failure, is_busy},
    options::{SqliteOptions, Synchronous},
    patience::{Patience, real_time},
    place,
    schema::{self, Layout, Refusal},
};
use hapax_core::StoreResult;
use rusqlite::{Connection, OpenFlags, config::DbConfig};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

const OP: &str = "open the store";
/// Page cache of the connection that writes. Measured with 100,000 keys, 2 to 64 MiB made no difference: the system
/// caches the file too. This much spares the tree's upper levels a call into it.
const WRITER_CACHE_KIB: i32 = 8 * 1024;
/// Page cache of one that reads. Any commit of another connection empties it, so more would be of no use.
const READER_CACHE_KIB: i32 = 2 * 1024;

/// Where the store is, for whoever opens one more connection.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) timeout: Duration,
    synchronous: Synchronous,
    /// The file that was there when the store was opened, where the system can tell.
    file: Option<place::FileId>,
}

/// Makes or checks the store, and opens the connection that writes.
pub(crate) fn writer(options: &SqliteOptions) -> StoreResult<(Place, Connection)> {
    let mut place = Place {
        path: place::prepare(&options.path, options.allow_network)?,
        timeout: options.timeout,
        synchronous: options.synchronous,
        file: None,
    };
    let conn = place.patiently(|| {
        let conn = open(&place.path)?;
        schema::prepare(&conn, &place.path)?;
        place.tune(&conn, WRITER_CACHE_KIB)?;
        Ok(conn)
    });
    let conn = conn.map_err(|failure| failure.error(OP))?;
    place.file = place::identity(&place.path);
    Ok((place, conn))
}

/// What the store says of itself, whether or not this version can work with it.
pub(crate) fn layout(options: &SqliteOptions) -> StoreResult<Layout> {
    let place = Place {
        path: place::existing(&options.path, options.allow_network)?,
        timeout: options.timeout,
        synchronous: options.synchronous,
        file: None,
    };
    let found = place.patiently(|| schema::layout(&open(&place.path)?, &place.path));
    found.map_err(|failure| failure.error("upgrade the store"))
}

impl Place {
    /// Whether a commit waits for the disk.
    pub(crate) fn syncs_commits(&self) -> bool {
        self.synchronous == Synchronous::Full
    }

    /// Whether the path leads to the file that was opened. After it was moved or removed, connections go on with a file that
    /// nobody else finds, while others make a new one.
    pub(crate) fn is_in_place(&self) -> bool {
        self.file.as_ref().is_none_or(|file| place::is_still(&self.path, file))
    }

    /// Why a statement, or a connection, failed without effect. Where the file is gone, SQLite's word for it is one of many.
    pub(crate) fn failure(&self, error: rusqlite::Error) -> Failure {
        if self.is_in_place() { Failure::of(&self.path, error) } else { Failure::moved(&self.path) }
    }

    /// One more connection, which cannot write.
    pub(crate) fn reader(&self) -> rusqlite::Result<Connection> {
        let conn = open_raw(&self.path)?;
        self.tune(&conn, READER_CACHE_KIB)?;
        conn.execute_batch("PRAGMA query_only = ON")?;
        Ok(conn)
    }

    /// One more connection that writes, for a transaction of the caller's.
    pub(crate) fn second_writer(&self) -> Result<Connection, Refusal> {
        let conn = open(&self.path)?;
        self.tune(&conn, READER_CACHE_KIB)?;
        Ok(conn)
    }

    /// Tries until no other process is in the way, or the time is over. Only on threads for blocking work.
    pub(crate) fn patiently<T>(&self, mut attempt: impl FnMut() -> Result<T, Refusal>) -> Result<T, Failure> {
        let (start, mut patience) = (real_time(), Patience::new());
        loop {
            match attempt() {
                Ok(found) => return Ok(found),
                Err(Refusal::Failure(failure)) => return Err(failure),
                Err(Refusal::Sqlite(error)) if is_busy(&error) => {
                    if start.elapsed() >= self.timeout {
                        return Err(Failure::timeout(&self.path, self.timeout));
                    }
                    patience.pause();
                }
                Err(Refusal::Sqlite(error)) => return Err(self.failure(error)),
            }
        }
    }

    fn tune(&self, conn: &Connection, cache_kib: i32) -> rusqlite::Result<()> {
        conn.pragma_update(None, "cache_size", -cache_kib)?;
        match self.synchronous {
            // The second is for macOS, where a plain sync does not reach the disk. Elsewhere it does nothing.
            Synchronous::Full => conn.execute_batch("PRAGMA synchronous = FULL; PRAGMA fullfsync = ON")?,
            Synchronous::Normal => conn.execute_batch("PRAGMA synchronous = NORMAL")?,
        }
        Ok(())
    }
}

fn open(path: &Path) -> Result<Connection, Refusal> {
    let conn = open_raw(path)?;
    // Asked to write where it may not, SQLite opens for reading and says so at the first write.
    if conn.is_readonly("main")? {
        let reason = format!("`{}` cannot be written by this user", path.display());
        return Err(Refusal::Failure(Failure::new(hapax_core::StoreErrorKind::Auth, reason)));
    }
    Ok(conn)
}

fn open_raw(path: &Path) -> rusqlite::Result<Connection> {
    // Without CREATE: the file was made with the right mode. Without URI: the path means itself. NO_MUTEX: no
    // connection is used by two threads at once.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    // Waiting is done here and not by SQLite: with random pauses, and never on a thread of the runtime.
    conn.busy_timeout(Duration::ZERO)?;
    leave_log(&conn, true)?;
    Ok(conn)
}

/// Whether the log stays beside the database when the last connection closes, and the next process goes on with it.
/// Else a short command would end by writing its one or two keys back to the database, with a sync of both files.
pub(crate) fn leave_log(conn: &Connection, leave: bool) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, leave).map(drop)
}
