//! What the suite needs of a store of locks under test.

use async_trait::async_trait;
use hapax_core::{BoxError, lock::LockStore};
use std::{sync::Arc, time::Duration};

/// Sets up one store of locks for one case.
#[async_trait]
pub trait LockUnderTest: Send + Sync + Sized + 'static {
    /// A store without locks. Each case has its own, and cases run side by side.
    async fn fresh() -> Result<Self, BoxError>;

    /// One more client of the store. All clients see the same locks.
    async fn client(&self) -> Result<Arc<dyn LockStore>, BoxError>;

    /// Lets time pass as the store sees it. The suite never sleeps.
    async fn elapse(&self, by: Duration);

    /// Whether the store's time stands still between two calls of [`elapse`](Self::elapse); see
    /// [`StoreUnderTest::exact_time`](crate::StoreUnderTest::exact_time).
    fn exact_time() -> bool {
        true
    }

    /// Whether a step takes milliseconds rather than microseconds: fewer random lists are checked then.
    fn is_slow() -> bool {
        false
    }

    /// Closes the store and opens it again. `false`: this store keeps nothing beyond its process.
    async fn reopen(&self) -> Result<bool, BoxError> {
        Ok(false)
    }

    /// Loses everything that the store knows, as a flush or a restore of an old backup does; time goes on. `false`: not
    /// with this store.
    async fn lose_everything(&self) -> Result<bool, BoxError> {
        Ok(false)
    }

    /// Why the store does not run a case; it is then shown as ignored, and with this reason under `--include-ignored`.
    fn skips(case: &str) -> Option<&'static str> {
        let _ = case;
        None
    }
}

/// A store under test, whatever its type, so that each case is compiled once.
#[async_trait]
pub(crate) trait Subject: Send + Sync {
    async fn client(&self) -> Result<Arc<dyn LockStore>, BoxError>;
    async fn elapse(&self, by: Duration);
    async fn reopen(&self) -> Result<bool, BoxError>;
    async fn lose_everything(&self) -> Result<bool, BoxError>;
    fn exact_time(&self) -> bool;
    fn is_slow(&self) -> bool;
}

#[async_trait]
impl<H: LockUnderTest> Subject for H {
    async fn client(&self) -> Result<Arc<dyn LockStore>, BoxError> {
        LockUnderTest::client(self).await
    }
    async fn elapse(&self, by: Duration) {
        LockUnderTest::elapse(self, by).await;
    }
    async fn reopen(&self) -> Result<bool, BoxError> {
        LockUnderTest::reopen(self).await
    }
    async fn lose_everything(&self) -> Result<bool, BoxError> {
        LockUnderTest::lose_everything(self).await
    }
    fn exact_time(&self) -> bool {
        H::exact_time()
    }
    fn is_slow(&self) -> bool {
        H::is_slow()
    }
}
