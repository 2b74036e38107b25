//! `redis:` URLs.

use crate::{
    limit::RedisLimits,
    lock::RedisLocks,
    options::{OPTIONS, RedisOptions},
    queue::RedisQueues,
    store::RedisStore,
};
use hapax_core::{
    Backend, BackendUrl, BoxFuture, Driver, StoreResult, registry::ConnectOptions, url::UrlHelp,
};
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
    url: UrlHelp::new(
        &[
            ("redis://[USER:PASSWORD@]HOST[:PORT][/DB]", "one server"),
            ("redis+unix:PATH", "one server on this machine, by its socket"),
            ("redis+cluster://HOST[:PORT],HOST[:PORT]", "a Cluster, from any of its nodes"),
            (
                "redis+sentinel://HOST[:PORT],HOST[:PORT]/PRIMARY[/DB]",
                "the primary that these Sentinels name",
            ),
            ("rediss://, rediss+cluster://, rediss+sentinel://", "the same, encrypted"),
        ],
        OPTIONS,
        "rediss://app:s%40fe@cache.internal/0?tls_ca=/etc/app/ca.pem&wait_replicas=1",
    ),
    connect,
};

fn connect<'a>(url: &'a BackendUrl, options: &'a ConnectOptions) -> BoxFuture<'a, StoreResult<Backend>> {
    Box::pin(async move {
        let options = RedisOptions::from_url(url, options)?;
        let most = options.max_receipt;
        let store = Arc::new(RedisStore::connect(options).await?);
        let backend = Backend::new("redis", Arc::clone(&store) as _).with_clock(store.clock());
        let backend = backend.with_queue(Arc::new(RedisQueues::of(&store)));
        let backend = backend.with_locks(Arc::new(RedisLocks::of(&store)));
        let backend = backend.with_limits(Arc::new(RedisLimits::of(&store)));
        Ok(backend.with_max_receipt(most).with_examiner(store))
    })
}
