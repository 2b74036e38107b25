//! What the suite needs of a store under test.

use async_trait::async_trait;
use hapax_core::{BoxError, idempotency::IdempotencyStore};
use std::{sync::Arc, time::Duration};

/// Sets up one store for one case.
///
/// Three methods are enough; the others describe stores that differ from the usual.
#[async_trait]
pub trait StoreUnderTest: Send + Sync + Sized + 'static {
    /// What a client is. `Arc<dyn IdempotencyStore>` is one too.
    type Store: IdempotencyStore + 'static;

    /// An empty store. Each case has its own, and cases run side by side.
    async fn fresh() -> Result<Self, BoxError>;

    /// One more client of the store. All clients see the same keys.
    async fn client(&self) -> Result<Self::Store, BoxError>;

    /// Lets time pass as the store sees it, leases and results alike. The suite never sleeps.
    async fn elapse(&self, by: Duration);

    /// Whether the store's time stands still between two calls of [`elapse`](Self::elapse), as on a
    /// [`ManualClock`](hapax_core::ManualClock): the suite then checks every instant to the millisecond. Answer
    /// `false` for a store whose clock also runs by itself; it is then held to some seconds.
    fn exact_time() -> bool {
        true
    }

    /// Whether a step takes milliseconds rather than microseconds: a quarter of the random lists is then checked, and a
    /// tenth in the long run.
    fn is_slow() -> bool {
        false
    }

    /// Closes the store and opens it again, as a new start of its process would. All clients of before are gone by
    /// then. `false`: this store keeps nothing beyond its process.
    async fn reopen(&self) -> Result<bool, BoxError> {
        Ok(false)
    }

    /// Why the store does not run a case; it is then shown as ignored, and with this reason under `--include-ignored`.
    /// Cases are named as in `contract::prune_removes_what_is_over`.
    fn skips(case: &str) -> Option<&'static str> {
        let _ = case;
        None
    }
}

/// A client, whatever the store.
pub(crate) type Client = Arc<dyn IdempotencyStore>;

/// A store under test, whatever its type, so that each case is compiled once.
#[async_trait]
pub(crate) trait Subject: Send + Sync {
    async fn client(&self) -> Result<Client, BoxError>;
    async fn elapse(&self, by: Duration);
    async fn reopen(&self) -> Result<bool, BoxError>;
    fn exact_time(&self) -> bool;
    fn is_slow(&self) -> bool;
}

#[async_trait]
impl<H: StoreUnderTest> Subject for H {
    async fn client(&self) -> Result<Client, BoxError> {
        Ok(Arc::new(StoreUnderTest::client(self).await?))
    }
    async fn elapse(&self, by: Duration) {
        StoreUnderTest::elapse(self, by).await;
    }
    async fn reopen(&self) -> Result<bool, BoxError> {
        StoreUnderTest::reopen(self).await
    }
    fn exact_time(&self) -> bool {
        H::exact_time()
    }
    fn is_slow(&self) -> bool {
        H::is_slow()
    }
}
