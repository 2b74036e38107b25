//! Statements are named where it is certain that no pooler can come between, and nowhere else.

use crate::support::{Place, is_yours, name, open, reserve};
use hapax_core::idempotency::IdempotencyStore;
use hapax_postgres::PostgresStore;
use hapax_testkit::{
    Proxy,
    postgres::{PGBOUNCER, Pgbouncer},
};

crate::list!("naming", &[PGBOUNCER];
    statements_are_named_where_nothing_stands_before_the_server,
    statements_are_not_named_behind_a_pooler,
    statements_are_not_named_behind_a_proxy,
    a_short_process_names_none,
);

/// More than are sent before anybody looks where the connection leads.
const MANY: usize = 100;

async fn read(store: &PostgresStore, times: usize) {
    for _ in 0..times {
        assert_eq!(store.read(&name("k")).await.unwrap(), None);
    }
}

/// How many sessions have last read a key by a statement that says this.
async fn sessions(place: &Place, says: &str) -> i64 {
    let read = format!("\"{}\".read(", place.schema);
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE position('{read}' IN query) > 0 \
         AND position('{says}' IN query) > 0 AND pid <> pg_backend_pid()"
    );
    place.number(&sql).await
}

async fn named(place: &Place) -> i64 {
    sessions(place, "read($1)").await
}

async fn written(place: &Place) -> i64 {
    sessions(place, "SET TRANSACTION").await
}

async fn statements_are_named_where_nothing_stands_before_the_server() {
    let place = Place::new();
    let store = place.store().await;
    read(&store, MANY).await;
    assert_eq!(named(&place).await, i64::from(cfg!(target_os = "linux")));
    drop(store);
    let place = Place::new();
    let store = place.with("&prepared=off").await;
    read(&store, MANY).await;
    assert_eq!((named(&place).await, written(&place).await), (0, 1));
}

async fn statements_are_not_named_behind_a_pooler() {
    let place = Place::new();
    // Made by whoever may, and of one session, so that each transaction would find the names of the one before.
    let pooler = Pgbouncer::before(place.port(), 1);
    let store = open(&format!("{}?schema={}", pooler.url(), place.schema)).await.unwrap();
    read(&store, MANY).await;
    assert_eq!((named(&place).await, written(&place).await), (0, 1));
    assert!(is_yours(&store.reserve(&reserve("k")).await.unwrap()));
}

async fn statements_are_not_named_behind_a_proxy() {
    let place = Place::new();
    let proxy = Proxy::before(place.port());
    let url = place.url("postgres", "&sslmode=disable");
    let store = open(&url.replace(&place.port().to_string(), &proxy.port().to_string())).await.unwrap();
    read(&store, MANY).await;
    assert_eq!((named(&place).await, written(&place).await), (0, 1));
}

async fn a_short_process_names_none() {
    let place = Place::new();
    let store = place.store().await;
    read(&store, 20).await;
    assert_eq!((named(&place).await, written(&place).await), (0, 1));
}
