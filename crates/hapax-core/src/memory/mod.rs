//! The store inside this process: for tests, for one process, and the reference for every other store.

mod doctor;
mod idempotency;
mod queue;
mod shard;

pub use idempotency::MemoryStore;
pub use queue::MemoryQueues;

use crate::registry::ConnectOptions;
use crate::{
    Backend, BackendUrl, BoxFuture, Clock, Driver, StoreError, StoreErrorKind, StoreResult, SystemClock,
};
use std::sync::Arc;

/// `memory:`, with the option `max_entries`.
pub const DRIVER: Driver = Driver { name: "memory", schemes: &["memory"], connect };

fn connect<'a>(url: &'a BackendUrl, _: &'a ConnectOptions) -> BoxFuture<'a, StoreResult<Backend>> {
    Box::pin(async move {
        url.allow(&["max_entries"])?;
        let mut store = MemoryStore::new(Arc::new(SystemClock));
        if let Some(text) = url.option("max_entries") {
            let max = text.parse().ok().filter(|max| *max > 0);
            store = store.with_max_entries(max.ok_or_else(|| {
                let reason = "`max_entries` of the URL is a whole number from 1";
                StoreError::new(StoreErrorKind::Config, "memory", "connect", reason)
            })?);
        }
        let store = Arc::new(store);
        Ok(offering(&store, Arc::new(SystemClock)).with_examiner(store))
    })
}

/// A memory backend on `clock`.
pub fn backend(clock: Arc<dyn Clock>) -> Backend {
    offering(&Arc::new(MemoryStore::new(Arc::clone(&clock))), Arc::clone(&clock)).with_clock(clock)
}

/// The keys of a store, and queues beside them.
fn offering(store: &Arc<MemoryStore>, clock: Arc<dyn Clock>) -> Backend {
    let queues = MemoryQueues::new(clock).with_keys(Arc::clone(store));
    Backend::new("memory", Arc::clone(store) as _).with_queue(Arc::new(queues))
}
