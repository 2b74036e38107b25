//! The connection that writes: transactions, and what is due between them.

use crate::{
    connect::{Place, leave_log},
    error::{Failure, is_busy},
    patience::random,
    prune,
    schema::{self, Refusal},
    step::{Moment, Step},
};
use hapax_core::{Clock, StoreResult};
use rusqlite::Connection;
use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// After so many pages of its own the writer writes the log back, between two commits. Left to itself, SQLite would do
/// it within a commit, from 1,000 pages on, and the commit's callers would wait for two more syncs.
const CHECKPOINT_PAGES: usize = 4_000;
/// Unless other processes have filled the log: then SQLite does, so that it stays in bounds whoever writes.
const AUTOCHECKPOINT_PAGES: i32 = 16_000;
/// About what a step writes beside its receipt: the page of its row, and now and then a neighbour.
const PAGES_OF_A_STEP: usize = 2;
const PAGE: usize = 4096;
/// A larger log is written back when the store closes: the next process would else read all of it first.
const LARGE_LOG: u64 = 1024 * 1024;
/// Every so many steps, a few rows are looked at, and removed when they are over.
const SWEEP_EVERY: u32 = 64;

pub(crate) struct Committer {
    conn: Connection,
    place: Place,
    clock: Arc<dyn Clock>,
    boot_id: Arc<str>,
    commits: Arc<AtomicU64>,
    until_sweep: u32,
    /// Pages since the last checkpoint, about.
    written: usize,
}

/// Why a transaction did not begin.
pub(crate) enum Start {
    /// Another process writes.
    Busy,
    Failed(Failure),
}

/// What became of a step taken alone.
pub(crate) enum Run<A> {
    Done(StoreResult<A>),
    /// Another process writes.
    Busy,
}

impl Committer {
    pub(crate) fn new(conn: Connection, place: Place, clock: Arc<dyn Clock>) -> rusqlite::Result<Self> {
        conn.pragma_update(None, "wal_autocheckpoint", AUTOCHECKPOINT_PAGES)?;
        Ok(Self {
            boot_id: clock.boot_id(),
            conn,
            place,
            clock,
            commits: Arc::default(),
            // Short-lived processes get their share of the sweeping too.
            until_sweep: random(SWEEP_EVERY),
            written: 0,
        })
    }

    pub(crate) fn commits(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.commits)
    }

    pub(crate) fn begin(&mut self) -> Result<(), Start> {
        // Left open only by a panic.
        self.roll_back();
        // At once for writing: a transaction that starts by reading and is then refused the lock must start over.
        match self.execute("BEGIN IMMEDIATE") {
            Ok(()) => {}
            Err(error) if is_busy(&error) => return Err(Start::Busy),
            Err(error) => return Err(Start::Failed(self.failure(error))),
        }
        schema::may_write(&self.conn, &self.place.path).map_err(|refusal| {
            self.roll_back();
            Start::Failed(match refusal {
                Refusal::Sqlite(error) => self.failure(error),
                Refusal::Failure(failure) => failure,
            })
        })
    }

    /// The open transaction. Its moment is read inside it, so that the order of moments is that of commits.
    pub(crate) fn tx(&self) -> Moment<'_> {
        Moment { conn: &self.conn, now: self.clock.read(), boot_id: &self.boot_id }
    }

    /// Commits so many steps, with receipts of so many bytes.
    pub(crate) fn commit(&mut self, steps: usize, bytes: usize) -> Result<(), Failure> {
        if let Err(error) = self.sweep(steps) {
            if self.conn.is_autocommit() {
                return Err(self.failure(error));
            }
            // No answer depends on it.
            tracing::warn!(%error, path = %self.place.path.display(), "rows that are over could not be removed");
        }
        match self.execute("COMMIT") {
            Ok(()) => {
                self.written += steps * PAGES_OF_A_STEP + bytes / PAGE;
                self.commits.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => {
                self.roll_back();
                Err(Failure::of_commit(&self.place.path, error))
            }
        }
    }

    pub(crate) fn roll_back(&mut self) {
        // Many errors end the transaction by themselves.
        if !self.conn.is_autocommit()
            && let Err(error) = self.execute("ROLLBACK")
        {
            tracing::warn!(%error, path = %self.place.path.display(), "a transaction could not be undone");
        }
    }

    /// One step: without a transaction where nothing is to be written, else in one of its own.
    pub(crate) fn alone<S: Step>(&mut self, step: &S) -> Run<S::Answer> {
        match step.look(&self.tx()) {
            Ok(None) => {}
            Ok(Some(answer)) => return Run::Done(Ok(answer)),
            Err(error) if is_busy(&error) => return Run::Busy,
            Err(error) => return Run::Done(Err(self.failure(error).error(S::OP))),
        }
        match self.begin() {
            Ok(()) => {}
            Err(Start::Busy) => return Run::Busy,
            Err(Start::Failed(failure)) => return Run::Done(Err(failure.error(S::OP))),
        }
        let taken = step.take(&self.tx());
        let done = match taken {
            Ok(answer) => self.commit(1, step.bytes()).map(|()| answer),
            Err(error) => {
                self.roll_back();
                Err(self.failure(error))
            }
        };
        Run::Done(done.map_err(|failure| failure.error(S::OP)))
    }

    pub(crate) fn failure(&self, error: rusqlite::Error) -> Failure {
        Failure::of(&self.place.path, error)
    }

    /// Whether the log is long enough to be written back.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.written >= CHECKPOINT_PAGES
    }

    /// Writes the log back when it is long. Waits for the disk, for no other process: what a reader still needs stays
    /// for the next time.
    pub(crate) fn checkpoint(&mut self) {
        if !self.wants_checkpoint() {
            return;
        }
        self.written = 0;
        if let Err(error) = self.conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
            tracing::warn!(%error, path = %self.place.path.display(), "the log could not be written back");
        }
    }

    /// Now and then removes a few rows that are over, so that the file of a long-lived store stays in bounds: each step
    /// adds one row at most, and two are looked at for it.
    fn sweep(&mut self, steps: usize) -> rusqlite::Result<()> {
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        if self.until_sweep > steps {
            self.until_sweep -= steps;
            return Ok(());
        }
        self.until_sweep = SWEEP_EVERY;
        prune::sweep(&self.tx(), 2 * SWEEP_EVERY as usize)
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.conn.prepare_cached(sql)?.execute([]).map(drop)
    }

    #[cfg(test)]
    pub(crate) fn conn(&self) -> &Connection {
        &self.conn
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        // The size, by name: opening the file would drop SQLite's locks on it.
        let log = fs::metadata(log_of(&self.place.path));
        if log.is_ok_and(|log| log.len() > LARGE_LOG)
            && let Err(error) = leave_log(&self.conn, false)
        {
            tracing::debug!(%error, "the log stays as it is");
        }
    }
}

fn log_of(path: &Path) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}
