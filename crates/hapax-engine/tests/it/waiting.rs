//! Waiting for a call that is in flight.

use crate::support::{Broken, Calls, Fault, LEASE, Op, State, World, ms, secs};
use futures_util::future::join_all;
use hapax_core::{Clock, Coded, idempotency::IdempotencyStore, stable_hash};
use hapax_engine::{Idempotency, IdempotencyError};
use std::{convert::Infallible, time::Duration};

/// A call that ends after a while, elsewhere.
fn owner(world: &World, takes: Duration, end: Result<u32, Broken>) -> tokio::task::JoinHandle<()> {
    let idem = world.process();
    tokio::spawn(async move {
        let effect = async || {
            tokio::time::sleep(takes).await;
            end
        };
        let _ = idem.run("k", &1, effect).await;
    })
}

fn waiter<'a>(idem: &Idempotency, calls: &'a Calls, limit: Duration) -> hapax_engine::Run<'a, u32, Broken> {
    idem.run("k", &1, || calls.slow(8)).wait(limit)
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_unasked() {
    let (world, calls) = (World::new(), Calls::new());
    let owner = owner(&world, secs(10), Ok(7));
    tokio::time::sleep(ms(1)).await;
    let started = world.clock.now();
    let error = world.process().run("k", &1, || calls.slow(8)).await.unwrap_err();
    assert_eq!((error.code(), world.clock.now().since(started)), ("idempotency.in_flight", Duration::ZERO));
    assert_eq!(world.store.count(Op::Read), 0);
    owner.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiters_of_a_process_share_one_poll_and_its_answer() {
    let (world, calls) = (World::new(), Calls::new());
    world.store.always(Op::Read, Fault::AnswersLate(ms(3)));
    let owner = owner(&world, secs(5), Ok(7));
    tokio::time::sleep(ms(1)).await;
    let idem = world.process();
    let answers = join_all((0..50).map(|_| waiter(&idem, &calls, secs(30)).detailed())).await;
    for answer in answers {
        let answer = answer.unwrap().unwrap();
        assert_eq!((answer.value, answer.replay.is_some()), (7, true));
    }
    owner.await.unwrap();
    assert_eq!((calls.begun(), world.store.at_once(Op::Read)), (0, 1));
    // 20 to 500 ms apart, with full jitter: some 25 in 5 s. Each of the 50 asked once, when it came.
    let (reads, reserves) = (world.store.count(Op::Read), world.store.count(Op::Reserve));
    assert!((8..=45).contains(&reads), "{reads} reads");
    assert_eq!(reserves, 1 + 50);
}

#[tokio::test(start_paused = true)]
async fn one_waiter_runs_when_the_owner_has_failed() {
    let (world, calls) = (World::new(), Calls::new());
    let owner = owner(&world, secs(5), Err(Broken::Failed));
    tokio::time::sleep(ms(1)).await;
    let idem = world.process();
    world.store.always(Op::Reserve, Fault::AppliedLate(secs(1)));
    let answers = join_all((0..50).map(|_| waiter(&idem, &calls, secs(30)).detailed())).await;
    owner.await.unwrap();
    let (mut ran, mut replayed) = (0, 0);
    for answer in answers {
        let answer = answer.unwrap().unwrap();
        assert_eq!(answer.value, 8);
        if answer.replay.is_some() { replayed += 1 } else { ran += 1 }
    }
    assert_eq!((ran, replayed, calls.begun()), (1, 49, 1));
    assert_eq!(world.store.count(Op::Reserve), 1 + 50 + 1, "one waiter tried again, for all of them");
}

#[tokio::test(start_paused = true)]
async fn waiters_take_turns_when_each_fails() {
    let (world, calls) = (World::new(), Calls::new());
    let owner = owner(&world, secs(1), Err(Broken::Failed));
    tokio::time::sleep(ms(1)).await;
    let idem = world.process();
    let call = |_| idem.run("k", &1, || calls.ending(Err(Broken::Failed))).wait(secs(30));
    let answers = join_all((0..5).map(call)).await;
    owner.await.unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Err(Broken::Failed)))), "{answers:?}");
    assert_eq!((calls.begun(), calls.ended()), (5, 5));
}

#[tokio::test(start_paused = true)]
async fn waiter_hears_of_an_unknown_outcome() {
    let (world, calls) = (World::new(), Calls::new());
    let owner = owner(&world, secs(1), Err(Broken::Unknown));
    tokio::time::sleep(ms(1)).await;
    let error = waiter(&world.process(), &calls, secs(30)).await.unwrap_err();
    assert!(matches!(error, IdempotencyError::Unknown { replayed: true, .. }), "{error:?}");
    owner.await.unwrap();
    assert_eq!(calls.begun(), 0);
}

#[tokio::test(start_paused = true)]
async fn waiter_runs_when_the_lease_of_a_dead_owner_ends() {
    let (world, calls) = (World::new(), Calls::new());
    world.dead_owner("k", stable_hash(&1).unwrap(), LEASE).await;
    let started = world.clock.now();
    assert_eq!(waiter(&world.process(), &calls, secs(300)).await.unwrap(), Ok(8));
    let waited = world.clock.now().since(started);
    assert!((LEASE..=LEASE + ms(50)).contains(&waited), "{waited:?}");
    assert_eq!(calls.begun(), 1);
}

#[tokio::test(start_paused = true)]
async fn waiter_stays_while_the_owner_renews() {
    let (world, calls) = (World::new(), Calls::new());
    let owner = owner(&world, LEASE * 3, Ok(7));
    tokio::time::sleep(ms(1)).await;
    assert_eq!(waiter(&world.process(), &calls, secs(3600)).await.unwrap(), Ok(7));
    owner.await.unwrap();
    assert_eq!(calls.begun(), 0);
}

