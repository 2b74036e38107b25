//! The memory store, bare and as a URL picks it.

use hapax_conformance::{BoxError, StoreUnderTest, Suite, async_trait};
use hapax_core::{ManualClock, idempotency::IdempotencyStore, memory::MemoryStore};
use std::{process::ExitCode, sync::Arc, time::Duration};

struct Memory {
    store: Arc<MemoryStore>,
    clock: ManualClock,
}

#[async_trait]
impl StoreUnderTest for Memory {
    type Store = Arc<MemoryStore>;

    async fn fresh() -> Result<Self, BoxError> {
        let clock = ManualClock::new();
        Ok(Self { store: Arc::new(MemoryStore::new(Arc::new(clock.clone()))), clock })
    }

    async fn client(&self) -> Result<Self::Store, BoxError> {
        Ok(Arc::clone(&self.store))
    }

    async fn elapse(&self, by: Duration) {
        self.clock.advance(by);
    }
}

struct Dyn(Memory);

#[async_trait]
impl StoreUnderTest for Dyn {
    type Store = Arc<dyn IdempotencyStore>;

    async fn fresh() -> Result<Self, BoxError> {
        Memory::fresh().await.map(Self)
    }

    async fn client(&self) -> Result<Self::Store, BoxError> {
        let store: Arc<MemoryStore> = self.0.client().await?;
        Ok(store)
    }

    async fn elapse(&self, by: Duration) {
        self.0.elapse(by).await;
    }
}

fn main() -> ExitCode {
    Suite::new().with::<Memory>("memory").with::<Dyn>("memory_dyn").run()
}
