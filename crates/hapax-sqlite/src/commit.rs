//! The connection that writes: transactions, and what is due between them.

use crate::{
    anchor::Anchor,
    connect::{Place, leave_log},
    error::{Failure, is_busy},
    limit, lock,
    patience::random,
    prune, queue,
    schema::{self, Refusal},
    step::{Moment, Step},
    sweep,
};
use hapax_core::{BootTime, Clock, StoreResult};
use rusqlite::Connection;
use std::{
    fs,
    path::Path,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

/// After so many pages of its own the writer writes the log back, between two commits. Left to itself, SQLite would do
/// it within a commit, from 1,000 pages on, and the commit's callers would wait for two more syncs.
const CHECKPOINT_PAGES: usize = 10_000;
/// A log that grows costs each sync a change of the file's length, half as much again; one that starts over does not. So
/// where small commits wait each for a sync of their own, the log starts over early; large ones share that cost.
const CHECKPOINT_PAGES_OF_SMALL: usize = 1_000;
/// Below so many rows a commit is small.
const SMALL: usize = 8;
/// Unless other processes have filled the log: then SQLite does, so that it stays in bounds whoever writes.
const AUTOCHECKPOINT_PAGES: i32 = 16_000;
/// About what is written for a row beside its bytes: its page, and now and then a neighbour.
const PAGES_OF_A_ROW: usize = 2;
const PAGE: usize = 4096;
/// A larger log is written back when the store closes: the next process would else read all of it first. That is some 90
/// pages, which takes it as long as two syncs of a quick disk take this one, and so is done by one of 20 short commands.
const LARGE_LOG: u64 = 384 * 1024;
/// Every so many rows written as many are looked at, and removed when they are over. A key takes two steps and adds one
/// row, so twice as many are looked at as are added.
const SWEEP: u32 = 128;
/// So many looks after the store was opened, and after a commit, are made on the connection that writes.
const LOOKS: u32 = 16;
/// How old it may be that the file was seen in its place: each look is a call of the system.
const SEEN: Duration = Duration::from_millis(100);

/// Takes the lock of writers at once: a batch that found it taken later would have to be run again.
const FOR_BATCH: &str = "BEGIN IMMEDIATE";
/// Takes the lock with the first change, so a step that changes nothing takes none. If another process has committed
/// since the first look, SQLite refuses the change, as it does when another process holds the lock.
const FOR_ONE: &str = "BEGIN";

pub(crate) struct Committer {
    conn: Connection,
    place: Place,
    clock: Arc<dyn Clock>,
    boot_id: Arc<str>,
    commits: Arc<AtomicU64>,
    looks: Arc<AtomicU32>,
    /// Whether the file is no longer where it was, and when that was looked at.
    moved: Arc<AtomicBool>,
    seen: Option<BootTime>,
    /// Not kept alive by this: the writer's connection is the last to close.
    anchor: Weak<Anchor>,
    until_sweep: u32,
    /// Pages since the last checkpoint, about.
    written: usize,
    /// In the last commit with changes.
    last_rows: usize,
    /// How many rows the connection had changed when the open transaction began.
    changes: u64,
    /// Whether the last step taken alone changed nothing.
    replays: bool,
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
    /// `anchor` is that of the readers.
    pub(crate) fn new(
        conn: Connection,
        place: Place,
        clock: Arc<dyn Clock>,
        anchor: &Arc<Anchor>,
    ) -> rusqlite::Result<Self> {
        conn.pragma_update(None, "wal_autocheckpoint", AUTOCHECKPOINT_PAGES)?;
        Ok(Self {
            boot_id: clock.boot_id(),
            conn,
            place,
            clock,
            commits: Arc::default(),
            looks: Arc::new(AtomicU32::new(LOOKS)),
            moved: Arc::default(),
            seen: None,
            anchor: Arc::downgrade(anchor),
            // Short-lived processes get their share of the sweeping too.
            until_sweep: random(SWEEP),
            written: 0,
            last_rows: 0,
            changes: 0,
            replays: true,
        })
    }

    pub(crate) fn commits(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.commits)
    }

    /// How many looks had better be made here.
    pub(crate) fn looks(&self) -> Arc<AtomicU32> {
        Arc::clone(&self.looks)
    }

    /// Whether the file was found moved or removed.
    pub(crate) fn moved(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.moved)
    }

    /// Looks whether the file is in its place, unless it was there just now.
    fn find(&mut self) -> Result<(), Failure> {
        let now = self.clock.read().boot;
        if self.seen.is_none_or(|seen| now.since(seen) >= SEEN) {
            let is_there = self.place.is_in_place();
            self.moved.store(!is_there, Ordering::Relaxed);
            if !is_there {
                return Err(Failure::moved(&self.place.path));
            }
            self.seen = Some(now);
        }
        Ok(())
    }

    /// Reads without a transaction of its own. `None`: it has to be done elsewhere.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Moment<'_>) -> rusqlite::Result<T>) -> Option<T> {
        // A panic may have left a transaction open, which would hide what came later.
        if self.conn.is_autocommit() { look(&self.tx()).ok() } else { None }
    }

    /// Begins the transaction of a batch.
    pub(crate) fn begin(&mut self) -> Result<(), Start> {
        self.begin_as(FOR_BATCH)
    }

    fn begin_as(&mut self, how: &str) -> Result<(), Start> {
        // Left open only by a panic.
        self.roll_back();
        self.find().map_err(Start::Failed)?;
        let begun = self.execute(how).map_err(Refusal::from);
        begun.and_then(|()| schema::may_write(&self.conn, &self.place.path)).map_err(|refusal| {
            self.roll_back();
            match refusal {
                Refusal::Sqlite(error) if is_busy(&error) => Start::Busy,
                Refusal::Sqlite(error) => Start::Failed(self.failure(error)),
                Refusal::Failure(failure) => Start::Failed(failure),
            }
        })?;
        self.changes = self.conn.total_changes();
        Ok(())
    }

    /// The open transaction. Its moment is read after it has seen the database, so that the order of moments is that
    /// of commits.
    pub(crate) fn tx(&self) -> Moment<'_> {
        Moment { conn: &self.conn, now: self.clock.read(), boot_id: &self.boot_id }
    }

    /// Commits steps with so many bytes of their own.
    pub(crate) fn commit(&mut self, bytes: usize) -> Result<(), Failure> {
        let rows = usize::try_from(self.conn.total_changes() - self.changes).unwrap_or(usize::MAX);
        let has_changes = rows > 0;
        if has_changes && let Err(error) = self.sweep(rows) {
            if self.conn.is_autocommit() {
                return Err(self.failure(error));
            }
            // No answer depends on it.
            tracing::warn!(%error, path = %self.place.path.display(), "rows that are over could not be removed");
        }
        match self.execute("COMMIT") {
            Ok(()) => {
                if has_changes {
                    self.last_rows = rows;
                    self.written += rows * PAGES_OF_A_ROW + bytes / PAGE;
                    self.commits.fetch_add(1, Ordering::Relaxed);
                    self.looks.store(LOOKS, Ordering::Relaxed);
                }
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

    fn has_changes(&self) -> bool {
        self.conn.total_changes() != self.changes
    }

    /// One step in a transaction of its own.
    pub(crate) fn alone<S: Step>(&mut self, step: &S) -> Run<S::Answer> {
        // Replays tend to come in a row, and without a transaction they cost least.
        if self.replays {
            match step.look(&self.tx()) {
                Ok(None) => {}
                Ok(Some(answer)) => return Run::Done(Ok(answer)),
                Err(error) if is_busy(&error) => return Run::Busy,
                Err(error) => return Run::Done(Err(self.failure(error).error(S::OP))),
            }
        }
        match self.begin_as(FOR_ONE) {
            Ok(()) => {}
            Err(Start::Busy) => return Run::Busy,
            Err(Start::Failed(failure)) => return Run::Done(Err(failure.error(S::OP))),
        }
        let taken = step.take(&self.tx());
        self.replays = !self.has_changes();
        let done = match taken {
            Ok(answer) => self.commit(step.bytes()).map(|()| answer),
            Err(error) => {
                self.roll_back();
                if is_busy(&error) {
                    return Run::Busy;
                }
                Err(self.failure(error))
            }
        };
        Run::Done(done.map_err(|failure| failure.error(S::OP)))
    }

    pub(crate) fn failure(&self, error: rusqlite::Error) -> Failure {
        self.place.failure(error)
    }

    /// Whether the log is long enough to be written back.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        let is_early = self.place.syncs_commits() && self.last_rows < SMALL;
        self.written >= if is_early { CHECKPOINT_PAGES_OF_SMALL } else { CHECKPOINT_PAGES }
    }

    /// Writes the log back when it is long. Waits for the disk, for no other process: what a reader still needs stays
    /// for the next time.
    pub(crate) fn checkpoint(&mut self) {
        if !self.wants_checkpoint() {
            return;
        }
        self.written = 0;
        if let Some(anchor) = self.anchor.upgrade() {
            anchor.let_go();
        }
        if let Err(error) = self.conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
            tracing::warn!(%error, path = %self.place.path.display(), "the log could not be written back");
        }
    }

    /// Now and then removes a few rows that are over, so that the file of a long-lived store stays in bounds.
    fn sweep(&mut self, rows: usize) -> rusqlite::Result<()> {
        let written = u32::try_from(rows).unwrap_or(u32::MAX);
        if self.until_sweep > written {
            self.until_sweep -= written;
            return Ok(());
        }
        self.until_sweep = SWEEP;
        let (tx, looks) = (self.tx(), SWEEP as usize);
        if prune::is_small(&tx)? {
            return Ok(());
        }
        prune::sweep(&tx, looks)?;
        sweep::sweep::<lock::Locks>(&tx, looks, usize::MAX)?;
        // A limit takes one step and adds one row; a commit may have added more of them, and of jobs, than that.
        sweep::sweep::<limit::Limits>(&tx, 2 * looks.max(rows), usize::MAX)?;
        queue::forget(&tx, 2 * looks.max(rows)).map(drop)
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

pub(crate) fn log_of(path: &Path) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}