#[tokio::test(start_paused = true)]
async fn limit_of_a_waiter_ends_with_the_rest_of_the_lease() {
    let (world, calls) = (World::new(), Calls::new());
    let owner = owner(&world, secs(300), Ok(7));
    tokio::time::sleep(ms(1)).await;
    let started = world.clock.now();
    let error = waiter(&world.process(), &calls, secs(30)).await.unwrap_err();
    assert_eq!(world.clock.now().since(started), secs(30));
    let IdempotencyError::InFlight { retry_after, .. } = error else { panic!("{error:?}") };
    // Renewed 10 s before, at 20 s.
    assert!((secs(49)..=secs(51)).contains(&retry_after), "{retry_after:?}");
    owner.abort();
}

#[tokio::test(start_paused = true)]
async fn each_waiter_has_its_own_limit() {
    let (world, calls) = (World::new(), Calls::new());
    let owner = owner(&world, secs(20), Ok(7));
    tokio::time::sleep(ms(1)).await;
    let idem = world.process();
    // The first one polls for all of them, and is the first to go.
    let limits = [secs(1), secs(2), secs(60), secs(0)];
    let answers = join_all(limits.map(|limit| waiter(&idem, &calls, limit))).await;
    let answers: Vec<_> = answers.iter().map(|answer| answer.as_ref().map_err(Coded::code)).collect();
    let busy = Err("idempotency.in_flight");
    assert_eq!(answers, [busy, busy, Ok(&Ok(7)), busy]);
    owner.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn wait_without_end_is_no_overflow() {
    let (world, calls) = (World::new(), Calls::new());
    let owner = owner(&world, secs(1), Ok(7));
    tokio::time::sleep(ms(1)).await;
    assert_eq!(waiter(&world.process(), &calls, Duration::MAX).await.unwrap(), Ok(7));
    owner.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn another_request_does_not_wait() {
    let (world, calls) = (World::new(), Calls::new());
    let owner = owner(&world, secs(10), Ok(7));
    tokio::time::sleep(ms(1)).await;
    let other = world.process().run("k", &2, || calls.slow(8)).wait(secs(30));
    assert_eq!(other.await.unwrap_err().code(), "idempotency.key_reused");
    owner.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiter_that_finds_the_result_of_another_request_is_refused() {
    let (world, calls) = (World::new(), Calls::new());
    let fingerprint = stable_hash(&1).unwrap();
    let (token, other) = (world.dead_owner("k", fingerprint, LEASE).await, world.process());
    let name = other.name("k").unwrap();
    let (answer, ()) = tokio::join!(waiter(&world.process(), &calls, secs(30)), async {
        tokio::time::sleep(secs(1)).await;
        // Between two looks of the waiter the owner fails, and another request takes the key.
        let _ = world.store.inner().release(&name, &token).await.unwrap();
        other.run("k", &2, || calls.effect::<Infallible>(7)).await.unwrap().unwrap();
    });
    assert_eq!((answer.unwrap_err().code(), calls.begun()), ("idempotency.key_reused", 1));
}

#[tokio::test(start_paused = true)]
async fn waiter_behind_one_that_goes_away_is_still_woken() {
    let (world, calls) = (World::new(), Calls::new());
    let owner = owner(&world, secs(10), Ok(7));
    tokio::time::sleep(ms(1)).await;
    let idem = world.process();
    let (first, second) = (waiter(&idem, &calls, secs(60)), waiter(&idem, &calls, secs(60)));
    let first = async { tokio::time::timeout(secs(3), first).await.is_err() };
    let (gone, second) = tokio::join!(first, second);
    assert_eq!((gone, second.unwrap()), (true, Ok(7)));
    owner.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiter_hears_of_a_result_that_this_process_could_not_store_yet() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    world.store.always(Op::Complete, Fault::Refused);
    let effect = async || {
        tokio::time::sleep(secs(5)).await;
        Ok::<u32, Broken>(7)
    };
    let (first, second) = tokio::join!(idem.run("k", &1, effect), async {
        tokio::time::sleep(secs(1)).await;
        waiter(&idem, &calls, secs(30)).await
    });
    assert_eq!((first.unwrap(), second.unwrap(), calls.begun()), (Ok(7), Ok(7), 0));
}

#[tokio::test(start_paused = true)]
async fn store_that_fails_under_a_waiter_fails_the_wait() {
    let (world, calls) = (World::new(), Calls::new());
    world.dead_owner("k", stable_hash(&1).unwrap(), LEASE).await;
    let idem = world.process();
    let (answer, ()) = tokio::join!(waiter(&idem, &calls, secs(30)), async {
        tokio::time::sleep(secs(1)).await;
        world.store.always(Op::Read, Fault::Refused);
        world.store.always(Op::Reserve, Fault::Refused);
    });
    assert_eq!((answer.unwrap_err().code(), calls.begun()), ("idempotency.store_failed", 0));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_one_key_does_not_hold_up_another() {
    let (world, calls) = (World::new(), Calls::new());
    let owner = owner(&world, secs(30), Ok(7));
    tokio::time::sleep(ms(1)).await;
    let idem = world.process();
    let other = async {
        let call = idem.run("other", &1, || calls.effect::<Infallible>(8)).wait(secs(60)).await;
        (call.unwrap(), world.clock.now())
    };
    let (waited, (other, at)) = tokio::join!(waiter(&idem, &calls, secs(60)), other);
    assert_eq!((waited.unwrap(), other), (Ok(7), Ok(8)));
    assert!(world.clock.now().since(at) >= secs(29));
    owner.await.unwrap();
    assert_eq!(world.state("other").await, State::Done);
}
