//! The suite of all stores, run on the one that `examples/own_store.rs` writes.

#[path = "../../../examples/own_store.rs"]
#[expect(dead_code, reason = "the example's own main is not run here")]
mod own_store;

use hapax::testing::ManualClock;
use hapax_conformance::{BoxError, StoreUnderTest, async_trait};
use own_store::MapStore;
use std::{process::ExitCode, sync::Arc, time::Duration};

struct Suite {
    clock: ManualClock,
    store: Arc<MapStore>,
}

#[async_trait]
impl StoreUnderTest for Suite {
    type Store = Arc<MapStore>;

    async fn fresh() -> Result<Self, BoxError> {
        let clock = ManualClock::new();
        let store = Arc::new(MapStore::new(Arc::new(clock.clone())));
        Ok(Self { clock, store })
    }

    async fn client(&self) -> Result<Arc<MapStore>, BoxError> {
        Ok(Arc::clone(&self.store))
    }

    async fn elapse(&self, by: Duration) {
        self.clock.advance(by);
    }
}

fn main() -> ExitCode {
    hapax_conformance::main::<Suite>("own-store")
}
