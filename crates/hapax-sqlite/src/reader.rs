//! Connections that only read. In a database with a write-ahead log they neither wait for the writer nor hold it up.
//!
//! A read runs on the thread that asks, inside the runtime. It takes some 3 µs from SQLite's or the system's cache,
//! and a thread for blocking work is 50 µs away: the hop would cost every replay far more than the rare page that
//! comes from the disk. What may look at any number of rows, or has to wait, does hop.

use crate::{
    connect::Place,
    error::{Failure, is_busy},
    schema::Refusal,
    step::Moment,
};
use hapax_core::{Clock, StoreResult};
use rusqlite::Connection;
use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::runtime::Handle;

/// So many connections stay open when nobody reads.
const IDLE: usize = 4;

#[derive(Debug)]
pub(crate) struct Readers {
    place: Place,
    clock: Arc<dyn Clock>,
    boot_id: Arc<str>,
    /// In boxes: they go in and out with every read.
    #[expect(clippy::vec_box, reason = "a connection is large")]
    idle: Mutex<Vec<Box<Connection>>>,
}

impl Readers {
    pub(crate) fn new(place: Place, clock: Arc<dyn Clock>, first: Connection) -> Self {
        Self { place, boot_id: clock.boot_id(), clock, idle: Mutex::new(vec![Box::new(first)]) }
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
            Err(error) => Err(Failure::of(&self.place.path, error).error(op)),
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
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let conn = match idle {
            Some(conn) => conn,
            None => Box::new(self.place.reader()?),
        };
        let found = read(&Moment { conn: &conn, now: self.clock.read(), boot_id: &self.boot_id });
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE {
            idle.push(conn);
        }
        found
    }
}
