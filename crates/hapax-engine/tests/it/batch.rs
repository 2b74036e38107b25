//! Many calls at once.

use crate::support::{Broken, Calls, Fault, Op, State, World, ms, secs};
use futures_util::FutureExt;
use hapax_core::{Clock, Coded};
use hapax_engine::{IdempotencyError, Verdict};
use std::{
    convert::Infallible,
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

type Answers<E = Broken> = Vec<Result<Result<u32, E>, IdempotencyError>>;

/// Each answer in a word: the value, the effect's own error, or the code.
fn words(answers: &Answers) -> Vec<String> {
    let word = |answer: &Result<Result<u32, Broken>, IdempotencyError>| match answer {
        Ok(Ok(value)) => value.to_string(),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.code().trim_start_matches("idempotency.").to_owned(),
    };
    answers.iter().map(word).collect()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what `run_many` asks for")]
fn key(i: &u32) -> String {
    format!("k{i}")
}

/// An item whose key is not all of it.
#[derive(Clone, serde::Serialize)]
struct Item {
    key: &'static str,
    value: u32,
}

fn items<const N: usize>(items: [(&'static str, u32); N]) -> [Item; N] {
    items.map(|(key, value)| Item { key, value })
}

#[tokio::test(start_paused = true)]
async fn answers_come_in_the_order_of_the_items() {
    let world = World::new();
    let effect = async |i: u32| {
        tokio::time::sleep(secs(u64::from(20 - i))).await;
        Ok::<_, Infallible>(i)
    };
    let answers = world.process().run_many(0..20u32, key, effect).concurrency(7).await;
    let values: Vec<u32> = answers.into_iter().map(|answer| answer.unwrap().unwrap()).collect();
    assert_eq!(values, (0..20).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn empty_batch_asks_nothing() {
    let (world, calls) = (World::new(), Calls::new());
    let answers = world.process().run_many([], key, |i| calls.slow(i)).await;
    assert_eq!((answers.len(), world.store.count(Op::Reserve)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn keys_are_reserved_ahead_in_steps_of_64() {
    let (world, calls) = (World::new(), Calls::new());
    let answers = world.process().run_many(0..150u32, key, |i| calls.slow(i)).await;
    assert_eq!((answers.len(), calls.ended()), (150, 150));
    assert_eq!(world.store.sizes(Op::Reserve), [64, 64, 22]);
}

#[tokio::test(start_paused = true)]
async fn copy_gets_the_value_of_the_first() {
    let (world, calls) = (World::new(), Calls::new());
    let batch = items([("a", 1), ("b", 2), ("a", 1), ("a", 1)]);
    let answers = world.process().run_many(batch, |i| i.key, |i| calls.slow(i.value)).await;
    assert_eq!(words(&answers), ["1", "2", "1", "1"]);
    assert_eq!(calls.begun(), 2);
}

#[tokio::test(start_paused = true)]
async fn copy_with_another_fingerprint_is_key_reused() {
    let (world, calls) = (World::new(), Calls::new());
    let batch = items([("a", 1), ("a", 2), ("a", 1)]);
    let answers = world.process().run_many(batch, |i| i.key, |i| calls.slow(i.value)).await;
    assert_eq!(words(&answers), ["1", "key_reused", "1"]);
    assert_eq!(calls.begun(), 1);
}

#[tokio::test(start_paused = true)]
async fn copy_hears_what_became_of_the_first() {
    let (world, calls) = (World::new(), Calls::new());
    world.dead_owner("busy", hapax_core::stable_hash(&items([("busy", 1)])[0]).unwrap(), secs(60)).await;
    let effect =
        |i: Item| calls.ending(if i.key == "failed" { Err(Broken::Failed) } else { Err(Broken::Unknown) });
    let batch =
        items([("failed", 1), ("failed", 1), ("unknown", 1), ("unknown", 1), ("busy", 1), ("busy", 1)]);
    let answers = world.process().run_many(batch, |i| i.key, effect).await;
    let expected = ["it failed", "copy_failed", "unknown", "unknown", "in_flight", "in_flight"];
    assert_eq!(words(&answers), expected);
    let replayed = |i: usize| matches!(answers[i], Err(IdempotencyError::Unknown { replayed: true, .. }));
    assert_eq!((replayed(2), replayed(3), calls.begun()), (false, true, 2));
    assert_eq!(world.state("failed").await, State::Vacant);
}

#[tokio::test(start_paused = true)]
async fn earlier_outcomes_are_replayed() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    let effect = |i: u32| calls.ending(if i == 1 { Err(Broken::Unknown) } else { Ok(i) });
    idem.run_many([0u32, 1], key, effect).await;
    let answers = idem.run_many([0u32, 1, 2], key, |i| calls.slow(10 + i)).await;
    assert_eq!((words(&answers), calls.begun()), (vec!["0".into(), "unknown".into(), "12".into()], 3));
}

#[tokio::test(start_paused = true)]
async fn so_many_effects_run_at_a_time() {
    let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let effect = async |i: u32| {
        most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::time::sleep(ms(10)).await;
        running.fetch_sub(1, Ordering::SeqCst);
        Ok::<_, Broken>(i)
    };
    for (asked, most_at_once) in [(None, 8), (Some(3), 3), (Some(0), 1), (Some(100), 100)] {
        let world = World::new();
        most.store(0, Ordering::SeqCst);
        let batch = world.process().run_many(0..100u32, key, effect);
        let batch = if let Some(n) = asked { batch.concurrency(n) } else { batch };
        assert_eq!(batch.await.len(), 100);
        assert_eq!(most.load(Ordering::SeqCst), most_at_once, "{asked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn slow_item_holds_up_no_other() {
    let world = World::new();
    let started = world.clock.now();
    let effect = async |i: u32| {
        tokio::time::sleep(if i == 0 { secs(100) } else { secs(1) }).await;
        Ok::<_, Broken>(i)
    };
    let batch = world.process().run_many(0..90u32, key, effect).concurrency(2);
    assert_eq!(batch.await.len(), 90);
    assert_eq!(world.clock.now().since(started), secs(100));
}

#[tokio::test(start_paused = true)]
async fn receipt_is_kept_as_soon_as_it_is_known() {
    let world = World::new();
    let effect = async |i: u32| {
        tokio::time::sleep(secs(u64::from(i))).await;
        Ok::<_, Broken>(i)
    };
    let idem = world.process();
    let batch = idem.run_many([1u32, 10], key, effect);
    tokio::join!(batch.into_future(), async {
        tokio::time::sleep(secs(1) + ms(1)).await;
        assert_eq!((world.state("k1").await, world.state("k10").await), (State::Done, State::Pending));
    });
}

#[tokio::test(start_paused = true)]
async fn invalid_item_spoils_only_itself() {
    let (world, calls) = (World::new(), Calls::new());
    let batch = items([("a", 1), ("", 2), ("b", 3)]);
    let answers = world.process().run_many(batch, |i| i.key, |i| calls.slow(i.value)).await;
    assert_eq!(words(&answers), ["1", "invalid", "3"]);
    let answers = world.process().run_many([1.0, f64::NAN], |f| format!("f{f}"), |_| calls.slow(1)).await;
    assert_eq!(words(&answers), ["1", "invalid"]);
}

#[tokio::test(start_paused = true)]
async fn invalid_settings_spoil_every_item() {
    let (world, calls) = (World::new(), Calls::new());
    let batch = || world.process().run_many([1u32, 1, 2], key, |i| calls.slow(i));
    assert_eq!(words(&batch().lease(ms(999)).await), ["invalid"; 3]);
    assert_eq!(words(&batch().ttl(Duration::ZERO).await), ["invalid"; 3]);
    assert_eq!((calls.begun(), world.store.count(Op::Reserve)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn store_that_fails_runs_nothing_and_is_asked_again_for_the_next_step() {
    for fault in [Fault::Refused, Fault::ReplyLost, Fault::Hangs, Fault::Panics] {
        let (world, calls) = (World::new(), Calls::new());
        let idem = world.process();
        world.store.next(Op::Reserve, fault);
        let answers = words(&idem.run_many(0..70u32, key, |i| calls.slow(i)).await);
        assert!(answers[..64].iter().all(|word| word == "store_failed"), "{fault:?}: {answers:?}");
        assert_eq!((answers[64].as_str(), calls.begun()), ("64", 6), "{fault:?}");
        assert!(idem.keeper().close(secs(60)).await.is_clean());
        assert_eq!(world.state("k0").await, State::Vacant, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn failed_completion_of_an_item_is_retried() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    world.store.always(Op::Complete, Fault::Refused);
    assert_eq!(words(&idem.run_many([1u32, 2], key, |i| calls.slow(i)).await), ["1", "2"]);
    assert_eq!(words(&idem.run_many([1u32, 2], key, |i| calls.slow(10 + i)).await), ["1", "2"]);
    world.store.heal();
    assert!(idem.keeper().close(secs(60)).await.is_clean());
    assert_eq!(
        (world.state("k1").await, world.state("k2").await, calls.begun()),
        (State::Done, State::Done, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn effect_that_panics_cuts_no_other_off() {
    let (world, calls) = (World::new(), Calls::new());
    let effect = async |i: u32| {
        tokio::time::sleep(secs(u64::from(i))).await;
        assert_ne!(i, 1, "a bug in the effect");
        calls.slow(i).await
    };
    let idem = world.process();
    let batch = idem.run_many([1u32, 5, 6], key, effect).concurrency(2);
    assert!(AssertUnwindSafe(batch.into_future()).catch_unwind().await.is_err());
    let states = [world.state("k1").await, world.state("k5").await, world.state("k6").await];
    assert_eq!((states, calls.ended()), ([State::Unknown, State::Done, State::Done], 2));
}

#[tokio::test(start_paused = true)]
async fn keys_wait_for_their_turn_under_a_renewed_lease() {
    let (world, calls) = (World::new(), Calls::new());
    let effect = async |i: u32| {
        tokio::time::sleep(secs(100)).await;
        calls.slow(i).await
    };
    let batch = world.process().run_many([1u32, 2, 3], key, effect).concurrency(1);
    assert_eq!(words(&batch.await), ["1", "2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn batch_and_single_calls_meet_under_one_key() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    let by_hand = idem.run("k1", &1u32, || calls.slow(7)).resolver(async || Verdict::CantTell);
    assert_eq!(by_hand.await.unwrap(), Ok(7));
    assert_eq!(words(&idem.run_many([1u32], key, |i| calls.slow(i)).await), ["7"]);
    assert_eq!(calls.begun(), 1);
}
