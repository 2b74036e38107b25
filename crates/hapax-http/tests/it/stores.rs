//! Stores that cannot be reached, before the handler and after it.

use crate::support::{Runs, ask, counting, memory, send, user_of, with};
use axum::Router;
use hapax_conformance::faulty::{Fault, Faulty, Step};
use hapax_core::memory::MemoryStore;
use hapax_engine::Idempotency;
use hapax_http::{IdempotencyLayer, Refusal};
use http::StatusCode;
use std::{sync::Arc, time::Duration};

type Store = Arc<Faulty<MemoryStore>>;

fn on_a_faulty_store(
    set: impl FnOnce(IdempotencyLayer) -> IdempotencyLayer,
) -> (Store, Idempotency, Router, Runs) {
    let store = Arc::new(Faulty::new(memory()));
    let keys = Idempotency::new(Arc::clone(&store), "shop");
    let (app, runs) = counting(set(IdempotencyLayer::new(&keys, user_of)));
    (store, keys, app, runs)
}

#[tokio::test]
async fn a_store_that_is_down_before_the_handler_is_503_and_nothing_runs() {
    let (store, _, app, runs) = on_a_faulty_store(|layer| layer);
    store.break_step(Step::Reserve, Fault::Before);
    let answer = send(&app, ask("\"k\"", "a")).await;
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (503, "idempotency.store_failed"));
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(runs.count(), 0);
    // Who sends no key does not need the store.
    assert_eq!(send(&app, with(&[], "a")).await.text(), "run 1: a");
    store.heal();
    assert_eq!(send(&app, ask("\"k\"", "a")).await.text(), "run 2: a");
}

#[tokio::test]
async fn a_lost_reply_to_the_reservation_leaves_the_key_free() {
    let (store, keys, app, runs) = on_a_faulty_store(|layer| layer);
    store.inject(Step::Reserve, Fault::LostReply);
    assert_eq!(send(&app, ask("\"k\"", "a")).await.code(), "idempotency.store_failed");
    assert!(keys.keeper().close(Duration::from_secs(30)).await.is_clean());
    assert_eq!(send(&app, ask("\"k\"", "a")).await.text(), "run 1: a");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_store_that_is_down_after_the_handler_costs_nobody_the_response() {
    for fault in [Fault::Before, Fault::LostReply] {
        let (store, keys, app, runs) = on_a_faulty_store(|layer| layer);
        store.break_step(Step::Complete, fault);
        let first = send(&app, ask("\"k\"", "a")).await;
        assert_eq!((first.status, first.text()), (StatusCode::CREATED, "run 1: a"));
        // In this process the response is there although the store has not taken it.
        let again = send(&app, ask("\"k\"", "a")).await;
        assert!(again.is_replayed());
        assert_eq!(again.body, first.body);
        store.heal();
        assert!(keys.keeper().close(Duration::from_secs(30)).await.is_clean());
        // Another process of the same store has it now.
        let (other, _) =
            counting(IdempotencyLayer::new(&Idempotency::new(Arc::clone(&store), "shop"), user_of));
        let elsewhere = send(&other, ask("\"k\"", "a")).await;
        assert!(elsewhere.is_replayed());
        assert_eq!((elsewhere.body, runs.count()), (first.body, 1));
    }
}

#[tokio::test]
async fn a_service_can_choose_to_run_without_its_store() {
    let (store, _, app, runs) = on_a_faulty_store(IdempotencyLayer::run_when_store_is_down);
    store.break_step(Step::Reserve, Fault::Before);
    for n in 1..=2 {
        let answer = send(&app, ask("\"k\"", "a")).await;
        assert_eq!(
            (answer.text(), answer.header("idempotent-kept")),
            (&*format!("run {n}: a"), Some("false"))
        );
    }
    store.heal();
    assert_eq!(send(&app, ask("\"k\"", "a")).await.header("idempotent-kept"), None);
    assert_eq!(runs.count(), 3);
}

#[tokio::test]
async fn the_status_of_a_store_that_is_down_can_be_set() {
    let (store, _, app, _) = on_a_faulty_store(|layer| {
        layer.status(Refusal::StoreFailed, StatusCode::BAD_GATEWAY).retry_after(Duration::from_millis(2100))
    });
    store.break_step(Step::Reserve, Fault::Before);
    let answer = send(&app, ask("\"k\"", "a")).await;
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (502, Some("3")));
}

#[tokio::test]
async fn a_key_that_is_refused_costs_no_call() {
    let (store, _, app, _) = on_a_faulty_store(IdempotencyLayer::required);
    for request in [ask("k", "a"), ask("\"\"", "a"), with(&[], "a")] {
        assert_eq!(send(&app, request).await.status, 400);
    }
    assert_eq!(store.all_calls(), 0);
    // A fresh request takes two calls, a replay one.
    send(&app, ask("\"k\"", "a")).await;
    assert_eq!((store.calls(Step::Reserve), store.calls(Step::Complete), store.all_calls()), (1, 1, 2));
    send(&app, ask("\"k\"", "a")).await;
    assert_eq!((store.calls(Step::Reserve), store.all_calls()), (2, 3));
}
