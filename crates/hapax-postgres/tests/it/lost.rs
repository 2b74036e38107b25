//! Replies that get lost on the way, or come too late.

use crate::{
    queue,
    support::{Place, complete, is_done, is_yours, open, reserve},
};
use hapax_conformance::{Faults as _, Insisting};
use hapax_core::{
    Applied, StoreErrorKind,
    idempotency::{Completed, Extended, IdempotencyStore, Write},
    queue::{Beat, Group, QueueStore as _, Step},
};
use hapax_postgres::PostgresStore;
use hapax_testkit::{Fault, Proxy, Rotation};
use std::time::Duration;

crate::list!("lost";
    a_step_whose_reply_was_lost_is_sent_once_more,
    a_release_whose_reply_was_lost_may_have_been_done,
    a_reply_that_comes_too_late_is_nobodys,
    jobs_in_an_answer_that_comes_too_late_come_back_without_a_loss,
    a_step_whose_answer_is_lost_is_not_sent_again_behind_the_workers_back,
    a_caller_that_insists_is_answered_as_without_faults,
);

const FAULTS: &[Fault] = &[Fault::CutAfter, Fault::CutBefore, Fault::CutReply];
const ROUNDS: usize = 20;

async fn through(proxy: &Proxy, place: &Place, timeout: &str) -> PostgresStore {
    let (port, schema) = (proxy.port(), &place.schema);
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres?timeout={timeout}&schema={schema}");
    open(&url).await.unwrap()
}

async fn a_step_whose_reply_was_lost_is_sent_once_more() {
    let place = Place::new();
    let proxy = Proxy::before(place.port());
    let (store, req) = (through(&proxy, &place, "30s").await, reserve("k"));
    for fault in FAULTS {
        proxy.arm(*fault);
        assert!(is_yours(&store.reserve(&req).await.unwrap()), "{fault:?}");
    }
    proxy.arm(Fault::CutAfter);
    // It was done the first time.
    assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::AlreadyDone);
    proxy.arm(Fault::CutReply);
    assert!(is_done(store.read(&req.name).await.unwrap().as_ref()));
    assert_eq!(proxy.happened(), 5);
}

async fn a_release_whose_reply_was_lost_may_have_been_done() {
    let place = Place::new();
    let proxy = Proxy::before(place.port());
    let (store, req) = (through(&proxy, &place, "30s").await, reserve("k"));
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    proxy.arm(Fault::CutAfter);
    let error = store.release(&req.name, &req.token).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::Unknown), "{error}");
    // Who repeats it learns that nothing is held any more.
    assert_eq!(store.release(&req.name, &req.token).await.unwrap(), Write::Fenced);
    assert!(store.read(&req.name).await.unwrap().is_none());
}

async fn a_reply_that_comes_too_late_is_nobodys() {
    let place = Place::new();
    let proxy = Proxy::before(place.port());
    let (store, req) = (through(&proxy, &place, "1s").await, reserve("k"));
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    proxy.arm(Fault::Late);
    let error = store.complete(&complete(&req)).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Timeout, Applied::Unknown), "{error}");
    assert!(is_yours(&store.reserve(&reserve("other")).await.unwrap()));
    proxy.let_go();
    assert!(store.read(&reserve("none").name).await.unwrap().is_none());
    assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::AlreadyDone);
    assert_eq!(proxy.happened(), 1);
}

async fn jobs_in_an_answer_that_comes_too_late_come_back_without_a_loss() {
    let place = Place::new();
    let proxy = Proxy::before(place.port());
    let store = through(&proxy, &place, "1s").await;
    queue::adds(&store, 0..3).await;
    let known = store.step(&queue::step("w", 1)).await.unwrap();
    proxy.arm(Fault::Late);
    let error = store.step(&Step { finishes: queue::done(&known), ..queue::step("w", 1) }).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Timeout, Applied::Unknown), "{error}");
    proxy.let_go();
    let beat = |since| Beat {
        queue: queue::jobs(),
        group: Group::main(),
        consumer: queue::step("w", 0).consumer,
        held: Vec::new(),
        lease: queue::step("w", 0).lease,
        since,
        progress: Vec::new(),
    };
    let first = store.beat(&beat(None)).await.unwrap();
    let second = store.beat(&beat(Some(first.now.after(Duration::from_millis(1))))).await.unwrap();
    assert_eq!((first.freed, second.freed), (0, 1));
    let again = store.step(&Step { finishes: queue::done(&known), ..queue::step("w", 9) }).await.unwrap();
    assert_eq!(
        again.finished.first().map(|finished| finished.job),
        Some(Write::Fenced),
        "it was done the first time"
    );
    let counts: Vec<_> = again.jobs.iter().map(|job| (job.counts.losses, job.counts.given_back)).collect();
    assert_eq!(counts, [(0, 1), (0, 0)]);
}

async fn a_step_whose_answer_is_lost_is_not_sent_again_behind_the_workers_back() {
    let place = Place::new();
    let proxy = Proxy::before(place.port());
    let store = through(&proxy, &place, "30s").await;
    queue::adds(&store, 0..3).await;
    let first = store.step(&queue::step("w", 1)).await.unwrap();
    for fault in [Fault::CutAfter, Fault::CutReply] {
        // On a connection that is there: else it is its greeting that is lost.
        assert_eq!(store.stats(&queue::jobs().namespace, None).await.unwrap().len(), 1);
        proxy.arm(fault);
        let error =
            store.step(&Step { finishes: queue::done(&first), ..queue::step("w", 1) }).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.applied()),
            (StoreErrorKind::Unavailable, Applied::Unknown),
            "{error}"
        );
    }
    let stats = store.stats(&queue::jobs().namespace, None).await.unwrap();
    let figures: Vec<_> = stats.iter().map(|stats| (stats.done, stats.running)).collect();
    assert_eq!(figures, [(1, 2)], "each was done once");
}

async fn a_caller_that_insists_is_answered_as_without_faults() {
    let place = Place::new();
    let proxy = Proxy::before(place.port());
    let store = through(&proxy, &place, "30s").await;
    let store = Insisting::new(store, Rotation::new(proxy, FAULTS));
    for key in 0..ROUNDS {
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
    assert_eq!(store.faults().happened(), 4 * ROUNDS);
}
