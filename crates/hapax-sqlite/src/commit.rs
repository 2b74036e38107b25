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
    cell::Cell,
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// So many pages may be in the log before they are written back. SQLite would do it from 1,000 on, within the commit
/// whose caller then waits for two more syncs.
const CHECKPOINT_PAGES: i32 = 4_000;
/// A larger log is written back when the store closes: the next process would else read all of it first.
const LARGE_LOG: u64 = 1024 * 1024;
/// Every so many steps, a few rows are looked at, and removed when they are over.
const SWEEP_EVERY: u32 = 64;

thread_local! {
    /// Pages in the log after the last commit of this thread.
    static LOG_PAGES: Cell<i32> = const { Cell::new(0) };
}

pub(crate) struct Committer {
    conn: Connection,
    place: Place,
    clock: Arc<dyn Clock>,
    boot_id: Arc<str>,
    commits: Arc<AtomicU64>,
    until_sweep: u32,
    log_pages: i32,
    checkpoint_at: i32,
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
    pub(crate) fn new(mut conn: Connection, place: Place, clock: Arc<dyn Clock>) -> rusqlite::Result<Self> {
        // In place of SQLite's own hook, which would write the log back.
        conn.wal_hook(Some(|_, pages| {
            LOG_PAGES.set(pages);
            Ok(())
        }))?;
        Ok(Self {
            boot_id: clock.boot_id(),
            conn,
            place,
            clock,
            commits: Arc::default(),
            // Short-lived processes get their share of the sweeping too.
            until_sweep: random(SWEEP_EVERY),
            log_pages: 0,
            checkpoint_at: CHECKPOINT_PAGES,
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

    /// Commits so many steps.
    pub(crate) fn commit(&mut self, steps: usize) -> Result<(), Failure> {
        if let Err(error) = self.sweep(steps) {
            if self.conn.is_autocommit() {
                return Err(self.failure(error));
            }
            // No answer depends on it.
            tracing::warn!(%error, path = %self.place.path.display(), "rows that are over could not be removed");
        }
        let committed = self.execute("COMMIT");
        self.log_pages = LOG_PAGES.replace(0).max(self.log_pages);
        match committed {
            Ok(()) => {
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
            Ok(answer) => self.commit(1).map(|()| answer),
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
        self.log_pages >= self.checkpoint_at
    }

    /// Writes the log back when it is long. Waits for the disk, for no other process.
    pub(crate) fn checkpoint(&mut self) {
        if !self.wants_checkpoint() {
            return;
        }
        let done = self.conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
            Ok((row.get::<_, i32>(1)?, row.get::<_, i32>(2)?))
        });
        self.log_pages = 0;
        self.checkpoint_at = match done {
            Ok((pages, written)) if pages == written => CHECKPOINT_PAGES,
            // A reader is in the way, or another process at it: not again before the log has grown by as much.
            Ok((pages, _)) => pages.saturating_add(CHECKPOINT_PAGES),
            Err(error) => {
                tracing::warn!(%error, path = %self.place.path.display(), "the log could not be written back");
                self.checkpoint_at.saturating_add(CHECKPOINT_PAGES)
            }
        };
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
