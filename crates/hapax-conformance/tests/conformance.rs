//! The memory store, bare, as a URL picks it, and with faults in the way.

use hapax_conformance::{
    BoxError, Faults, Insisting, LimitUnderTest, LockUnderTest, QueueClient, QueueUnderTest, StoreUnderTest,
    Suite, async_trait,
    faulty::{Fault, Faulty, Step},
};
use hapax_core::{
    ManualClock,
    idempotency::IdempotencyStore,
    limit::LimitStore,
    lock::LockStore,
    memory::{MemoryLimits, MemoryLocks, MemoryQueues, MemoryStore},
};
use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

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

const STEPS: [Step; 7] =
    [Step::Reserve, Step::Complete, Step::Release, Step::Extend, Step::Read, Step::List, Step::Secret];
const FAULTS: [Fault; 3] = [Fault::LostReply, Fault::Before, Fault::Duplicate];

/// Every call that is to meet a fault meets one.
#[derive(Debug)]
struct Way {
    store: Arc<Faulty<Arc<MemoryStore>>>,
    happened: AtomicUsize,
}

impl Faults for Way {
    fn arm(&self) {
        let nth = self.happened.fetch_add(1, Ordering::SeqCst);
        let fault = FAULTS.get(nth % FAULTS.len()).copied().unwrap_or(Fault::Before);
        for step in STEPS {
            self.store.break_step(step, fault);
        }
    }

    fn disarm(&self) {
        self.store.heal();
    }

    fn happened(&self) -> usize {
        self.happened.load(Ordering::SeqCst)
    }
}

struct Insisted(Memory);

#[async_trait]
impl StoreUnderTest for Insisted {
    type Store = Insisting<Arc<Faulty<Arc<MemoryStore>>>, Way>;

    async fn fresh() -> Result<Self, BoxError> {
        Memory::fresh().await.map(Self)
    }

    async fn client(&self) -> Result<Self::Store, BoxError> {
        let store = Arc::new(Faulty::new(self.0.client().await?));
        Ok(Insisting::new(Arc::clone(&store), Way { store, happened: AtomicUsize::default() }))
    }

    async fn elapse(&self, by: Duration) {
        self.0.elapse(by).await;
    }

    fn skips(case: &str) -> Option<&'static str> {
        case.starts_with("races::").then_some("what a caller makes of an answer holds where it is alone")
    }
}

struct Queues {
    client: QueueClient,
    clock: ManualClock,
}

#[async_trait]
impl QueueUnderTest for Queues {
    async fn fresh() -> Result<Self, BoxError> {
        let clock = ManualClock::new();
        let keys = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
        let queues = MemoryQueues::new(Arc::new(clock.clone())).with_keys(Arc::clone(&keys));
        Ok(Self { client: QueueClient::new(Arc::new(queues)).with_keys(keys), clock })
    }

    async fn client(&self) -> Result<QueueClient, BoxError> {
        Ok(self.client.clone())
    }

    async fn elapse(&self, by: Duration) {
        self.clock.advance(by);
    }
}

struct Locks {
    store: Arc<dyn LockStore>,
    clock: ManualClock,
}

#[async_trait]
impl LockUnderTest for Locks {
    async fn fresh() -> Result<Self, BoxError> {
        let clock = ManualClock::new();
        Ok(Self { store: Arc::new(MemoryLocks::new(Arc::new(clock.clone()))), clock })
    }

    async fn client(&self) -> Result<Arc<dyn LockStore>, BoxError> {
        Ok(Arc::clone(&self.store))
    }

    async fn elapse(&self, by: Duration) {
        self.clock.advance(by);
    }
}

struct Limits {
    store: Arc<dyn LimitStore>,
    clock: ManualClock,
}

#[async_trait]
impl LimitUnderTest for Limits {
    async fn fresh() -> Result<Self, BoxError> {
        let clock = ManualClock::new();
        Ok(Self { store: Arc::new(MemoryLimits::new(Arc::new(clock.clone()))), clock })
    }

    async fn client(&self) -> Result<Arc<dyn LimitStore>, BoxError> {
        Ok(Arc::clone(&self.store))
    }

    async fn elapse(&self, by: Duration) {
        self.clock.advance(by);
    }
}

fn main() -> ExitCode {
    Suite::new()
        .with::<Memory>("memory")
        .with::<Dyn>("memory_dyn")
        .with::<Insisted>("memory_insisted")
        .with_queues::<Queues>("memory")
        .with_locks::<Locks>("memory")
        .with_limits::<Limits>("memory")
        .run()
}
