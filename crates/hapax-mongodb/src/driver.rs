//! `mongodb:` URLs.

use crate::{options::MongoOptions, store::MongoStore};
use hapax_core::{Backend, BackendUrl, BoxFuture, Driver, StoreResult, registry::ConnectOptions};
use std::sync::Arc;

/// `mongodb://` and `mongodb+srv://`, with the options of [`MongoOptions::from_url`].
pub const DRIVER: Driver = Driver { name: "mongodb", schemes: &["mongodb", "mongodb+srv"], connect };

fn connect<'a>(url: &'a BackendUrl, options: &'a ConnectOptions) -> BoxFuture<'a, StoreResult<Backend>> {
    Box::pin(async move {
        let store = Arc::new(MongoStore::connect(MongoOptions::from_url(url, options).await?).await?);
        let clock = store.clock();
        Ok(Backend::new("mongodb", Arc::clone(&store) as _).with_clock(clock).with_examiner(store))
    })
}
