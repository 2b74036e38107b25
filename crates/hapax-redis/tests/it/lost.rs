//! Replies that get lost on the way.

use crate::support::{complete, is_done, is_yours, open, reserve, span};
use hapax_conformance::{Faults as _, Insisting};
use hapax_core::{
    Applied, StoreErrorKind,
    idempotency::{Completed, Extended, IdempotencyStore, Write},
};
use hapax_testkit::{Fault, Proxy, Rotation, redis::Redis};
use std::time::Duration;

crate::list!("lost", &[];
    a_step_whose_reply_was_lost_is_answered_all_the_same,
    a_batch_whose_reply_was_lost_is_answered_all_the_same,
    a_release_whose_reply_was_lost_is_not_sent_twice,
    a_step_whose_replies_are_all_lost_may_have_been_done,
    a_reply_that_comes_too_late_is_nobodys,
    a_caller_that_insists_is_answered_as_without_faults,
);

fn url(proxy: &Proxy, options: &str) -> String {
    format!("redis://127.0.0.1:{}?timeout=2s{options}", proxy.port())
}

async fn a_step_whose_reply_was_lost_is_answered_all_the_same() {
    let server = Redis::start();
    let proxy = Proxy::before(server.port());
    for more in ["", "&commands=6.2", "&protocol=3"] {
        assert!(server.ask("FLUSHALL").starts_with("+OK"));
        let store = open(&url(&proxy, more)).await;
        let (req, warm) = (reserve("k"), reserve("warm"));
        // The server knows the scripts by then: else the first answer is that it does not.
        let _ = store.extend(&warm.name, &warm.token, warm.lease).await.unwrap();
        let _ = store.complete(&complete(&warm)).await.unwrap();
        proxy.arm(Fault::CutAfter);
        assert!(is_yours(&store.reserve(&req).await.unwrap()));
        proxy.arm(Fault::CutAfter);
        let extended = store.extend(&req.name, &req.token, span(Duration::from_mins(3))).await.unwrap();
        assert!(matches!(extended, Extended::Until(_)));
        proxy.arm(Fault::CutAfter);
        // It was done the first time.
        assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::AlreadyDone);
        proxy.arm(Fault::CutAfter);
        assert!(is_done(store.read(&req.name).await.unwrap().as_ref()));
    }
}

async fn a_batch_whose_reply_was_lost_is_answered_all_the_same() {
    let server = Redis::start();
    let proxy = Proxy::before(server.port());
    let store = open(&url(&proxy, "")).await;
    let reqs: Vec<_> = (0..300).map(|n| reserve(&format!("k{n}"))).collect();
    proxy.arm(Fault::CutAfter);
    for answer in store.reserve_many(&reqs).await {
        assert!(is_yours(&answer.unwrap()));
    }
    let results: Vec<_> = reqs.iter().map(complete).collect();
    proxy.arm(Fault::CutAfter);
    for answer in store.complete_many(&results).await {
        assert!(matches!(answer.unwrap(), Completed::Stored | Completed::AlreadyDone));
    }
    for req in &reqs {
        assert!(is_done(store.read(&req.name).await.unwrap().as_ref()));
    }
}

async fn a_release_whose_reply_was_lost_is_not_sent_twice() {
    let server = Redis::start();
    let proxy = Proxy::before(server.port());
    let store = open(&url(&proxy, "")).await;
    let req = reserve("k");
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    // Known to the server: else the first answer is that it is not.
    let _ = store.release(&reserve("other").name, &req.token).await.unwrap();
    proxy.arm(Fault::CutAfter);
    let error = store.release(&req.name, &req.token).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::Unknown));
    // Who repeats it learns that nothing is held any more.
    assert_eq!(store.release(&req.name, &req.token).await.unwrap(), Write::Fenced);
    assert!(store.read(&req.name).await.unwrap().is_none());
}

async fn a_step_whose_replies_are_all_lost_may_have_been_done() {
    let server = Redis::start();
    let proxy = Proxy::before(server.port());
    let store = open(&url(&proxy, "")).await;
    let direct = open(&server.url()).await;
    let req = reserve("k");
    proxy.always(Some(Fault::CutAfter));
    let error = store.reserve(&req).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::Unknown), "{error}");
    proxy.always(None);
    assert!(!is_yours(&direct.reserve(&reserve("k")).await.unwrap()));
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
}

async fn a_reply_that_comes_too_late_is_nobodys() {
    let server = Redis::start();
    let proxy = Proxy::before(server.port());
    let (store, req) =
        (open(&format!("redis://127.0.0.1:{}?timeout=500ms", proxy.port())).await, reserve("k"));
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    // Known to the server: else the first answer is that it is not.
    let _ = store.complete(&complete(&reserve("warm"))).await.unwrap();
    proxy.arm(Fault::Late);
    let error = store.complete(&complete(&req)).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Timeout, Applied::Unknown), "{error}");
    assert!(is_yours(&store.reserve(&reserve("other")).await.unwrap()));
    proxy.let_go();
    assert!(store.read(&reserve("none").name).await.unwrap().is_none());
    assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::AlreadyDone);
    assert_eq!(proxy.happened(), 1);
}

async fn a_caller_that_insists_is_answered_as_without_faults() {
    let server = Redis::start();
    let proxy = Proxy::before(server.port());
    let store = open(&url(&proxy, "")).await;
    let faults = &[Fault::CutAfter, Fault::Twice, Fault::CutBefore, Fault::CutReply];
    let store = Insisting::new(store, Rotation::new(proxy, faults));
    for key in 0..20 {
        let req = reserve(&key.to_string());
        assert!(is_yours(&store.reserve(&req).await.unwrap()));
        assert!(matches!(store.extend(&req.name, &req.token, req.lease).await.unwrap(), Extended::Until(_)));
        if key % 2 == 0 {
            assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::Stored);
            assert!(is_done(store.read(&req.name).await.unwrap().as_ref()));
        } else {
            assert_eq!(store.release(&req.name, &req.token).await.unwrap(), Write::Applied);
            assert!(store.read(&req.name).await.unwrap().is_none());
        }
    }
    assert_eq!(store.faults().happened(), 80);
}
