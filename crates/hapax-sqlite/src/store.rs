//! The store: opening it, and what it knows of itself.

use crate::{
    commit::Committer,
    connect,
    error::{Failure, config},
    options::SqliteOptions,
    queue::{Bell, Lookout},
    reader::Readers,
    schema::{self, Layout},
    writer::Writer,
};
use hapax_core::{Clock, StoreResult};
use std::{
    fmt,
    sync::{Arc, OnceLock},
};
use tokio::runtime::Handle;

const OPEN: &str = "open the store";
const UPGRADE: &str = "upgrade the store";

/// Idempotency keys, queues, locks and rate limits in a SQLite file. See the [crate](crate) for what it promises.
///
/// Its methods are called from within a tokio runtime whose timers are enabled, of either kind; from outside of one
/// they answer an error. It may be dropped anywhere: what is queued is still written, then its files are closed.
pub struct SqliteStore {
    // Those that read are dropped first, so that the writer's connection is the last to close.
    pub(crate) readers: Arc<Readers>,
    pub(crate) lookout: Lookout,
    pub(crate) writer: Arc<Writer>,
    pub(crate) bell: Bell,
    pub(crate) secret: OnceLock<[u8; 32]>,
    pub(crate) options: SqliteOptions,
}

impl SqliteStore {
    /// Opens the store, and makes it where it is missing. Many processes may do so at once.
    pub async fn open(options: SqliteOptions, clock: Arc<dyn Clock>) -> StoreResult<Self> {
        blocking(OPEN, move || Self::open_here(options, clock)).await
    }

    fn open_here(options: SqliteOptions, clock: Arc<dyn Clock>) -> StoreResult<Self> {
        let (place, conn) = connect::writer(&options)?;
        let readers = Readers::new(place.clone(), Arc::clone(&clock));
        let committer = Committer::new(conn, place.clone(), clock, readers.anchor())
            .map_err(|error| Failure::of(&place.path, error).error(OPEN))?;
        let bell = Bell::new();
        Ok(Self {
            lookout: Lookout::new(bell.clone(), place.clone()),
            readers: Arc::new(readers),
            writer: Arc::new(Writer::new(place, committer, options.commits_inline(), bell.clone())),
            bell,
            secret: OnceLock::new(),
            options,
        })
    }

    /// How many transactions with changes this store has committed: one carries the steps of many callers.
    pub fn commits(&self) -> u64 {
        self.writer.commits()
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("options", &self.options).finish_non_exhaustive()
    }
}

/// What [`upgrade`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Upgraded {
    /// The store has the newest layout that this version knows.
    NothingToDo {
        /// Which one.
        layout: i64,
    },
}

/// Brings a store to the newest layout that this version knows. Opening never does, because older versions of hapax may
/// not be able to work with it afterwards.
pub async fn upgrade(options: SqliteOptions) -> StoreResult<Upgraded> {
    blocking(UPGRADE, move || {
        let found: Layout = connect::layout(&options)?;
        found.check(&options.path).map_err(|failure| failure.error(UPGRADE))?;
        // There was one layout so far. A step from each to the next goes here.
        if found.number >= schema::WRITER {
            return Ok(Upgraded::NothingToDo { layout: found.number });
        }
        Err(config(UPGRADE, format!("layout {} was never a layout of hapax", found.number)))
    })
    .await
}

async fn blocking<T: Send + 'static>(
    op: &'static str,
    work: impl FnOnce() -> StoreResult<T> + Send + 'static,
) -> StoreResult<T> {
    let runtime = Handle::try_current().map_err(|_| Failure::no_runtime().error(op))?;
    runtime.spawn_blocking(work).await.unwrap_or_else(|_| Err(Failure::gone().error(op)))
}
