//! What the suite needs of a store of queues under test.

use async_trait::async_trait;
use hapax_core::{BoxError, idempotency::IdempotencyStore, queue::QueueStore};
use std::{fmt, sync::Arc, time::Duration};

/// One client of a store: its queues, and the keys beside them where it has any.
#[derive(Clone)]
#[non_exhaustive]
pub struct QueueClient {
    /// The queues.
    pub queues: Arc<dyn QueueStore>,
    /// The keys, for the cases of the joint step.
    pub keys: Option<Arc<dyn IdempotencyStore>>,
}

impl QueueClient {
    /// Queues alone.
    pub fn new(queues: Arc<dyn QueueStore>) -> Self {
        Self { queues, keys: None }
    }

    /// With the keys beside them.
    #[must_use]
    pub fn with_keys(self, keys: Arc<dyn IdempotencyStore>) -> Self {
        Self { keys: Some(keys), ..self }
    }
}

impl fmt::Debug for QueueClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queues.fmt(f)
    }
}

/// Sets up one store of queues for one case.
#[async_trait]
pub trait QueueUnderTest: Send + Sync + Sized + 'static {
    /// A store without queues. Each case has its own, and cases run side by side.
    async fn fresh() -> Result<Self, BoxError>;

    /// One more client of the store. All clients see the same queues.
    async fn client(&self) -> Result<QueueClient, BoxError>;

    /// Lets time pass as the store sees it: leases, delays, rates, and what is remembered. The suite never sleeps.
    async fn elapse(&self, by: Duration);

    /// Whether the store's time stands still between two calls of [`elapse`](Self::elapse); see
    /// [`StoreUnderTest::exact_time`](crate::StoreUnderTest::exact_time).
    fn exact_time() -> bool {
        true
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
    async fn client(&self) -> Result<QueueClient, BoxError>;
    async fn elapse(&self, by: Duration);
    async fn reopen(&self) -> Result<bool, BoxError>;
    fn exact_time(&self) -> bool;
}

#[async_trait]
impl<H: QueueUnderTest> Subject for H {
    async fn client(&self) -> Result<QueueClient, BoxError> {
        QueueUnderTest::client(self).await
    }
    async fn elapse(&self, by: Duration) {
        QueueUnderTest::elapse(self, by).await;
    }
    async fn reopen(&self) -> Result<bool, BoxError> {
        QueueUnderTest::reopen(self).await
    }
    fn exact_time(&self) -> bool {
        H::exact_time()
    }
}
