//! The SQLite store under the suite of all stores, with both ways to commit.

use hapax_conformance::{
    BoxError, LimitUnderTest, LockUnderTest, QueueClient, QueueUnderTest, StoreUnderTest, Suite, async_trait,
};
use hapax_core::{ManualClock, limit::LimitStore, lock::LockStore};
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

    /// As restoring a backup from before the first lock does.
    fn lose(&self) -> Result<bool, BoxError> {
        let file = rusqlite::Connection::open(self.folder.path().join("store.db"))?;
        file.execute("DELETE FROM hapax_lock", [])?;
        Ok(true)
    }

    async fn queue_client(&self, synchronous: Synchronous) -> Result<QueueClient, BoxError> {
        let store = Arc::new(self.open(synchronous).await?);
        Ok(QueueClient::new(Arc::clone(&store) as _).with_keys(store))
    }
}

struct Full(Place);

#[async_trait]
impl QueueUnderTest for Full {
    async fn fresh() -> Result<Self, BoxError> {
        Place::new().map(Self)
    }

    async fn client(&self) -> Result<QueueClient, BoxError> {
        self.0.queue_client(Synchronous::Full).await
    }

    async fn elapse(&self, by: Duration) {
        self.0.clock.advance(by);
    }

    async fn reopen(&self) -> Result<bool, BoxError> {
        Ok(true)
    }
}

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

#[async_trait]
impl LockUnderTest for Full {
    async fn fresh() -> Result<Self, BoxError> {
        Place::new().map(Self)
    }

    async fn client(&self) -> Result<Arc<dyn LockStore>, BoxError> {
        Ok(Arc::new(self.0.open(Synchronous::Full).await?))
    }

    async fn elapse(&self, by: Duration) {
        self.0.clock.advance(by);
    }

    async fn reopen(&self) -> Result<bool, BoxError> {
        Ok(true)
    }

    async fn lose_everything(&self) -> Result<bool, BoxError> {
        self.0.lose()
    }
}

#[async_trait]
impl LimitUnderTest for Full {
    async fn fresh() -> Result<Self, BoxError> {
        Place::new().map(Self)
    }

    async fn client(&self) -> Result<Arc<dyn LimitStore>, BoxError> {
        Ok(Arc::new(self.0.open(Synchronous::Full).await?))
    }

    async fn elapse(&self, by: Duration) {
        self.0.clock.advance(by);
    }

    async fn reopen(&self) -> Result<bool, BoxError> {
        Ok(true)
    }
}

struct Normal(Place);

#[async_trait]
impl QueueUnderTest for Normal {
    async fn fresh() -> Result<Self, BoxError> {
        Place::new().map(Self)
    }

    async fn client(&self) -> Result<QueueClient, BoxError> {
        self.0.queue_client(Synchronous::Normal).await
    }

    async fn elapse(&self, by: Duration) {
        self.0.clock.advance(by);
    }

    async fn reopen(&self) -> Result<bool, BoxError> {
        Ok(true)
    }
}

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

#[async_trait]
impl LockUnderTest for Normal {
    async fn fresh() -> Result<Self, BoxError> {
        Place::new().map(Self)
    }

    async fn client(&self) -> Result<Arc<dyn LockStore>, BoxError> {
        Ok(Arc::new(self.0.open(Synchronous::Normal).await?))
    }

    async fn elapse(&self, by: Duration) {
        self.0.clock.advance(by);
    }

    async fn reopen(&self) -> Result<bool, BoxError> {
        Ok(true)
    }

    async fn lose_everything(&self) -> Result<bool, BoxError> {
        self.0.lose()
    }
}

#[async_trait]
impl LimitUnderTest for Normal {
    async fn fresh() -> Result<Self, BoxError> {
        Place::new().map(Self)
    }

    async fn client(&self) -> Result<Arc<dyn LimitStore>, BoxError> {
        Ok(Arc::new(self.0.open(Synchronous::Normal).await?))
    }

    async fn elapse(&self, by: Duration) {
        self.0.clock.advance(by);
    }

    async fn reopen(&self) -> Result<bool, BoxError> {
        Ok(true)
    }
}

fn main() -> ExitCode {
    Suite::new()
        .with::<Full>("sqlite")
        .with::<Normal>("sqlite_normal")
        .with_queues::<Full>("sqlite")
        .with_queues::<Normal>("sqlite_normal")
        .with_locks::<Full>("sqlite")
        .with_locks::<Normal>("sqlite_normal")
        .with_limits::<Full>("sqlite")
        .with_limits::<Normal>("sqlite_normal")
        .run()
}
