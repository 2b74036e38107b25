//! `sqlite:` URLs.

use crate::{
    options::{OPTIONS, SqliteOptions},
    store::SqliteStore,
};
use hapax_core::{
    Backend, BackendUrl, BoxFuture, Driver, StoreResult, SystemClock, registry::ConnectOptions, url::UrlHelp,
};
use std::sync::Arc;

/// `sqlite:PATH`, with the options of [`SqliteOptions::from_url`].
pub const DRIVER: Driver = Driver {
    name: "sqlite",
    schemes: &["sqlite"],
    url: UrlHelp::new(
        &[("sqlite:PATH", "a file on this machine, made where it is missing, in a folder that is there")],
        OPTIONS,
        "sqlite:/var/lib/app/hapax.db?synchronous=normal",
    ),
    connect,
};

fn connect<'a>(url: &'a BackendUrl, options: &'a ConnectOptions) -> BoxFuture<'a, StoreResult<Backend>> {
    Box::pin(async move {
        let options = SqliteOptions::from_url(url, options)?;
        let store = Arc::new(SqliteStore::open(options, Arc::new(SystemClock)).await?);
        let backend = Backend::new("sqlite", Arc::clone(&store) as _)
            .with_queue(Arc::clone(&store) as _)
            .with_locks(Arc::clone(&store) as _)
            .with_limits(Arc::clone(&store) as _);
        Ok(backend.with_examiner(Arc::clone(&store) as _).with_native(store))
    })
}
