//! What the suite needs of a store of rate limits under test.

use async_trait::async_trait;
use hapax_core::{BoxError, limit::LimitStore};
use std::{sync::Arc, time::Duration};

/// Sets up one store of rate limits for one case.
#[async_trait]
pub trait LimitUnderTest: Send + Sync + Sized + 'static {
    /// A store that has counted nothing. Each case has its own, and cases run side by side.
    async fn fresh() -> Result<Self, BoxError>;

    /// One more client of the store. All clients see the same limits.
    async fn client(&self) -> Result<Arc<dyn LimitStore>, BoxError>;

    /// Lets time pass as the store sees it. The suite never sleeps.
    async fn elapse(&self, by: Duration);

    /// Whether the store's time stands still between two calls of [`elapse`](Self::elapse); see
    /// [`StoreUnderTest::exact_time`](crate::StoreUnderTest::exact_time).
    fn exact_time() -> bool {
        true
    }

    /// How many limits one decision may be over: 1 where it can only be one.
    fn most() -> usize {
        hapax_core::limit::MOST
    }

    /// Whether a step takes milliseconds rather than microseconds: fewer random lists are checked then.
    fn is_slow() -> bool {
        false
    }

    /// Closes the store and opens it again. `false`: this store keeps nothing beyond its process.
    async fn reopen(&self) -> Result<bool, BoxError> {
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
    async fn client(&self) -> Result<Arc<dyn LimitStore>, BoxError>;
    async fn elapse(&self, by: Duration);
    async fn reopen(&self) -> Result<bool, BoxError>;
    fn exact_time(&self) -> bool;
    fn is_slow(&self) -> bool;
    fn most(&self) -> usize;
}

#[async_trait]
impl<H: LimitUnderTest> Subject for H {
    async fn client(&self) -> Result<Arc<dyn LimitStore>, BoxError> {
        LimitUnderTest::client(self).await
    }
    async fn elapse(&self, by: Duration) {
        LimitUnderTest::elapse(self, by).await;
    }
    async fn reopen(&self) -> Result<bool, BoxError> {
        LimitUnderTest::reopen(self).await
    }
    fn exact_time(&self) -> bool {
        H::exact_time()
    }
    fn is_slow(&self) -> bool {
        H::is_slow()
    }
    fn most(&self) -> usize {
        H::most()
    }
}
