//! Handlers: how often they run, for whom, and to which end.

use crate::support::{Gate, answering, ask, counting, keys, layer, read, send, until, user_of, with, within};
use axum::{Extension, Router, routing::post};
use hapax_core::Namespace;
use hapax_engine::Lease;
use hapax_http::{Handlers, IdempotencyLayer};
use http::StatusCode;
use std::{convert::Infallible, time::Duration};
use tower::{ServiceBuilder, ServiceExt};

const CROWD: usize = 64;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_64_equal_requests_one_runs_and_the_others_are_in_flight() {
    let gate = Gate::new();
    let app = gate.routes(layer());
    let ask_one = || tokio::spawn(app.clone().oneshot(ask("\"k\"", "a")));
    let crowd: Vec<_> = (0..CROWD).map(|_| ask_one()).collect();
    gate.began().await;
    // All others have their answer while the first still runs.
    until("the others are answered", || crowd.iter().filter(|one| one.is_finished()).count() == CROWD - 1)
        .await;
    gate.let_go();
    let mut statuses = Vec::new();
    for one in crowd {
        statuses.push(within(one).await.unwrap().unwrap().status());
    }
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1);
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), CROWD - 1);
    assert_eq!(gate.runs.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_64_equal_requests_that_wait_one_runs_and_all_get_its_response() {
    let gate = Gate::new();
    let app = gate.routes(layer().wait(Duration::from_secs(20)));
    let crowd: Vec<_> = (0..CROWD).map(|_| tokio::spawn(app.clone().oneshot(ask("\"k\"", "a")))).collect();
    gate.began().await;
    gate.let_go();
    let mut replays = 0;
    for one in crowd {
        let answer = read(within(one).await.unwrap().unwrap()).await;
        assert_eq!((answer.status, answer.text()), (StatusCode::CREATED, "run 1"));
        replays += usize::from(answer.is_replayed());
    }
    assert_eq!((gate.runs.count(), replays), (1, CROWD - 1));
}

#[tokio::test]
async fn a_handler_whose_client_has_gone_ends_and_its_retry_is_answered() {
    let gate = Gate::new();
    let layer = layer();
    let handlers = layer.handlers().clone();
    let app = gate.routes(layer);
    let client = tokio::spawn(app.clone().oneshot(ask("\"k\"", "a")));
    gate.began().await;
    client.abort();
    assert!(within(client).await.unwrap_err().is_cancelled());
    assert_eq!(handlers.running(), 1);
    assert_eq!(send(&app, ask("\"k\"", "a")).await.code(), "idempotency.in_flight");
    gate.let_go();
    within(handlers.finished()).await;
    let retry = send(&app, ask("\"k\"", "a")).await;
    assert!(retry.is_replayed());
    assert_eq!((retry.text(), gate.runs.count()), ("run 1", 1));
}

#[tokio::test]
async fn a_handler_runs_in_the_task_of_its_client_and_in_its_own_when_that_has_gone() {
    let (sender, mut ran_in) = tokio::sync::mpsc::unbounded_channel();
    let gate = Gate::new();
    let passed = gate.clone();
    let handler = move || {
        let (sender, gate) = (sender.clone(), passed.clone());
        async move {
            sender.send(tokio::task::id()).unwrap();
            gate.pass().await;
            sender.send(tokio::task::id()).unwrap();
        }
    };
    let app = Router::new().route("/pay", post(handler)).layer(layer());
    for stays in [true, false] {
        let key = format!("\"{stays}\"");
        let client = tokio::spawn(app.clone().oneshot(ask(&key, "a")));
        let of_client = client.id();
        assert_eq!(within(ran_in.recv()).await, Some(of_client));
        gate.began().await;
        if !stays {
            client.abort();
            assert!(within(client).await.unwrap_err().is_cancelled());
        }
        gate.let_go();
        assert_eq!(within(ran_in.recv()).await == Some(of_client), stays);
    }
    assert_eq!(gate.runs.count(), 2);
}

#[tokio::test]
async fn a_client_that_goes_before_its_handler_begins_leaves_its_key_free() {
    let (keys, _) = keys();
    let (app, runs) = counting(IdempotencyLayer::new(&keys, user_of));
    let mut call = Box::pin(app.clone().oneshot(ask(
        "\"k\"",
        axum::body::Body::from_stream(futures_util::stream::pending::<Result<bytes::Bytes, Infallible>>()),
    )));
    assert!(futures_util::poll!(&mut call).is_pending());
    drop(call);
    assert_eq!(send(&app, ask("\"k\"", "a")).await.text(), "run 1: a");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_panic_is_an_unknown_outcome_that_is_not_run_again() {
    let (app, runs) = answering(layer(), |_| -> StatusCode { panic!("in the middle of it") });
    let first = send(&app, ask("\"k\"", "a")).await;
    assert_eq!((first.status.as_u16(), first.code().as_str()), (500, "idempotency.unknown"));
    assert!(!first.is_replayed());
    let again = send(&app, ask("\"k\"", "a")).await;
    assert_eq!((again.status.as_u16(), again.code().as_str()), (500, "idempotency.unknown"));
    assert!(again.is_replayed());
    assert_eq!(send(&app, ask("\"k\"", "b")).await.code(), "idempotency.key_reused");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn an_unknown_outcome_can_be_settled_by_hand() {
    let (keys, _) = keys();
    let (app, runs) = answering(IdempotencyLayer::new(&keys, user_of), |n| -> StatusCode {
        assert!(n > 1, "the first one panics");
        StatusCode::CREATED
    });
    assert_eq!(send(&app, ask("\"k\"", "a")).await.code(), "idempotency.unknown");
    let by_hand = hapax_engine::Idempotency::on(keys.keeper().clone(), Ok(Namespace::default()), "http:shop");
    by_hand.resolve(["ada", "k"]).did_not().await.unwrap();
    assert_eq!(send(&app, ask("\"k\"", "a")).await.status, 201);
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn an_error_of_the_service_is_an_unknown_outcome() {
    let gate = Gate::new();
    let slow = {
        let gate = gate.clone();
        tower::service_fn(move |_: http::Request<_>| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                Ok::<_, Infallible>(http::Response::new(axum::body::Body::empty()))
            }
        })
    };
    let service = ServiceBuilder::new().layer(layer()).timeout(Duration::from_millis(20)).service(slow);
    let error = within(service.clone().oneshot(ask("\"k\"", "a"))).await.unwrap_err();
    assert!(error.is::<tower::timeout::error::Elapsed>());
    let again = within(service.oneshot(ask("\"k\"", "a"))).await.unwrap();
    assert_eq!(again.status(), 500);
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    assert_eq!(gate.runs.count(), 1);
}

#[tokio::test]
async fn a_runtime_that_ends_leaves_its_handlers_unknown() {
    let (keys, _) = keys();
    let gate = Gate::new();
    let app = gate.routes(IdempotencyLayer::new(&keys, user_of));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let client = runtime.spawn(app.clone().oneshot(ask("\"k\"", "a")));
    gate.began().await;
    runtime.shutdown_background();
    assert!(within(client).await.is_err());
    // On a clock that a test moves, what is left behind is a task of this runtime.
    let key = || async { send(&app, ask("\"k\"", "a")).await.code() };
    let mut code = key().await;
    while code == "idempotency.in_flight" {
        tokio::task::yield_now().await;
        code = key().await;
    }
    assert_eq!(code, "idempotency.unknown");
    assert_eq!(gate.runs.count(), 1);
}

#[tokio::test]
async fn more_handlers_than_may_run_are_refused_and_leave_their_keys_free() {
    let gate = Gate::new();
    let app = gate.routes(layer().max_in_flight(2));
    let running: Vec<_> =
        ["\"a\"", "\"b\""].map(|key| tokio::spawn(app.clone().oneshot(ask(key, "")))).into_iter().collect();
    gate.began().await;
    gate.began().await;
    let third = send(&app, ask("\"c\"", "")).await;
    assert_eq!((third.status.as_u16(), third.code().as_str()), (503, "http.too_many_in_flight"));
    assert_eq!(third.header("retry-after"), Some("1"));
    // What needs no handler has its answer.
    assert_eq!(send(&app, ask("\"a\"", "")).await.code(), "idempotency.in_flight");
    gate.let_go();
    gate.let_go();
    for one in running {
        assert_eq!(within(one).await.unwrap().unwrap().status(), 201);
    }
    assert!(send(&app, ask("\"a\"", "")).await.is_replayed());
    gate.let_go();
    assert_eq!(send(&app, ask("\"c\"", "")).await.status, 201);
}

#[tokio::test]
async fn the_owner_waits_for_all_handlers_and_lets_no_other_begin() {
    let gate = Gate::new();
    let handlers = Handlers::new(8);
    let app = gate.routes(layer().handled_by(&handlers));
    let client = tokio::spawn(app.clone().oneshot(ask("\"a\"", "")));
    gate.began().await;
    let mut finished = Box::pin(handlers.finished());
    assert!(futures_util::poll!(&mut finished).is_pending());
    assert_eq!(send(&app, ask("\"b\"", "")).await.code(), "http.too_many_in_flight");
    gate.let_go();
    within(finished).await;
    assert_eq!((handlers.running(), gate.runs.count()), (0, 1));
    assert_eq!(within(client).await.unwrap().unwrap().status(), 201);
    gate.let_go();
    assert_eq!(send(&app, ask("\"b\"", "")).await.status, 201);
}

#[tokio::test]
async fn a_handler_has_its_lease_and_the_same_key_for_a_provider_at_each_attempt() {
    let attempts = crate::support::Runs::default();
    let handler = move |Extension(lease): Extension<Lease>| {
        let first = attempts.add() == 1;
        async move {
            let status = if first { StatusCode::BAD_GATEWAY } else { StatusCode::CREATED };
            (status, [("x-key", lease.key().as_str().to_owned())], lease.provider_key().to_owned())
        }
    };
    let app = Router::new().route("/pay", post(handler)).layer(layer());
    let first = send(&app, ask("\"k\"", "a")).await;
    let second = send(&app, ask("\"k\"", "a")).await;
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (502, 201));
    assert_eq!(first.header("x-key"), Some("ada:k"));
    assert_eq!((first.text(), first.body.len()), (second.text(), 64));
}

#[tokio::test]
async fn a_request_without_a_key_runs_where_its_client_is() {
    let gate = Gate::new();
    let layer = layer();
    let handlers = layer.handlers().clone();
    let app = gate.routes(layer);
    let client = tokio::spawn(app.clone().oneshot(with(&[], "")));
    gate.began().await;
    assert_eq!(handlers.running(), 0);
    client.abort();
    assert!(within(client).await.unwrap_err().is_cancelled());
}
