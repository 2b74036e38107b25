//! Servers that go and come.

use crate::support::{complete, is_done, is_yours, open, refused, reserve};
use hapax_core::{
    Applied, StoreErrorKind,
    idempotency::{Completed, IdempotencyStore, Write},
};
use hapax_postgres::{PostgresOptions, PostgresStore};
use hapax_testkit::postgres::Postgres;
use std::str::FromStr as _;

crate::list!("outages";
    a_restart_between_two_calls_is_not_seen,
    a_server_that_is_away_is_unavailable,
    connections_of_a_runtime_that_ended_are_not_used,
    without_a_runtime_there_is_an_answer,
);

async fn a_restart_between_two_calls_is_not_seen() {
    let mut server = Postgres::start();
    let store = open(&server.url()).await.unwrap();
    let (one, two) = (reserve("one"), reserve("two"));
    assert!(is_yours(&store.reserve(&one).await.unwrap()));
    server.restart();
    assert_eq!(store.complete(&complete(&one)).await.unwrap(), Completed::Stored);
    server.kill();
    server.start_again();
    assert!(is_yours(&store.reserve(&two).await.unwrap()));
    assert_eq!(store.release(&two.name, &two.token).await.unwrap(), Write::Applied);
    assert!(is_done(store.read(&one.name).await.unwrap().as_ref()));
}

async fn a_server_that_is_away_is_unavailable() {
    let mut server = Postgres::start();
    let store = open(&server.url()).await.unwrap();
    let req = reserve("k");
    server.stop();
    // The connection was there, so nobody knows what became of the first.
    let error = store.reserve(&req).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::Unknown));
    let error = store.reserve(&req).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::No));
    assert_eq!(refused(&server.url()).await.kind(), StoreErrorKind::Unavailable);
    server.start_again();
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
}

async fn connections_of_a_runtime_that_ended_are_not_used() {
    let place = crate::support::Place::new();
    let (url, req) = (place.url("postgres", ""), reserve("k"));
    let store = tokio::task::spawn_blocking({
        let req = req.clone();
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let store = runtime.block_on(open(&url)).unwrap();
            assert!(is_yours(&runtime.block_on(store.reserve(&req)).unwrap()));
            store
        }
    });
    let store = store.await.unwrap();
    assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::Stored);
}

async fn without_a_runtime_there_is_an_answer() {
    let place = crate::support::Place::new();
    let store = place.store().await;
    let options = sqlx::postgres::PgConnectOptions::from_str(&place.url("postgres", "")).unwrap();
    let asked = std::thread::spawn(move || {
        let now = |future: std::pin::Pin<Box<dyn Future<Output = StoreErrorKind>>>| {
            let mut future = future;
            let waker = std::task::Waker::noop();
            match future.as_mut().poll(&mut std::task::Context::from_waker(waker)) {
                std::task::Poll::Ready(kind) => kind,
                std::task::Poll::Pending => panic!("it waits"),
            }
        };
        let call = now(Box::pin(async move { store.prune(1).await.unwrap_err().kind() }));
        let connect = now(Box::pin(async move {
            PostgresStore::connect(PostgresOptions::new(options)).await.unwrap_err().kind()
        }));
        (call, connect)
    });
    let kinds = asked.join().unwrap();
    assert_eq!(kinds, (StoreErrorKind::Unsupported, StoreErrorKind::Unsupported));
}
