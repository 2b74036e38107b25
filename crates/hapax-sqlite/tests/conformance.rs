//! The SQLite store under the suite of all stores, with both ways to commit.

use hapax_conformance::{BoxError, StoreUnderTest, Suite, async_trait};
use hapax_core::ManualClock;
use hapax_sqlite::{SqliteOptions, SqliteStore, Synchronous};
use std::{process::ExitCode, sync::Arc, time::Duration};
use tempfile::TempDir;

/// Each client is a store of its own on the same file, as another process would be.
struct Place {
    folder: TempDir,
    clock: ManualClock,
}

impl Place {
    fn new() -> Result<Self, BoxError> {
        Ok(Self { folder: tempfile::tempdir()?, clock: ManualClock::new() })
    }

    async fn open(&self, synchronous: Synchronous) -> Result<SqliteStore, BoxError> {
        let options = SqliteOptions::new(self.folder.path().join("store.db")).synchronous(synchronous);
        Ok(SqliteStore::open(options, Arc::new(self.clock.clone())).await?)
    }
}

struct Full(Place);

#[async_trait]
impl StoreUnderTest for Full {
    type Store = SqliteStore;

    async fn fresh() -> Result<Self, BoxError> {
        Place::new().map(Self)
    }

    async fn client(&self) -> Result<SqliteStore, BoxError> {
        self.0.open(Synchronous::Full).await
    }

    async fn elapse(&self, by: Duration) {
        self.0.clock.advance(by);
    }

    async fn reopen(&self) -> Result<bool, BoxError> {
        // With the last client its files were closed; the next client opens them.
        Ok(true)
    }
}

struct Normal(Place);

#[async_trait]
impl StoreUnderTest for Normal {
    type Store = SqliteStore;

    async fn fresh() -> Result<Self, BoxError> {
        Place::new().map(Self)
    }

    async fn client(&self) -> Result<SqliteStore, BoxError> {
        self.0.open(Synchronous::Normal).await
    }

    async fn elapse(&self, by: Duration) {
        self.0.clock.advance(by);
    }

    async fn reopen(&self) -> Result<bool, BoxError> {
        Ok(true)
    }
}

fn main() -> ExitCode {
    Suite::new().with::<Full>("sqlite").with::<Normal>("sqlite_normal").run()
}
