//! A resolver is asked about an unknown outcome, by one caller, within a deadline.

use crate::support::{Broken, Calls, DAY, Fault, LEASE, Op, State, World, ms, receipt, secs};
use futures_util::FutureExt;
use hapax_core::{
    Clock, Coded, Span, Timestamp,
    idempotency::{Complete, Completed, IdempotencyStore, Kind, Receipt},
    stable_hash,
};
use hapax_engine::{Idempotency, IdempotencyError, KeyState, Verdict};
use std::{
    convert::Infallible,
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Leaves the key unknown; answers until when, and since.
async fn leave_unknown(world: &World) -> (Timestamp, Timestamp) {
    let since = world.clock.now();
    let left = world.process().run("k", &1, async || Err::<u32, _>(Broken::Unknown)).await;
    assert!(left.unwrap_err().is_unknown());
    tokio::time::sleep(secs(60)).await;
    (world.record("k").await.unwrap().until, since)
}

fn assert_still_unknown(answer: &Result<Result<u32, Broken>, IdempotencyError>, since: Timestamp) {
    let Err(IdempotencyError::Unknown { since: told, replayed: true, .. }) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(*told, since);
}

async fn by_hand(world: &World) -> hapax_core::Version {
    match world.process().get("k").await.unwrap() {
        KeyState::Unknown { version, .. } | KeyState::Done { version, .. } => version,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn what_happened_becomes_the_result() {
    let (world, calls, asked) = (World::new(), Calls::new(), AtomicUsize::new(0));
    let (_, since) = leave_unknown(&world).await;
    let resolver = async || {
        asked.fetch_add(1, Ordering::SeqCst);
        Verdict::Happened(3)
    };
    let call = world.process().run("k", &1, || calls.slow(7)).resolver(resolver).detailed();
    let answer = call.await.unwrap().unwrap();
    let replay = answer.replay.unwrap();
    assert_eq!((answer.value, replay.first_at, replay.completed_at), (3, since, since));
    assert_eq!(replay.expires_at, world.clock.now().after(DAY));
    assert_eq!(receipt(&world.record("k").await.unwrap()), ("json/1".into(), "3".into()));

    let again = world.process().run("k", &1, || calls.slow(7)).resolver(resolver).await;
    assert_eq!((again.unwrap(), asked.load(Ordering::SeqCst), calls.begun()), (Ok(3), 1, 0));
}

#[tokio::test(start_paused = true)]
async fn what_did_not_happen_runs() {
    let (world, calls) = (World::new(), Calls::new());
    leave_unknown(&world).await;
    let call = world.process().run("k", &1, || calls.slow(7)).resolver(async || Verdict::DidNot);
    assert_eq!(call.await.unwrap(), Ok(7));
    assert_eq!((calls.begun(), world.state("k").await), (1, State::Done));
}

#[tokio::test(start_paused = true)]
async fn what_did_not_happen_and_fails_frees_the_key() {
    let (world, calls) = (World::new(), Calls::new());
    leave_unknown(&world).await;
    let effect = || calls.ending(Err(Broken::Failed));
    let call = world.process().run("k", &1, effect).resolver(async || Verdict::DidNot);
    assert_eq!(call.await.unwrap(), Err(Broken::Failed));
    assert_eq!(world.state("k").await, State::Vacant);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_can_tell_stays_unknown_with_its_first_time() {
    let (world, calls) = (World::new(), Calls::new());
    let (until, since) = leave_unknown(&world).await;
    let call = world.process().run("k", &1, || calls.slow(7)).resolver(async || Verdict::CantTell);
    assert_still_unknown(&call.await, since);
    let record = world.record("k").await.unwrap();
    assert_eq!((calls.begun(), record.until), (0, until));
    assert_eq!(receipt(&record).1, "idempotency.unknown");
}

#[tokio::test(start_paused = true)]
async fn resolver_that_hangs_has_half_a_lease() {
    let (world, calls) = (World::new(), Calls::new());
    let (until, since) = leave_unknown(&world).await;
    let started = world.clock.now();
    let call = world.process().run("k", &1, || calls.slow(7)).resolver(std::future::pending);
    assert_still_unknown(&call.await, since);
    assert_eq!(world.clock.now().since(started), LEASE / 2);
    assert_eq!((calls.begun(), world.record("k").await.unwrap().until), (0, until));
}

#[tokio::test(start_paused = true)]
async fn resolver_that_panics_leaves_the_outcome_as_it_was() {
    let (world, calls) = (World::new(), Calls::new());
    let (until, _) = leave_unknown(&world).await;
    let idem = world.process();
    let resolver = async || if world.clock.is_manual() { panic!("a bug") } else { Verdict::CantTell };
    let call = idem.run("k", &1, || calls.slow(7)).resolver(resolver);
    assert!(AssertUnwindSafe(call).catch_unwind().await.is_err());
    assert!(idem.keeper().close(secs(60)).await.is_clean());
    assert_eq!((world.state("k").await, world.record("k").await.unwrap().until), (State::Unknown, until));
}

#[tokio::test(start_paused = true)]
async fn process_that_dies_while_asking_leaves_the_outcome_as_it_was() {
    let (world, calls) = (World::new(), Calls::new());
    let (until, since) = leave_unknown(&world).await;
    let retake = hapax_core::idempotency::Retake {
        name: world.process().name("k").unwrap(),
        token: hapax_core::Token::random().unwrap(),
        fingerprint: stable_hash(&1).unwrap(),
        lease: Span::new(LEASE).unwrap(),
    };
    let _ = world.store.inner().retake_unknown(&retake).await.unwrap();
    assert_eq!(world.state("k").await, State::Pending);
    tokio::time::sleep(LEASE).await;
    assert_still_unknown(&world.process().run("k", &1, || calls.slow(7)).await, since);
    assert_eq!(world.record("k").await.unwrap().until, until);
}

#[tokio::test(start_paused = true)]
async fn one_caller_asks_and_the_others_are_told_that_it_is_in_flight() {
    let (world, calls, asked) = (World::new(), Calls::new(), AtomicUsize::new(0));
    leave_unknown(&world).await;
    let ask = async |idem: Idempotency| {
        let resolver = async || {
            asked.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(secs(1)).await;
            Verdict::Happened(3)
        };
        idem.run("k", &1, || calls.slow(7)).resolver(resolver).await
    };
    let (first, second) = tokio::join!(ask(world.process()), async {
        tokio::time::sleep(ms(1)).await;
        ask(world.process()).await
    });
    assert_eq!((first.unwrap(), asked.load(Ordering::SeqCst)), (Ok(3), 1));
    assert_eq!(second.unwrap_err().code(), "idempotency.in_flight");
    assert_eq!(calls.begun(), 0);
}

#[tokio::test(start_paused = true)]
async fn callers_that_meet_at_the_unknown_record_ask_once() {
    let (world, calls, asked) = (World::new(), Calls::new(), AtomicUsize::new(0));
    leave_unknown(&world).await;
    let ask = async |idem: Idempotency| {
        let resolver = async || {
            asked.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(secs(1)).await;
            Verdict::Happened(3)
        };
        idem.run("k", &1, || calls.slow(7)).resolver(resolver).wait(secs(10)).await
    };
    // Both have read the unknown record before either has taken it.
    world.store.always(Op::Reserve, Fault::AnswersLate(ms(5)));
    let (first, second) = tokio::join!(ask(world.process()), ask(world.process()));
    assert_eq!((first.unwrap(), second.unwrap()), (Ok(3), Ok(3)));
    assert_eq!((asked.load(Ordering::SeqCst), world.store.count(Op::Retake), calls.begun()), (1, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn late_success_outlives_the_verdict_that_it_did_not_happen() {
    let (world, calls) = (World::new(), Calls::new());
    let fingerprint = stable_hash(&1).unwrap();
    // The first owner loses its lease to a second one, which ends unknown.
    let first = world.dead_owner("k", fingerprint, LEASE).await;
    tokio::time::sleep(LEASE).await;
    leave_unknown(&world).await;
    let idem = world.process();
    let late = Complete {
        name: idem.name("k").unwrap(),
        token: first,
        fingerprint,
        kind: Kind::Done,
        receipt: Receipt::new("json/1", "9"),
        ttl: Span::new(DAY).unwrap(),
    };
    let resolver = async || {
        assert_eq!(world.store.inner().complete(&late).await.unwrap(), Completed::StoredLate);
        Verdict::DidNot
    };
    let answer = idem.run("k", &1, || calls.slow(7)).resolver(resolver).detailed().await;
    let answer = answer.unwrap().unwrap();
    assert_eq!((answer.value, answer.replay.is_some(), calls.begun()), (9, true, 0));
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_when_nothing_is_unknown() {
    let (world, calls) = (World::new(), Calls::new());
    let never = async || -> Verdict<u32> { panic!("asked") };
    let idem = world.process();
    assert_eq!(idem.run("k", &1, || calls.slow(7)).resolver(never).await.unwrap(), Ok(7));
    assert_eq!(idem.run("k", &1, || calls.slow(8)).resolver(never).await.unwrap(), Ok(7));
    let other = idem.run("k", &2, || calls.slow(8)).resolver(never).await;
    assert_eq!(other.unwrap_err().code(), "idempotency.key_reused");
}

#[tokio::test(start_paused = true)]
async fn lost_reply_to_the_question_leaves_the_outcome_as_it_was() {
    for fault in [Fault::Refused, Fault::ReplyLost, Fault::HangsAfter, Fault::Panics] {
        let (world, calls) = (World::new(), Calls::new());
        let (until, _) = leave_unknown(&world).await;
        let idem = world.process();
        world.store.next(Op::Retake, fault);
        let call = idem.run("k", &1, || calls.slow(7)).resolver(async || Verdict::DidNot);
        assert_eq!(call.await.unwrap_err().code(), "idempotency.store_failed", "{fault:?}");
        assert!(idem.keeper().close(secs(60)).await.is_clean());
        let record = world.record("k").await.unwrap();
        assert_eq!((calls.begun(), world.state("k").await, record.until), (0, State::Unknown, until));
    }
}

#[tokio::test(start_paused = true)]
async fn store_that_fails_before_the_effect_runs_nothing() {
    for (fault, left) in [(Fault::Refused, State::Unknown), (Fault::ReplyLost, State::Vacant)] {
        let (world, calls) = (World::new(), Calls::new());
        leave_unknown(&world).await;
        let idem = world.process();
        world.store.next(Op::DropUnknown, fault);
        let call = idem.run("k", &1, || calls.slow(7)).resolver(async || Verdict::DidNot);
        assert_eq!(call.await.unwrap_err().code(), "idempotency.store_failed", "{fault:?}");
        assert_eq!((calls.begun(), world.state("k").await), (0, left), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn lease_lost_while_asking_runs_nothing() {
    let (world, calls) = (World::new(), Calls::new());
    let (_, since) = leave_unknown(&world).await;
    let (idem, other) = (world.process(), world.process());
    let resolver = async || {
        other.force_release("k").await.unwrap();
        Verdict::DidNot
    };
    assert_still_unknown(&idem.run("k", &1, || calls.slow(7)).resolver(resolver).await, since);
    assert_eq!((calls.begun(), world.state("k").await), (0, State::Unknown));
}

#[tokio::test(start_paused = true)]
async fn effect_after_a_verdict_can_end_unknown_again() {
    let (world, calls) = (World::new(), Calls::new());
    let (until, _) = leave_unknown(&world).await;
    let effect = || calls.ending(Err(Broken::Unknown));
    let call = world.process().run("k", &1, effect).resolver(async || Verdict::DidNot);
    let error = call.await.unwrap_err();
    assert!(matches!(error, IdempotencyError::Unknown { replayed: false, .. }), "{error:?}");
    assert!(world.record("k").await.unwrap().until > until);
}

#[tokio::test(start_paused = true)]
async fn result_found_by_a_resolver_is_retried_like_any_other() {
    let (world, calls) = (World::new(), Calls::new());
    leave_unknown(&world).await;
    let idem = world.process();
    world.store.next(Op::Complete, Fault::Refused);
    let call = idem.run("k", &1, || calls.slow(7)).resolver(async || Verdict::Happened(3));
    assert_eq!(call.await.unwrap(), Ok(3));
    assert!(idem.keeper().close(secs(60)).await.is_clean());
    assert_eq!(receipt(&world.record("k").await.unwrap()).1, "3");
}

#[tokio::test(start_paused = true)]
async fn verdict_by_hand_that_it_happened_is_the_result() {
    let (world, calls) = (World::new(), Calls::new());
    leave_unknown(&world).await;
    let (idem, version) = (world.process(), by_hand(&world).await);
    idem.resolve("k").version(version).ttl(secs(90)).happened(&3u32).await.unwrap();
    assert_eq!(world.record("k").await.unwrap().until, world.clock.now().after(secs(90)));
    assert_eq!(idem.run("k", &1, || calls.slow(7)).await.unwrap(), Ok(3));
    assert_eq!(calls.begun(), 0);
}

#[tokio::test(start_paused = true)]
async fn verdict_by_hand_that_it_did_not_frees_the_key() {
    let (world, calls) = (World::new(), Calls::new());
    leave_unknown(&world).await;
    world.process().resolve("k").did_not().await.unwrap();
    assert_eq!(world.process().run("k", &1, || calls.slow(7)).await.unwrap(), Ok(7));
}

#[tokio::test(start_paused = true)]
async fn verdict_by_hand_meets_only_what_its_author_saw() {
    let (world, calls) = (World::new(), Calls::new());
    leave_unknown(&world).await;
    let (idem, stale) = (world.process(), by_hand(&world).await);
    idem.resolve("k").did_not().await.unwrap();
    let changed =
        |answer: Result<(), IdempotencyError>| assert_eq!(answer.unwrap_err().code(), "idempotency.changed");
    changed(idem.resolve("k").did_not().await);
    leave_unknown(&world).await;
    changed(idem.resolve("k").version(stale).happened(&3u32).await);
    assert_eq!(world.state("k").await, State::Unknown);
    idem.resolve("k").happened(&3u32).await.unwrap();
    changed(idem.resolve("k").did_not().await);
    changed(idem.resolve("vacant").happened(&3u32).await);
    assert_eq!(idem.run("k", &1, || calls.effect::<Infallible>(7)).await.unwrap(), Ok(3));
}

#[tokio::test(start_paused = true)]
async fn verdict_by_hand_that_the_store_cannot_take_is_an_error() {
    let world = World::new();
    leave_unknown(&world).await;
    for fault in [Fault::Refused, Fault::Hangs] {
        world.store.next(Op::Resolve, fault);
        let error = world.process().resolve("k").did_not().await.unwrap_err();
        assert_eq!((error.code(), world.state("k").await), ("idempotency.store_failed", State::Unknown));
    }
}
