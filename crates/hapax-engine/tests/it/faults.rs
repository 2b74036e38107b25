//! The store fails before, during (the reply is lost) and after a step.

use crate::support::{Broken, Calls, Fault, LEASE, Logs, Op, State, World, ms, receipt, secs, until};
use hapax_core::{Clock, Coded, idempotency::IdempotencyStore};
use hapax_engine::{Idempotency, IdempotencyError};
use std::convert::Infallible;
use tracing::Level;

/// Each way in which a step can end badly, and whether it was applied.
const FAULTS: [(Fault, bool); 6] = [
    (Fault::Refused, false),
    (Fault::Missed, false),
    (Fault::Hangs, false),
    (Fault::Panics, false),
    (Fault::ReplyLost, true),
    (Fault::HangsAfter, true),
];

async fn run(idem: &Idempotency, calls: &Calls) -> Result<u32, IdempotencyError> {
    idem.run("k", &1, || calls.effect::<Infallible>(7)).await.map(|Ok(value)| value)
}

async fn close(idem: &Idempotency) {
    let closed = idem.keeper().close(secs(600)).await;
    assert!(closed.is_clean(), "{closed:?}");
}

#[tokio::test(start_paused = true)]
async fn failed_reserve_runs_nothing_and_leaves_the_key_free() {
    for (fault, applied) in FAULTS {
        let (world, calls) = (World::new(), Calls::new());
        let idem = world.process();
        world.store.next(Op::Reserve, fault);
        let error = run(&idem, &calls).await.unwrap_err();
        assert_eq!((error.code(), calls.begun()), ("idempotency.store_failed", 0), "{fault:?}");
        assert_eq!(world.record("k").await.is_some(), applied, "{fault:?}");
        close(&idem).await;
        assert_eq!(world.state("k").await, State::Vacant, "{fault:?}");
        // What certainly did not happen needs no giving back.
        let given_back = usize::from(!matches!(fault, Fault::Refused));
        assert_eq!(world.store.count(Op::Release), given_back, "{fault:?}");
        assert_eq!(run(&idem, &calls).await.unwrap(), 7, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn store_that_hangs_is_left_after_a_quarter_of_the_lease() {
    for (lease, limit) in [(secs(60), secs(5)), (secs(2), ms(500))] {
        let (world, calls) = (World::new(), Calls::new());
        world.store.next(Op::Reserve, Fault::Hangs);
        let started = world.clock.now();
        let call = world.process().run("k", &1, || calls.effect::<Infallible>(7)).lease(lease);
        assert_eq!(call.await.unwrap_err().code(), "idempotency.store_failed");
        assert_eq!(world.clock.now().since(started), limit);
    }
}

#[tokio::test(start_paused = true)]
async fn giving_back_is_retried_while_the_store_is_down() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    world.store.next(Op::Reserve, Fault::ReplyLost);
    world.store.always(Op::Release, Fault::Refused);
    run(&idem, &calls).await.unwrap_err();
    until("some attempts", async || world.store.count(Op::Release) > 3).await;
    assert_eq!(world.state("k").await, State::Pending);
    assert_eq!(idem.keeper().close(ms(1)).await.unreleased, 1);
    world.store.heal();
    close(&idem).await;
    assert_eq!(world.state("k").await, State::Vacant);
}

#[tokio::test(start_paused = true)]
async fn giving_back_ends_with_the_lease() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    world.store.next(Op::Reserve, Fault::ReplyLost);
    world.store.always(Op::Release, Fault::Refused);
    run(&idem, &calls).await.unwrap_err();
    let (started, closed) = (world.clock.now(), idem.keeper().close(secs(600)).await);
    assert!(closed.is_clean() && world.clock.now().since(started) <= LEASE);
    tokio::time::sleep(LEASE).await;
    assert_eq!(run(&idem, &calls).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn failed_completion_keeps_the_value_and_is_retried() {
    for (fault, applied) in FAULTS {
        let (world, calls) = (World::new(), Calls::new());
        let idem = world.process();
        world.store.next(Op::Complete, fault);
        let (logs, guard) = Logs::capture();
        assert_eq!(run(&idem, &calls).await.unwrap(), 7, "{fault:?}");
        drop(guard);
        assert_eq!(logs.levels("idempotency.complete_failed"), [Level::WARN], "{fault:?}");
        let state = if applied { State::Done } else { State::Pending };
        assert_eq!(world.state("k").await, state, "{fault:?}");
        close(&idem).await;
        assert_eq!(receipt(&world.record("k").await.unwrap()), ("json/1".into(), "7".into()), "{fault:?}");
        assert_eq!(run(&world.process(), &calls).await.unwrap(), 7);
        assert_eq!(calls.begun(), 1, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn result_on_its_way_answers_calls_of_this_process() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    world.store.always(Op::Complete, Fault::Refused);
    assert_eq!(run(&idem, &calls).await.unwrap(), 7);
    let reserves = world.store.count(Op::Reserve);

    let again = idem.run("k", &1, || calls.effect::<Infallible>(8)).detailed().await.unwrap().unwrap();
    assert!(again.value == 7 && again.replay.is_some());
    let other = idem.run("k", &2, || calls.effect::<Infallible>(8)).await.unwrap_err();
    assert_eq!(other.code(), "idempotency.key_reused");
    let batch = idem.run_many([1], |_| "k", |_| calls.effect::<Infallible>(8)).await;
    assert_eq!(batch[0].as_ref().unwrap(), &Ok(7));
    assert!(matches!(idem.get("k").await, Ok(hapax_engine::KeyState::Done { .. })));
    assert_eq!((world.store.count(Op::Reserve) - reserves, calls.begun()), (0, 1));

    let elsewhere = run(&world.process(), &calls).await.unwrap_err();
    assert_eq!(elsewhere.code(), "idempotency.in_flight");
}

#[tokio::test(start_paused = true)]
async fn unknown_outcome_on_its_way_answers_too() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    world.store.always(Op::Complete, Fault::Refused);
    assert!(idem.run("k", &1, || calls.ending(Err(Broken::Unknown))).await.unwrap_err().is_unknown());
    let error = idem.run("k", &1, || calls.slow(7)).await.unwrap_err();
    assert!(matches!(error, IdempotencyError::Unknown { replayed: true, .. }), "{error:?}");
    world.store.heal();
    close(&idem).await;
    assert_eq!((world.state("k").await, calls.begun()), (State::Unknown, 1));
}

#[tokio::test(start_paused = true)]
async fn lease_is_renewed_while_a_result_waits() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    world.store.always(Op::Complete, Fault::Refused);
    assert_eq!(run(&idem, &calls).await.unwrap(), 7);
    tokio::time::sleep(LEASE * 5).await;
    assert_eq!(run(&world.process(), &calls).await.unwrap_err().code(), "idempotency.in_flight");
    world.store.heal();
    close(&idem).await;
    assert_eq!((world.state("k").await, calls.begun()), (State::Done, 1));
}

#[tokio::test(start_paused = true)]
async fn close_says_what_could_not_be_stored() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    world.store.always(Op::Complete, Fault::Hangs);
    world.store.always(Op::Release, Fault::Refused);
    for key in ["a", "b"] {
        idem.run(key, &1, || calls.effect::<Infallible>(7)).await.unwrap().unwrap();
    }
    idem.run("c", &1, || calls.ending(Err(Broken::Failed))).await.unwrap().unwrap_err();
    let started = world.clock.now();
    let closed = idem.keeper().close(secs(5)).await;
    assert_eq!((closed.unstored, closed.unreleased), (2, 1));
    assert_eq!(world.clock.now().since(started), secs(5));
    world.store.heal();
    close(&idem).await;
    assert_eq!(calls.begun(), 3);
}

#[tokio::test(start_paused = true)]
async fn close_without_a_limit_of_its_own_is_no_overflow() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    world.store.next(Op::Complete, Fault::Refused);
    run(&idem, &calls).await.unwrap();
    assert!(idem.keeper().close(std::time::Duration::MAX).await.is_clean());
}

#[tokio::test(start_paused = true)]
async fn result_whose_time_is_over_is_given_up_and_reported() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    world.store.always(Op::Complete, Fault::Refused);
    let call = idem.run("k", &1, || calls.effect::<Infallible>(7)).ttl(secs(90));
    call.await.unwrap().unwrap();
    let (logs, guard) = Logs::capture();
    let closed = idem.keeper().close(secs(6000)).await;
    drop(guard);
    assert_eq!(closed.unstored, 1);
    assert_eq!(logs.levels("idempotency.complete_failed"), [Level::ERROR]);
    let attempts = world.store.count(Op::Complete);
    tokio::time::sleep(secs(600)).await;
    assert_eq!(world.store.count(Op::Complete), attempts, "it still tries");
    assert_eq!(world.state("k").await, State::Vacant, "the lease is still renewed");
}

