//! Connections and servers that go away, and come back.

use crate::support::{complete, is_done, is_held_done, is_yours, name, open, raw, reserve, run, until};
use hapax_core::{
    Applied, StoreErrorKind,
    idempotency::{Completed, IdempotencyStore, Write},
};
use hapax_testkit::redis::Redis;
use std::time::Duration;
use tokio::time::Instant;

crate::list!("outages", &[];
    what_was_answered_survives_a_crash_of_the_server,
    a_call_goes_on_after_a_restart,
    scripts_are_sent_again_after_a_flush,
    a_flushed_server_is_an_empty_store,
    a_killed_connection_comes_back,
    a_server_that_hangs_costs_no_more_than_the_deadline,
    a_server_that_is_gone_is_unavailable_and_nothing_was_done,
    a_call_waits_for_a_server_that_comes_back_in_time,
    a_deadline_ends_the_wait_for_a_server,
    each_runtime_has_its_own_connection,
    outside_of_a_runtime_there_is_an_error,
);

fn on_disk() -> Redis {
    Redis::with(&["--appendonly", "yes", "--appendfsync", "always"])
}

async fn what_was_answered_survives_a_crash_of_the_server() {
    let mut server = on_disk();
    let store = open(&server.url()).await;
    let (held, done) = (reserve("held"), reserve("done"));
    assert!(is_yours(&store.reserve(&held).await.unwrap()));
    assert!(is_yours(&store.reserve(&done).await.unwrap()));
    assert_eq!(store.complete(&complete(&done)).await.unwrap(), Completed::Stored);
    server.kill();
    server.start_again();
    assert!(is_held_done(&store.reserve(&reserve("done")).await.unwrap()));
    assert!(!is_yours(&store.reserve(&reserve("held")).await.unwrap()));
    assert!(is_yours(&store.reserve(&held).await.unwrap()));
    assert_eq!(store.complete(&complete(&held)).await.unwrap(), Completed::Stored);
}

async fn a_call_goes_on_after_a_restart() {
    let mut server = on_disk();
    let store = open(&server.url()).await;
    for n in 0..3 {
        let req = reserve(&format!("k{n}"));
        assert!(is_yours(&store.reserve(&req).await.unwrap()));
        server.restart();
        assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::Stored);
        server.restart();
        assert!(is_done(store.read(&req.name).await.unwrap().as_ref()));
        server.restart();
        assert_eq!(store.release(&req.name, &req.token).await.unwrap(), Write::Fenced);
    }
}

async fn scripts_are_sent_again_after_a_flush() {
    let server = Redis::start();
    let store = open(&server.url()).await;
    for n in 0..3 {
        let reqs: Vec<_> = (0..200).map(|k| reserve(&format!("k{n} {k}"))).collect();
        for answer in store.reserve_many(&reqs).await {
            assert!(is_yours(&answer.unwrap()));
        }
        assert!(server.ask("SCRIPT FLUSH").starts_with("+OK"));
        let results: Vec<_> = reqs.iter().map(complete).collect();
        for answer in store.complete_many(&results).await {
            assert_eq!(answer.unwrap(), Completed::Stored);
        }
    }
}

async fn a_flushed_server_is_an_empty_store() {
    let server = Redis::start();
    let store = open(&server.url()).await;
    let req = reserve("k");
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    assert!(server.ask("FLUSHALL").starts_with("+OK"));
    assert!(store.read(&req.name).await.unwrap().is_none());
    assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::Stored);
    assert!(is_held_done(&store.reserve(&reserve("k")).await.unwrap()));
}

async fn a_killed_connection_comes_back() {
    let server = Redis::start();
    let store = open(&server.url()).await;
    for n in 0..20 {
        let req = reserve(&format!("k{n}"));
        assert!(is_yours(&store.reserve(&req).await.unwrap()));
        assert!(server.ask("CLIENT KILL TYPE normal SKIPME yes").starts_with(':'));
        assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::Stored);
    }
}

async fn a_server_that_hangs_costs_no_more_than_the_deadline() {
    let server = Redis::start();
    let store = open(&format!("{}?timeout=300ms", server.url())).await;
    let (known, req) = (reserve("known"), reserve("k"));
    assert!(is_yours(&store.reserve(&known).await.unwrap()));
    server.signal("STOP");
    let start = Instant::now();
    let error = store.reserve(&req).await.unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Timeout, Applied::Unknown));
    // A connection is made by the system, and nothing comes over it: certainly not done.
    let error = store.reserve(&reserve("l")).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Timeout, Applied::No));
    server.signal("CONT");
    until("the server answers", async || store.read(&known.name).await.is_ok()).await;
    // It was done when the server went on, or it was not: under its token it is the caller's in either case.
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
}

async fn a_server_that_is_gone_is_unavailable_and_nothing_was_done() {
    let mut server = Redis::start();
    let store = open(&format!("{}?timeout=200ms", server.url())).await;
    server.kill();
    // The first may have left before the end of the connection was seen.
    assert_eq!(store.reserve(&reserve("k")).await.unwrap_err().kind(), StoreErrorKind::Unavailable);
    for _ in 0..3 {
        let error = store.reserve(&reserve("k")).await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::No));
        assert!(error.to_string().contains(&server.port().to_string()), "{error}");
    }
    server.start_again();
    assert!(is_yours(&store.reserve(&reserve("k")).await.unwrap()));
}

async fn a_call_waits_for_a_server_that_comes_back_in_time() {
    let mut server = on_disk();
    let store = open(&server.url()).await;
    let req = reserve("k");
    server.kill();
    let waiting = async { store.reserve(&req).await.unwrap() };
    let back = async {
        tokio::task::yield_now().await;
        server.start_again();
    };
    let (answer, ()) = tokio::join!(waiting, back);
    assert!(is_yours(&answer));
}

async fn a_deadline_ends_the_wait_for_a_server() {
    let mut server = Redis::start();
    let store = open(&format!("{}?timeout=400ms", server.url())).await;
    server.kill();
    let start = Instant::now();
    let reqs: Vec<_> = (0..50).map(|n| reserve(&format!("k{n}"))).collect();
    let calls = reqs.iter().map(|req| store.reserve(req));
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(answer.unwrap_err().kind(), StoreErrorKind::Unavailable);
    }
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}

async fn each_runtime_has_its_own_connection() {
    let server = Redis::start();
    let store = std::sync::Arc::new(open(&server.url()).await);
    let mut probe = raw(&server.url()).await;
    let (req, elsewhere) = (reserve("k"), std::sync::Arc::clone(&store));
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    let result = complete(&req);
    // The runtime ends with its thread, and its connection with it.
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { elsewhere.complete(&result).await.unwrap() })
    });
    assert_eq!(thread.join().unwrap(), Completed::Stored);
    until("one connection is left beside the probe", async || {
        let clients: String = run(&mut probe, "CLIENT LIST").await;
        clients.lines().count() == 2
    })
    .await;
    assert!(is_held_done(&store.reserve(&reserve("k")).await.unwrap()));
}

async fn outside_of_a_runtime_there_is_an_error() {
    let server = Redis::start();
    let store = open(&server.url()).await;
    let thread = std::thread::spawn(move || {
        let mut call = std::pin::pin!(async move { store.read(&name("k")).await.map(drop) });
        let polled = call.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
        let std::task::Poll::Ready(Err(error)) = polled else { panic!("no error") };
        error.kind()
    });
    assert_eq!(thread.join().unwrap(), StoreErrorKind::Unsupported);
}
