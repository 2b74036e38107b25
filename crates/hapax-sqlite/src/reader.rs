//! Connections that only read. In a database with a write-ahead log they neither wait for the writer nor hold it up.
//!
//! A read runs on the thread that asks, inside the runtime. It takes some 3 µs from SQLite's or the system's cache,
//! and a thread for blocking work is 50 µs away: the hop would cost every replay far more than the rare page that
//! comes from the disk. What may look at any number of rows, or has to wait, does hop.

use crate::{
    anchor::{Anchor, Pace},
    connect::Place,
    error::{Failure, is_busy},
    schema::Refusal,
    step::Moment,
};
use hapax_core::{Clock, StoreResult};
use rusqlite::Connection;
use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::runtime::Handle;

/// So many connections stay open when nobody reads.
const IDLE: usize = 4;

#[derive(Debug)]
pub(crate) struct Readers {
    place: Place,
    clock: Arc<dyn Clock>,
    boot_id: Arc<str>,
    idle: Mutex<Idle>,
    anchor: Arc<Anchor>,
}

#[derive(Debug, Default)]
struct Idle {
    /// In boxes: they go in and out with every read.
    #[expect(clippy::vec_box, reason = "a connection is large")]
    connections: Vec<Box<Connection>>,
    pace: Pace,
}

impl Readers {
    /// Opens none yet: the first looks are made on the connection that writes, and a short command needs no more.
    pub(crate) fn new(place: Place, clock: Arc<dyn Clock>) -> Self {
        Self { place, boot_id: clock.boot_id(), clock, idle: Mutex::default(), anchor: Arc::default() }
    }

    /// Has to be let go before the log is written back.
    pub(crate) fn anchor(&self) -> &Arc<Anchor> {
        &self.anchor
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.place.path
    }

    /// Reads on this thread. `None`: it would have to wait, because the log is being repaired, or a process opens or
    /// closes the database.
    pub(crate) fn here<T>(
        &self,
        op: &'static str,
        read: impl FnOnce(&Moment<'_>) -> rusqlite::Result<T>,
    ) -> StoreResult<Option<T>> {
        match self.with(read) {
            Ok(found) => Ok(Some(found)),
            Err(error) if is_busy(&error) => Ok(None),
            Err(error) => Err(self.place.failure(error).error(op)),
        }
    }

    /// Reads on a thread for blocking work, as often as it takes to find no other process in the way.
    pub(crate) async fn elsewhere<T: Send + 'static>(
        self: &Arc<Self>,
        op: &'static str,
        read: impl Fn(&Moment<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> StoreResult<T> {
        let runtime = Handle::try_current().map_err(|_| Failure::no_runtime().error(op))?;
        let readers = Arc::clone(self);
        let work = move || readers.place.patiently(|| readers.with(&read).map_err(Refusal::from));
        let found = runtime.spawn_blocking(work).await.unwrap_or_else(|_| Err(Failure::gone()));
        found.map_err(|failure| failure.error(op))
    }

    fn with<T>(&self, read: impl FnOnce(&Moment<'_>) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let idle = self.idle().connections.pop();
        let conn = match idle {
            Some(conn) => conn,
            None => Box::new(self.place.reader()?),
        };
        let now = self.clock.read();
        let boot = now.boot;
        let found = read(&Moment { conn: &conn, now, boot_id: &self.boot_id });
        let is_fast = {
            let mut idle = self.idle();
            if idle.connections.len() < IDLE {
                idle.connections.push(conn);
            }
            idle.pace.is_fast(boot)
        };
        if is_fast {
            self.anchor.take(&self.place);
        }
        found
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