#[tokio::test(start_paused = true)]
async fn failed_release_is_retried_and_the_failure_is_the_effects_own() {
    for (fault, applied) in FAULTS {
        let (world, calls) = (World::new(), Calls::new());
        let idem = world.process();
        world.store.next(Op::Release, fault);
        let failed = idem.run("k", &1, || calls.ending(Err(Broken::Failed))).await;
        assert_eq!(failed.unwrap(), Err(Broken::Failed), "{fault:?}");
        let state = if applied { State::Vacant } else { State::Pending };
        assert_eq!(world.state("k").await, state, "{fault:?}");
        close(&idem).await;
        assert_eq!(world.state("k").await, State::Vacant, "{fault:?}");
        assert_eq!(world.store.count(Op::Release), 2, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn key_is_not_renewed_once_its_release_is_under_way() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    // Due to be renewed at 20 s, while the store is asked to free it.
    world.store.always(Op::Release, Fault::Hangs);
    let effect = async || {
        tokio::time::sleep(secs(18)).await;
        calls.ending(Err(Broken::Failed)).await
    };
    idem.run("k", &1, effect).await.unwrap().unwrap_err();
    tokio::time::sleep(LEASE).await;
    assert_eq!((world.store.count(Op::Extend), world.state("k").await), (0, State::Vacant));
}

#[tokio::test(start_paused = true)]
async fn result_that_is_stored_while_its_answer_is_lost_is_stored_once() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    world.store.next(Op::Complete, Fault::ReplyLost);
    run(&idem, &calls).await.unwrap();
    let record = world.record("k").await.unwrap();
    tokio::time::sleep(secs(10)).await;
    close(&idem).await;
    assert_eq!(world.record("k").await.unwrap(), record, "its time began anew");
}

#[tokio::test(start_paused = true)]
async fn result_that_meets_another_owners_result_is_told_and_counted() {
    let (world, calls) = (World::new(), Calls::new());
    let (first, second) = (world.process(), world.process());
    // The first loses its lease to the second, which completes before the first does.
    world.store.always(Op::Extend, Fault::Refused);
    let effect = async || {
        tokio::time::sleep(LEASE).await;
        assert_eq!(run(&second, &calls).await.unwrap(), 7);
        calls.effect::<Infallible>(8).await
    };
    let (logs, guard) = Logs::capture();
    let answer = first.run("k", &1, effect).detailed().await.unwrap().unwrap();
    drop(guard);
    assert_eq!((answer.value, answer.replay.is_some(), answer.lost.is_some()), (8, false, true));
    assert_eq!(logs.levels("idempotency.duplicate_effect"), [Level::WARN]);
    assert_eq!(receipt(&world.record("k").await.unwrap()).1, "7");
}

#[tokio::test(start_paused = true)]
async fn two_results_of_one_key_are_both_retried() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    world.store.always(Op::Complete, Fault::Refused);
    world.store.always(Op::Extend, Fault::Refused);
    // The lease of a success passes before it could be stored; an effect under the next one ends unknown.
    let outer = async || {
        tokio::time::sleep(LEASE).await;
        let inner = idem.run("k", &1, || calls.ending(Err(Broken::Unknown))).await;
        assert!(inner.unwrap_err().is_unknown());
        calls.effect::<Infallible>(7).await
    };
    assert_eq!(idem.run("k", &1, outer).await.unwrap(), Ok(7));
    assert_eq!(idem.keeper().close(ms(1)).await.unstored, 2);
    assert_eq!(run(&idem, &calls).await.unwrap(), 7, "the success is what the key says");
    world.store.heal();
    close(&idem).await;
    assert_eq!(receipt(&world.record("k").await.unwrap()).1, "7");
}

