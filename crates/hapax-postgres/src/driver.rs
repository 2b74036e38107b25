//! `postgres:` URLs.

use crate::{
    options::{OPTIONS, PostgresOptions},
    store::PostgresStore,
};
use hapax_core::{
    Backend, BackendUrl, BoxFuture, Driver, StoreResult, registry::ConnectOptions, url::UrlHelp,
};
use std::sync::Arc;

/// `postgres://` and `postgresql://`, with the options of [`PostgresOptions::from_url`].
pub const DRIVER: Driver = Driver {
    name: "postgres",
    schemes: &["postgres", "postgresql"],
    url: UrlHelp::new(
        &[
            (
                "postgres://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]",
                "a database; what is left out comes from PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE and PGSSLMODE",
            ),
            ("postgres:///DATABASE?host=/FOLDER", "by the socket in that folder"),
            ("postgresql://", "the same"),
        ],
        OPTIONS,
        "postgres://app@db.internal/shop?sslmode=verify-full&schema=keys",
    ),
    connect,
};

fn connect<'a>(url: &'a BackendUrl, options: &'a ConnectOptions) -> BoxFuture<'a, StoreResult<Backend>> {
    Box::pin(async move {
        let store = Arc::new(PostgresStore::connect(PostgresOptions::from_url(url, options)?).await?);
        let backend = Backend::new("postgres", Arc::clone(&store) as _);
        let backend = backend.with_queue(Arc::clone(&store) as _).with_locks(Arc::clone(&store) as _);
        let backend = backend.with_limits(Arc::clone(&store) as _).with_examiner(Arc::clone(&store) as _);
        Ok(backend.with_native(store))
    })
}
