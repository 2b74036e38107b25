//! The store inside this process: for tests, for one process, and the reference for every other store.

mod doctor;
mod idempotency;
mod limit;
mod lock;
mod queue;
mod shard;

pub use idempotency::MemoryStore;
pub use limit::MemoryLimits;
pub use lock::MemoryLocks;
pub use queue::MemoryQueues;

use crate::registry::ConnectOptions;
use crate::{
    Backend, BackendUrl, BoxFuture, Clock, Driver, StoreResult, SystemClock,
    url::{UrlHelp, UrlOption},
};
use std::sync::Arc;

/// The options of a URL.
const OPTIONS: &[UrlOption] = &[UrlOption::new(
    "max_entries",
    "N",
    Some("100000"),
    "So many keys at most: the oldest results make room for new ones",
)];

/// `memory:`, with the option `max_entries`.
pub const DRIVER: Driver = Driver {
    name: "memory",
    schemes: &["memory"],
    url: UrlHelp::new(
        &[("memory:", "this process: it ends with it, so commands whose runs must share it refuse it")],
        OPTIONS,
        "memory:?max_entries=10000",
    ),
    connect,
};

fn connect<'a>(url: &'a BackendUrl, _: &'a ConnectOptions) -> BoxFuture<'a, StoreResult<Backend>> {
    Box::pin(async move {
        url.allow(OPTIONS)?;
        let mut store = MemoryStore::new(Arc::new(SystemClock));
        if let Some(max) = url.number("max_entries", 1..=usize::MAX)? {
            store = store.with_max_entries(max);
        }
        let store = Arc::new(store);
        Ok(offering(&store, Arc::new(SystemClock)).with_examiner(store))
    })
}

/// A memory backend on `clock`.
pub fn backend(clock: Arc<dyn Clock>) -> Backend {
    offering(&Arc::new(MemoryStore::new(Arc::clone(&clock))), Arc::clone(&clock)).with_clock(clock)
}

/// The keys of a store; queues, locks and limits beside them.
fn offering(store: &Arc<MemoryStore>, clock: Arc<dyn Clock>) -> Backend {
    let queues = MemoryQueues::new(Arc::clone(&clock)).with_keys(Arc::clone(store));
    let (locks, limits) = (MemoryLocks::new(Arc::clone(&clock)), MemoryLimits::new(clock));
    let (locks, limits) =
        (locks.with_max_entries(store.max_entries()), limits.with_max_entries(store.max_entries()));
    Backend::new("memory", Arc::clone(store) as _)
        .with_queue(Arc::new(queues))
        .with_locks(Arc::new(locks))
        .with_limits(Arc::new(limits))
}