#[tokio::test(start_paused = true)]
async fn open_call_runs_when_the_store_is_down() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    world.store.always(Op::Reserve, Fault::Refused);
    let call = idem.run_with("k", &1, |lease| {
        assert!(!lease.is_lost());
        calls.effect::<Infallible>(7)
    });
    let answer = call.run_when_store_is_down().detailed().await.unwrap().unwrap();
    assert_eq!((answer.value, answer.replay), (7, None));
    assert_eq!((world.store.count(Op::Complete), world.state("k").await), (0, State::Vacant));
}

#[tokio::test(start_paused = true)]
async fn open_call_still_tells_failed_from_unknown() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    world.store.always(Op::Reserve, Fault::Refused);
    let failed = idem.run("k", &1, || calls.ending(Err(Broken::Failed))).run_when_store_is_down().await;
    assert_eq!(failed.unwrap(), Err(Broken::Failed));
    let unknown = idem.run("k", &1, || calls.ending(Err(Broken::Unknown))).run_when_store_is_down().await;
    assert!(unknown.unwrap_err().is_unknown());
    let forever = idem.run("k", &1, || calls.forever::<u32, Broken>()).timeout(secs(1));
    assert!(forever.run_when_store_is_down().await.unwrap_err().is_unknown());
}

#[tokio::test(start_paused = true)]
async fn open_call_that_is_detached_goes_on_too() {
    let (world, calls) = (World::new(), Calls::new());
    world.store.always(Op::Reserve, Fault::Refused);
    let theirs = calls.clone();
    let effect = move || async move {
        theirs.slow(7).await?;
        tokio::time::sleep(secs(5)).await;
        theirs.slow(8).await
    };
    let call = world.process().run("k", &1, effect).run_when_store_is_down().detached();
    assert!(tokio::time::timeout(secs(1), call).await.is_err());
    tokio::time::sleep(secs(5)).await;
    assert_eq!(calls.ended(), 2);
}

#[tokio::test(start_paused = true)]
async fn open_call_does_not_open_for_a_key_in_use() {
    let (world, calls) = (World::new(), Calls::new());
    world.dead_owner("k", hapax_core::stable_hash(&1).unwrap(), LEASE).await;
    let call = world.process().run("k", &1, || calls.effect::<Infallible>(7)).run_when_store_is_down();
    assert_eq!(call.await.unwrap_err().code(), "idempotency.in_flight");
}

#[tokio::test(start_paused = true)]
async fn store_is_asked_once_per_step_of_a_call() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    run(&idem, &calls).await.unwrap();
    run(&idem, &calls).await.unwrap();
    let trips =
        [Op::Reserve, Op::Complete, Op::Release, Op::Extend, Op::Read].map(|op| world.store.count(op));
    assert_eq!(trips, [2, 1, 0, 0, 0]);
    assert_eq!(world.store.inner().len(), 1);
    let name = idem.name("k").unwrap();
    assert!(world.store.inner().read(&name).await.unwrap().is_some());
}
