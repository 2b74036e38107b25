//! Servers that go and come.

use crate::support::{complete, is_done, is_yours, open, refused, reserve};
use hapax_core::{
    Applied, StoreErrorKind,
    idempotency::{Completed, IdempotencyStore, Write},
};
use hapax_mongodb::MongoStore;
use hapax_testkit::mongodb::{Mongo, in_database};
use std::time::Duration;
use tokio::time::Instant;

crate::list!("outages";
    a_restart_between_two_calls_is_not_seen,
    a_server_that_is_away_is_unavailable,
    a_server_that_hangs_costs_no_more_than_the_deadline,
    clients_of_a_runtime_that_ended_are_not_used,
    without_a_runtime_there_is_an_answer,
);

async fn a_restart_between_two_calls_is_not_seen() {
    let mut server = Mongo::start();
    let store = open(&in_database(&server.url(), "shop")).await.unwrap();
    let (one, two) = (reserve("one"), reserve("two"));
    assert!(is_yours(&store.reserve(&one).await.unwrap()));
    server.kill();
    server.start_again();
    assert_eq!(store.complete(&complete(&one)).await.unwrap(), Completed::Stored);
    assert!(is_yours(&store.reserve(&two).await.unwrap()));
    server.kill();
    server.start_again();
    assert!(is_done(store.read(&one.name).await.unwrap().as_ref()));
}

async fn a_server_that_is_away_is_unavailable() {
    let mut server = Mongo::start();
    let url = in_database(&server.url(), "shop") + "timeout=1s";
    let (store, req) = (open(&url).await.unwrap(), reserve("k"));
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    server.kill();
    let began = Instant::now();
    let error = store.reserve(&reserve("other")).await.unwrap_err();
    assert!(matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Timeout), "{error:?}");
    // By now the driver knows that there is no server, and sends nothing.
    let error = store.read(&req.name).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::No));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(refused(&url).await.kind(), StoreErrorKind::Unavailable);
    server.start_again();
    assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::Stored);
}

async fn a_server_that_hangs_costs_no_more_than_the_deadline() {
    let server = Mongo::start();
    let (store, req) =
        (open(&(in_database(&server.url(), "shop") + "timeout=500ms")).await.unwrap(), reserve("k"));
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    server.freeze();
    let began = Instant::now();
    let error = store.complete(&complete(&req)).await.unwrap_err();
    assert_eq!(error.applied(), Applied::Unknown, "{error:?}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    server.thaw();
    let kept = loop {
        // The clients of before may still be finding out.
        match store.complete(&complete(&req)).await {
            Ok(answer) => break answer,
            Err(error) => assert!(began.elapsed() < Duration::from_secs(30), "{error:?}"),
        }
    };
    assert!(matches!(kept, Completed::Stored | Completed::AlreadyDone), "{kept:?}");
}

async fn clients_of_a_runtime_that_ended_are_not_used() {
    let server = Mongo::start();
    let url = in_database(&server.url(), "shop");
    let (store, req) = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (store, req): (MongoStore, _) = (open(&url).await.unwrap(), reserve("k"));
            assert!(is_yours(&store.reserve(&req).await.unwrap()));
            (store, req)
        })
    })
    .await
    .unwrap();
    assert_eq!(store.release(&req.name, &req.token).await.unwrap(), Write::Applied);
}

async fn without_a_runtime_there_is_an_answer() {
    let server = Mongo::start();
    let store = open(&in_database(&server.url(), "shop")).await.unwrap();
    let name = reserve("k").name;
    let (kind, store) = std::thread::spawn(move || {
        let answer = futures_util::FutureExt::now_or_never(store.read(&name)).unwrap();
        (answer.unwrap_err().kind(), store)
    })
    .join()
    .unwrap();
    assert_eq!(kind, StoreErrorKind::Unsupported);
    drop(store);
}
