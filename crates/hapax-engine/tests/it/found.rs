//! What is found under a key, and what a call answers: each line of the table is a test.

use crate::support::{Broken, Calls, DAY, Fault, LEASE, Logs, Op, State, World, ms, secs};
use hapax_core::{Category, Clock, Coded, Fingerprint, Retry};
use hapax_engine::{Idempotency, IdempotencyError};
use std::convert::Infallible;
use tracing::Level;

async fn run(idem: &Idempotency, request: u32, calls: &Calls, value: u32) -> Result<u32, IdempotencyError> {
    idem.run("k", &request, || calls.effect::<Infallible>(value)).await.map(|Ok(value)| value)
}

/// Leaves the key unknown.
async fn leave_unknown(idem: &Idempotency, request: u32) {
    let left = idem.run("k", &request, async || Err::<u32, _>(Broken::Unknown)).await;
    assert!(matches!(left, Err(IdempotencyError::Unknown { replayed: false, .. })), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn vacant_key_runs() {
    let (world, calls) = (World::new(), Calls::new());
    assert_eq!(run(&world.process(), 1, &calls, 7).await.unwrap(), 7);
    assert_eq!((calls.begun(), world.state("k").await), (1, State::Done));
    assert_eq!((world.store.count(Op::Reserve), world.store.count(Op::Complete)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn expired_result_is_nothing_whatever_its_fingerprint() {
    let (world, calls) = (World::new(), Calls::new());
    run(&world.process(), 1, &calls, 7).await.unwrap();
    tokio::time::sleep(DAY).await;
    assert_eq!(run(&world.process(), 2, &calls, 8).await.unwrap(), 8);
    assert_eq!(calls.begun(), 2);
}

#[tokio::test(start_paused = true)]
async fn result_answers_until_its_last_moment() {
    let (world, calls) = (World::new(), Calls::new());
    run(&world.process(), 1, &calls, 7).await.unwrap();
    tokio::time::sleep(DAY.saturating_sub(ms(1))).await;
    assert_eq!(run(&world.process(), 1, &calls, 8).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn expired_lease_is_nothing_whatever_its_fingerprint() {
    let (world, calls) = (World::new(), Calls::new());
    world.dead_owner("k", Fingerprint::of_bytes(b"another request"), LEASE).await;
    tokio::time::sleep(LEASE).await;
    assert_eq!(run(&world.process(), 1, &calls, 7).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn expired_unknown_outcome_is_nothing_whatever_its_fingerprint() {
    let (world, calls) = (World::new(), Calls::new());
    leave_unknown(&world.process(), 1).await;
    tokio::time::sleep(DAY).await;
    assert_eq!(run(&world.process(), 2, &calls, 7).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn live_call_of_another_request_is_key_reused() {
    let (world, calls) = (World::new(), Calls::new());
    world.dead_owner("k", Fingerprint::of_bytes(b"another request"), LEASE).await;
    assert_key_reused(&run(&world.process(), 1, &calls, 7).await.unwrap_err());
    assert_eq!((calls.begun(), world.state("k").await), (0, State::Pending));
}

#[tokio::test(start_paused = true)]
async fn result_of_another_request_is_key_reused() {
    let (world, calls) = (World::new(), Calls::new());
    run(&world.process(), 1, &calls, 7).await.unwrap();
    let (logs, _guard) = Logs::capture();
    assert_key_reused(&run(&world.process(), 2, &calls, 8).await.unwrap_err());
    assert_eq!((calls.begun(), world.state("k").await), (1, State::Done));
    assert_eq!(logs.levels("idempotency.key_reused"), [Level::WARN]);
}

#[tokio::test(start_paused = true)]
async fn unknown_outcome_of_another_request_is_key_reused() {
    let (world, calls) = (World::new(), Calls::new());
    leave_unknown(&world.process(), 1).await;
    assert_key_reused(&run(&world.process(), 2, &calls, 7).await.unwrap_err());
    assert_eq!((calls.begun(), world.state("k").await), (0, State::Unknown));
}

fn assert_key_reused(error: &IdempotencyError) {
    assert!(matches!(error, IdempotencyError::KeyReused { .. }), "{error:?}");
    assert_eq!(error.code(), "idempotency.key_reused");
    assert_eq!((error.category(), error.retry()), (Category::Validation, Retry::Never));
}

#[tokio::test(start_paused = true)]
async fn live_call_is_in_flight_for_the_rest_of_its_lease() {
    let (world, calls) = (World::new(), Calls::new());
    let (owner, other, theirs) = (world.process(), world.process(), calls.clone());
    let task = tokio::spawn(async move { owner.run("k", &1, || theirs.forever::<u32, Broken>()).await });
    tokio::time::sleep(secs(5)).await;
    let (logs, _guard) = Logs::capture();
    let error = run(&other, 1, &calls, 7).await.unwrap_err();
    let IdempotencyError::InFlight { retry_after, .. } = &error else { panic!("{error:?}") };
    let rest = LEASE.saturating_sub(secs(5));
    assert_eq!(*retry_after, rest);
    assert_eq!(error.code(), "idempotency.in_flight");
    assert_eq!((error.category(), error.retry()), (Category::Conflict, Retry::After(rest)));
    assert_eq!(logs.levels("idempotency.in_flight"), [Level::INFO]);
    assert_eq!(calls.begun(), 1);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn result_is_replayed_without_a_write() {
    let (world, calls) = (World::new(), Calls::new());
    run(&world.process(), 1, &calls, 7).await.unwrap();
    let before = world.record("k").await.unwrap();
    tokio::time::sleep(secs(3600)).await;

    let (logs, _guard) = Logs::capture();
    let again = world.process().run("k", &1, || calls.effect::<Infallible>(8)).detailed().await;
    let Ok(answer) = again.unwrap();
    let replay = answer.replay.unwrap();
    assert_eq!((answer.value, answer.lost, calls.begun()), (7, None, 1));
    assert_eq!((replay.first_at, replay.expires_at), (before.first_at, before.until));
    assert_eq!(replay.expires_at, replay.completed_at.after(DAY));

    assert_eq!(world.record("k").await.unwrap(), before, "the replay changed the record");
    let writes = [Op::Complete, Op::Release, Op::Extend].map(|op| world.store.count(op));
    assert_eq!(writes, [1, 0, 0]);
    assert!(logs.text().contains("DEBUG") && !logs.text().contains("WARN"), "{}", logs.text());
}

#[tokio::test(start_paused = true)]
async fn unknown_outcome_is_answered_as_an_error() {
    let (world, calls) = (World::new(), Calls::new());
    let since = world.clock.now();
    leave_unknown(&world.process(), 1).await;
    tokio::time::sleep(secs(60)).await;
    let error = run(&world.process(), 1, &calls, 7).await.unwrap_err();
    let IdempotencyError::Unknown { since: told, replayed: true, source: None, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(*told, since);
    assert_eq!(error.code(), "idempotency.unknown");
    assert_eq!((error.category(), error.retry()), (Category::Unknown, Retry::Never));
    assert_eq!((calls.begun(), world.state("k").await), (0, State::Unknown));
}

#[tokio::test(start_paused = true)]
async fn record_of_a_newer_version_is_never_run() {
    let (world, calls) = (World::new(), Calls::new());
    world.store.next(Op::Reserve, Fault::Unreadable);
    let error = run(&world.process(), 1, &calls, 7).await.unwrap_err();
    assert_eq!((error.code(), calls.begun()), ("idempotency.unreadable", 0));
}

#[tokio::test(start_paused = true)]
async fn store_that_refuses_fails_the_call_before_its_effect() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    world.store.next(Op::Reserve, Fault::Refused);
    let (logs, _guard) = Logs::capture();
    let error = run(&idem, 1, &calls, 7).await.unwrap_err();
    assert_eq!((error.code(), error.category()), ("idempotency.store_failed", Category::Unavailable));
    assert_eq!(error.retry(), Retry::OnlyWithSameKey);
    assert_eq!(logs.levels("idempotency.store_failed"), [Level::WARN]);
    assert!(idem.keeper().close(secs(60)).await.is_clean());
    assert_eq!((calls.begun(), world.store.count(Op::Release)), (0, 0));
    assert_eq!(run(&idem, 1, &calls, 7).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn missing_answer_fails_its_call_and_gives_the_key_back() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    world.store.next(Op::Reserve, Fault::Short);
    let answers = idem.run_many([1u32, 2, 3], |n| format!("k{n}"), |n| calls.effect::<Infallible>(n)).await;
    let codes: Vec<_> = answers.iter().map(|answer| answer.as_ref().err().map(Coded::code)).collect();
    assert_eq!(codes, [None, None, Some("idempotency.store_failed")]);
    assert!(idem.keeper().close(secs(60)).await.is_clean());
    assert_eq!((calls.begun(), world.store.count(Op::Release)), (2, 1));
    assert_eq!(world.state("k3").await, State::Vacant);
}
