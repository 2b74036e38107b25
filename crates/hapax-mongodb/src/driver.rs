//! `mongodb:` URLs.

use crate::{
    options::{MongoOptions, OPTIONS},
    store::MongoStore,
};
use hapax_core::{
    Backend, BackendUrl, BoxFuture, Driver, StoreResult, registry::ConnectOptions, url::UrlHelp,
};
use std::sync::Arc;

/// `mongodb://` and `mongodb+srv://`, with the options of [`MongoOptions::from_url`].
pub const DRIVER: Driver = Driver {
    name: "mongodb",
    schemes: &["mongodb", "mongodb+srv"],
    url: UrlHelp::new(
        &[
            (
                "mongodb://[USER:PASSWORD@]HOST[:PORT][,HOST…][/DATABASE]",
                "a server or a replica set; the database is `hapax` unless named",
            ),
            ("mongodb+srv://HOST[/DATABASE]", "the servers that the DNS names"),
        ],
        OPTIONS,
        "mongodb://app:s%40fe@a.internal,b.internal/shop?replicaSet=rs0&tls=true",
    ),
    connect,
};

fn connect<'a>(url: &'a BackendUrl, options: &'a ConnectOptions) -> BoxFuture<'a, StoreResult<Backend>> {
    Box::pin(async move {
        let store = Arc::new(MongoStore::connect(MongoOptions::from_url(url, options).await?).await?);
        let clock = store.clock();
        let backend = Backend::new("mongodb", Arc::clone(&store) as _).with_clock(clock);
        let backend = backend.with_locks(Arc::clone(&store) as _).with_limits(Arc::clone(&store) as _);
        Ok(backend.with_examiner(store))
    })
}
