//! How the store is: for whoever looks after it.

use crate::{
    commit::log_of,
    options::{SqliteOptions, Synchronous},
    place, schema,
    store::SqliteStore,
};
use async_trait::async_trait;
use hapax_core::{
    StoreResult,
    doctor::{Examination, Examine, Severity},
};
use std::{fs, path::Path};

const OP: &str = "look at the store";
/// A log so long says that somebody keeps it from being written back.
const LONG_LOG: u64 = 256 * 1024 * 1024;
const MIB: u64 = 1024 * 1024;
/// Free space of the disk, below which it is time to act, and below which the next write may fail.
const LITTLE: u64 = 512 * MIB;
const NONE: u64 = 16 * MIB;

#[async_trait]
impl Examine for SqliteStore {
    async fn examine(&self) -> StoreResult<Examination> {
        let path = self.readers.path().to_owned();
        let (size, layout, sound) = self
            .readers
            .elsewhere(OP, |at| {
                let number = |sql: &str| at.conn.query_row(sql, [], |row| row.get::<_, i64>(0));
                let size = number("PRAGMA page_count")? * number("PRAGMA page_size")?;
                let layout: i64 = at.conn.query_row(schema::META, ["layout"], |row| row.get(0))?;
                // The first fault is enough; a sound store is read once.
                let sound: String = at.conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
                Ok((size, layout, sound))
            })
            .await?;
        let mut found = Examination::default();
        found.fact("place", path.display().to_string());
        found.fact("version", format!("SQLite {}, layout {layout}", rusqlite::version()));
        found.fact("size", mib(u64::try_from(size).unwrap_or(0)));
        if sound != "ok" {
            found.find(
                "integrity",
                Severity::Error,
                format!("the database is damaged: {sound}"),
                "stop what uses it and restore it from a backup; `sqlite3 FILE .recover` saves what can be read",
            );
        }
        persistence(&mut found, &self.options);
        files(&mut found, &path);
        disk(&mut found, &path);
        Ok(found)
    }
}

fn persistence(found: &mut Examination, options: &SqliteOptions) {
    match options.synchronous {
        Synchronous::Full => found.fact("synchronous", "full"),
        Synchronous::Normal => {
            found.fact("synchronous", "normal");
            found.find(
                "synchronous",
                Severity::Warning,
                "a loss of power may take the last receipts, whose effects then run again",
                "leave `synchronous=normal` out of the URL, unless that is meant",
            );
        }
    }
}

fn files(found: &mut Examination, path: &Path) {
    if let Some(name) = place::file_system_of(path) {
        found.fact("file system", name.clone());
        if place::is_network(&name) {
            found.find(
                "file_system",
                Severity::Error,
                format!("`{name}` is a network file system, where locks do not hold between machines"),
                "move the store to a local disk, or use a server for several machines",
            );
        }
    }
    if let Some(mode) = fs::metadata(path).ok().and_then(|found| place::open_to_others(&found)) {
        found.find(
            "permissions",
            Severity::Warning,
            format!("other users may open the store (mode {mode:o}), and with it keys and receipts"),
            format!("chmod 600 {}", path.display()),
        );
    }
    let log = fs::metadata(log_of(path)).map_or(0, |log| log.len());
    if log > LONG_LOG {
        found.find(
            "log",
            Severity::Warning,
            format!("the log has {}: a reader that never ends keeps it from being written back", mib(log)),
            "end the program that reads the database, a shell of SQLite for instance",
        );
    }
}

#[cfg(unix)]
fn disk(found: &mut Examination, path: &Path) {
    let Ok(stat) = rustix::fs::statvfs(path.parent().unwrap_or(path)) else { return };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    found.fact("free space", mib(free));
    if free < LITTLE {
        let severity = if free < NONE { Severity::Error } else { Severity::Warning };
        found.find(
            "space",
            severity,
            format!("the disk has {} left: on a full one no key can be reserved", mib(free)),
            "make room, or `hapax keys prune` what is over",
        );
    }
}

#[cfg(not(unix))]
fn disk(_: &mut Examination, _: &Path) {}

fn mib(bytes: u64) -> String {
    match bytes / MIB {
        0 => format!("{} KiB", bytes.div_ceil(1024)),
        mib if mib > 10 * 1024 => format!("{} GiB", mib / 1024),
        mib => format!("{mib} MiB"),
    }
}
