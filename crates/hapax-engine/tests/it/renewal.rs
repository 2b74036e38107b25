//! A lease is renewed while its effect runs, and a loss is told in time.

use crate::support::{Broken, Calls, Fault, LEASE, Logs, Op, State, World, ms, receipt, secs};
use hapax_core::{Clock, Coded, Timestamp};
use hapax_engine::{Answer, Idempotency, IdempotencyError, Loss};
use std::{convert::Infallible, time::Duration};
use tracing::Level;

/// An effect that runs so long, or until its lease is lost; answers when that was.
async fn until_lost(
    world: &World,
    idem: &Idempotency,
    lease: Duration,
    longest: Duration,
) -> (Result<Answer<u32>, IdempotencyError>, Duration) {
    let (started, clock) = (world.clock.now(), &world.clock);
    let effect = |told: hapax_engine::Lease| async move {
        tokio::select! {
            () = told.lost() => {}
            () = tokio::time::sleep(longest) => {}
        }
        Ok::<_, Infallible>(u32::try_from(clock.now().since(started).as_millis()).unwrap())
    };
    let answer = idem.run_with("k", &1, effect).lease(lease).detailed().await;
    let answer = answer.map(|Ok(answer)| answer);
    let after = answer.as_ref().map_or(Duration::ZERO, |answer| ms(u64::from(answer.value)));
    (answer, after)
}

#[tokio::test(start_paused = true)]
async fn lease_is_renewed_at_each_third() {
    let world = World::new();
    let (answer, _) = until_lost(&world, &world.process(), LEASE, secs(19)).await;
    assert!(answer.is_ok() && world.store.count(Op::Extend) == 0);

    let world = World::new();
    let (answer, ran) = until_lost(&world, &world.process(), LEASE, secs(301)).await;
    assert_eq!((answer.unwrap().lost, ran), (None, secs(301)));
    let renewals = world.store.count(Op::Extend);
    assert!((14..=16).contains(&renewals), "{renewals} renewals in 301 s");
    assert_eq!(world.state("k").await, State::Done);
}

