//! `redis:` URLs.

use crate::{options::RedisOptions, queue::RedisQueues, store::RedisStore};
use hapax_core::{Backend, BackendUrl, BoxFuture, Driver, StoreResult, registry::ConnectOptions};
use std::sync::Arc;

/// `redis://`, `rediss://`, `redis+unix:`, `redis+cluster://` and `redis+sentinel://`, with the options of
/// [`RedisOptions::from_url`].
pub const DRIVER: Driver = Driver {
    name: "redis",
    schemes: &[
        "redis",
        "rediss",
        "redis+unix",
        "redis+cluster",
        "rediss+cluster",
        "redis+sentinel",
        "rediss+sentinel",
    ],
    connect,
};

fn connect<'a>(url: &'a BackendUrl, options: &'a ConnectOptions) -> BoxFuture<'a, StoreResult<Backend>> {
    Box::pin(async move {
        let options = RedisOptions::from_url(url, options)?;
        let most = options.max_receipt;
        let store = Arc::new(RedisStore::connect(options).await?);
        let backend = Backend::new("redis", Arc::clone(&store) as _).with_clock(store.clock());
        let backend = backend.with_queue(Arc::new(RedisQueues::of(&store)));
        Ok(backend.with_max_receipt(most).with_examiner(store))
    })
}