#[tokio::test(start_paused = true)]
async fn renewal_ends_with_the_call() {
    let world = World::new();
    let idem = world.process();
    until_lost(&world, &idem, LEASE, secs(30)).await.0.unwrap();
    let renewals = world.store.count(Op::Extend);
    tokio::time::sleep(secs(600)).await;
    assert_eq!((renewals, world.store.count(Op::Extend)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn leases_that_are_due_together_are_renewed_in_one_call() {
    let world = World::new();
    let idem = world.process();
    let effects = (0..10).map(|i| {
        idem.run(format!("k{i}"), &1, async || {
            tokio::time::sleep(secs(50)).await;
            Ok::<u32, Infallible>(7)
        })
    });
    for answer in futures_util::future::join_all(effects).await {
        answer.unwrap().unwrap();
    }
    assert_eq!(world.store.sizes(Op::Extend), [10, 10]);
}

#[tokio::test(start_paused = true)]
async fn failed_renewals_are_no_loss_and_are_repeated() {
    for fault in [Fault::Refused, Fault::ReplyLost, Fault::Panics, Fault::Short] {
        let world = World::new();
        for _ in 0..3 {
            world.store.next(Op::Extend, fault);
        }
        // Due at 20 s; again each second: 20, 21, 22 fail, 23 does not.
        let (answer, ran) = until_lost(&world, &world.process(), LEASE, secs(24)).await;
        assert_eq!((answer.unwrap().lost, ran), (None, secs(24)), "{fault:?}");
        assert_eq!(world.store.count(Op::Extend), 4, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn renewal_that_hangs_is_given_up_and_repeated() {
    let world = World::new();
    world.store.next(Op::Extend, Fault::Hangs);
    world.store.next(Op::Extend, Fault::HangsAfter);
    // Due at 20 s and given up after 5 s; again after a second, and given up; then renewed from 32 s on.
    let (answer, ran) = until_lost(&world, &world.process(), LEASE, secs(90)).await;
    assert_eq!((answer.unwrap().lost, ran), (None, secs(90)));
    assert_eq!(world.store.count(Op::Extend), 5);
}

#[tokio::test(start_paused = true)]
async fn short_lease_is_repeated_each_tenth() {
    let world = World::new();
    world.store.always(Op::Extend, Fault::Refused);
    let (_, ran) = until_lost(&world, &world.process(), secs(1), secs(10)).await;
    let renewals = world.store.count(Op::Extend);
    // From a third to three quarters of a second.
    assert!((4..=6).contains(&renewals), "{renewals} renewals, lost after {ran:?}");
}

#[tokio::test(start_paused = true)]
async fn lease_that_cannot_be_renewed_is_lost_a_margin_before_its_end() {
    // The margin: a tenth, two seconds at least, a quarter at most.
    let cases = [(60, 54_000), (40, 36_000), (10, 8_000), (4, 3_000), (1, 750)];
    for fault in [Fault::Refused, Fault::Hangs] {
        for (lease, lost_at) in cases {
            let world = World::new();
            world.store.always(Op::Extend, fault);
            let (logs, guard) = Logs::capture();
            let (answer, ran) = until_lost(&world, &world.process(), secs(lease), secs(3600)).await;
            drop(guard);
            let late = ran.saturating_sub(ms(lost_at));
            assert!(ran >= ms(lost_at) && late <= ms(10), "{fault:?}, {lease} s: lost after {ran:?}");
            assert_eq!(answer.unwrap().lost, Some(Loss::Expired));
            assert_eq!(logs.levels("idempotency.lease_lost"), [Level::WARN]);
            assert_eq!(world.state("k").await, State::Done, "the result is kept");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn loss_is_counted_from_before_the_request() {
    let world = World::new();
    world.store.next(Op::Reserve, Fault::AnswersLate(secs(4)));
    world.store.always(Op::Extend, Fault::Refused);
    let (_, ran) = until_lost(&world, &world.process(), LEASE, secs(3600)).await;
    assert!((secs(54)..=secs(54) + ms(10)).contains(&ran), "lost after {ran:?}");

    let world = World::new();
    world.store.next(Op::Extend, Fault::AnswersLate(secs(4)));
    world.store.always(Op::Extend, Fault::Refused);
    let (_, ran) = until_lost(&world, &world.process(), LEASE, secs(3600)).await;
    assert!((secs(73)..=secs(74) + ms(10)).contains(&ran), "renewed at 20 s, lost after {ran:?}");
}

#[tokio::test(start_paused = true)]
async fn lease_taken_by_force_is_told_at_the_next_renewal() {
    let world = World::new();
    let (idem, other) = (world.process(), world.process());
    let (logs, guard) = Logs::capture();
    let (told, ()) = tokio::join!(until_lost(&world, &idem, LEASE, secs(3600)), async {
        tokio::time::sleep(secs(5)).await;
        other.force_release("k").await.unwrap();
    });
    drop(guard);
    assert!((secs(19)..=secs(21)).contains(&told.1), "lost after {:?}", told.1);
    assert_eq!(told.0.unwrap().lost, Some(Loss::Fenced));
    assert_eq!(logs.levels("idempotency.fenced"), [Level::WARN]);
    assert_eq!(world.state("k").await, State::Done, "nobody else holds the key: the result counts");
}

#[tokio::test(start_paused = true)]
async fn ceiling_ends_the_renewal_and_is_told_before_the_lease_ends() {
    let world = World::new();
    let idem = world.process().with_ceiling(secs(100));
    let (logs, guard) = Logs::capture();
    let effect = |lease: hapax_engine::Lease| {
        let world = &world;
        async move {
            lease.lost().await;
            let (at, renewals) = (world.clock.now(), world.store.count(Op::Extend));
            assert_eq!((lease.loss(), world.state("k").await), (Some(Loss::Ceiling), State::Pending));
            tokio::time::sleep(secs(61)).await;
            assert_eq!(world.store.count(Op::Extend), renewals);
            assert_eq!(world.state("k").await, State::Vacant, "the lease has passed");
            Ok::<Timestamp, Infallible>(at)
        }
    };
    let started = world.clock.now();
    let codec = idem.with_codec(Instant);
    let answer = codec.run_with("k", &1, effect).detailed().await.unwrap().unwrap();
    drop(guard);
    let told = answer.value.since(started);
    assert!((secs(100)..=secs(100) + ms(10)).contains(&told), "told after {told:?}");
    assert_eq!(logs.levels("idempotency.lease_ceiling"), [Level::WARN]);
    assert_eq!((answer.lost, world.state("k").await), (Some(Loss::Ceiling), State::Done));
}

#[derive(Clone)]
struct Instant;

impl hapax_engine::Codec<Timestamp> for Instant {
    const NAME: &'static str = "instant/1";
    fn encode(&self, value: &Timestamp) -> Result<bytes::Bytes, hapax_core::BoxError> {
        Ok(value.as_millis().to_string().into())
    }
    fn decode(&self, bytes: &[u8]) -> Result<Timestamp, hapax_core::BoxError> {
        Ok(Timestamp::from_millis(std::str::from_utf8(bytes)?.parse()?))
    }
}

#[tokio::test(start_paused = true)]
async fn call_that_hangs_holds_up_no_other_lease() {
    let world = World::new();
    let idem = world.process();
    // The renewal of the long lease hangs for 5 s, from 20 s on. A short lease begins in between.
    world.store.next(Op::Extend, Fault::Hangs);
    let long = idem.run("long", &1, async || {
        tokio::time::sleep(secs(30)).await;
        Ok::<_, Infallible>(1)
    });
    let short = async {
        tokio::time::sleep(secs(20) + ms(100)).await;
        assert_eq!(world.store.count(Op::Extend), 1, "the long lease is not being renewed");
        let (answer, ran) = until_lost(&world, &idem, secs(1), secs(4)).await;
        assert_eq!((answer.unwrap().lost, ran), (None, secs(4)));
    };
    let (long, ()) = tokio::join!(long.detailed(), short);
    assert_eq!(long.unwrap().unwrap().lost, None);
}

#[tokio::test(start_paused = true)]
async fn result_that_comes_after_its_lease_is_kept_beside_the_next_owner() {
    for next_owner_succeeds in [true, false] {
        let (world, calls) = (World::new(), Calls::new());
        let (first, second) = (world.process(), world.process());
        world.store.always(Op::Extend, Fault::Refused);
        let effect = async || {
            tokio::time::sleep(LEASE + secs(1)).await;
            calls.effect::<Infallible>(7).await
        };
        let next = async {
            tokio::time::sleep(LEASE).await;
            let end = if next_owner_succeeds { Ok(8) } else { Err(Broken::Failed) };
            let effect = || async {
                tokio::time::sleep(secs(5)).await;
                calls.ending(end).await
            };
            assert_eq!(second.run("k", &1, effect).await.unwrap(), end);
        };
        let (logs, guard) = Logs::capture();
        let (answer, ()) = tokio::join!(first.run("k", &1, effect).detailed(), next);
        drop(guard);
        let answer = answer.unwrap().unwrap();
        assert_eq!((answer.value, answer.lost, answer.replay), (7, Some(Loss::Expired), None));
        assert!(logs.text().contains("kept beside"), "{}", logs.text());
        let kept = if next_owner_succeeds { "8" } else { "7" };
        assert_eq!(receipt(&world.record("k").await.unwrap()).1, kept);
        assert_eq!(calls.begun(), 2);
        let third = world.process().run("k", &1, || calls.slow(9)).await.unwrap().unwrap();
        assert_eq!((third.to_string().as_str(), calls.begun()), (kept, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn loss_that_only_the_completion_finds_is_told() {
    let (world, calls) = (World::new(), Calls::new());
    let (first, second) = (world.process(), world.process());
    let effect = async || {
        second.force_release("k").await.unwrap();
        let theirs = second.run("k", &1, || calls.effect::<Infallible>(8)).await;
        assert_eq!(theirs.unwrap(), Ok(8));
        calls.effect::<Infallible>(7).await
    };
    let answer = first.run("k", &1, effect).detailed().await.unwrap().unwrap();
    assert_eq!((answer.value, answer.lost), (7, Some(Loss::Fenced)));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_when_the_effect_has_ended() {
    let world = World::new();
    let idem = world.process();
    // A renewal is due while the completion is under way, and finds the key done.
    world.store.next(Op::Complete, Fault::AnswersLate(secs(4)));
    let (logs, guard) = Logs::capture();
    let (answer, _) = until_lost(&world, &idem, LEASE, secs(19)).await;
    drop(guard);
    assert_eq!((answer.unwrap().lost, world.store.count(Op::Extend)), (None, 1));
    assert!(!logs.text().contains("WARN"), "{}", logs.text());
}

#[tokio::test(start_paused = true)]
async fn deadline_moves_with_the_renewals() {
    let world = World::new();
    let effect = |lease: hapax_engine::Lease| async move {
        let first = lease.deadline();
        tokio::time::sleep(secs(21)).await;
        Ok::<_, Infallible>(u32::try_from((lease.deadline() - first).as_secs()).unwrap())
    };
    let moved = world.process().run_with("k", &1, effect).await.unwrap().unwrap();
    assert!((19..=21).contains(&moved), "{moved} s");
}

#[tokio::test(start_paused = true)]
async fn grant_with_too_little_left_is_extended_once_before_the_effect() {
    let (world, calls) = (World::new(), Calls::new());
    world.store.next(Op::Reserve, Fault::Suspends(secs(31)));
    let ran = world.process().run("k", &1, || calls.effect::<Infallible>(7)).await;
    assert_eq!((ran.unwrap(), world.store.count(Op::Extend)), (Ok(7), 1));

    let (world, calls) = (World::new(), Calls::new());
    world.store.next(Op::Reserve, Fault::Suspends(secs(29)));
    let ran = world.process().run("k", &1, || calls.effect::<Infallible>(7)).await;
    assert_eq!((ran.unwrap(), world.store.count(Op::Extend)), (Ok(7), 0), "half was left");
}

#[tokio::test(start_paused = true)]
async fn grant_that_cannot_be_extended_is_given_back() {
    for (suspended, fault) in [(31, Some(Fault::Refused)), (31, Some(Fault::Hangs)), (61, None)] {
        let (world, calls) = (World::new(), Calls::new());
        let idem = world.process();
        world.store.next(Op::Reserve, Fault::Suspends(secs(suspended)));
        if let Some(fault) = fault {
            world.store.always(Op::Extend, fault);
        }
        let error = idem.run("k", &1, || calls.effect::<Infallible>(7)).await.unwrap_err();
        assert_eq!((error.code(), calls.begun()), ("idempotency.store_failed", 0));
        assert_eq!((world.store.count(Op::Extend), world.store.count(Op::Release)), (1, 1));
        assert_eq!(world.state("k").await, State::Vacant);
    }
}

#[tokio::test(start_paused = true)]
async fn lease_lost_before_its_turn_in_a_batch_runs_nothing() {
    let (world, calls) = (World::new(), Calls::new());
    let (idem, other) = (world.process(), world.process());
    let effect = |i: u32| {
        let calls = calls.clone();
        async move {
            // The loss is found at 20 s; more than half of the lease that was granted is left when the turn comes.
            tokio::time::sleep(secs(25)).await;
            calls.effect::<Infallible>(i).await
        }
    };
    let batch = idem.run_many([1, 2], |i| format!("k{i}"), effect).concurrency(1);
    let (answers, ()) = tokio::join!(batch.into_future(), async {
        tokio::time::sleep(secs(5)).await;
        other.force_release("k2").await.unwrap();
    });
    assert_eq!(answers[0].as_ref().unwrap(), &Ok(1));
    assert_eq!(answers[1].as_ref().unwrap_err().code(), "idempotency.store_failed");
    assert_eq!(calls.begun(), 1);
}

#[tokio::test(start_paused = true)]
async fn provider_key_is_stable_and_hides_the_key() {
    let world = World::new();
    let told = async |idem: &Idempotency, key: &str| {
        let effect = |lease: hapax_engine::Lease| async move {
            assert!(!lease.key().as_str().is_empty());
            Err::<u32, _>(if lease.provider_key().len() == 64 {
                lease.provider_key().to_owned()
            } else {
                String::new()
            })
        };
        let call = idem.run_with(key, &1, move |lease| hapax_engine::EffectExt::never_unknown(effect(lease)));
        call.await.unwrap().unwrap_err()
    };
    let first = told(&world.process(), "ada@example.com").await;
    assert_eq!(first.len(), 64);
    assert_eq!(first, told(&world.process(), "ada@example.com").await);
    assert_ne!(first, told(&world.process(), "bob@example.com").await);
    assert_ne!(first, told(&world.process().with_namespace("other"), "ada@example.com").await);
    assert!(!first.contains("ada"));
}
