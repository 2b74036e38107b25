//! The future of a call, dropped at every await point. Each step of the store yields before and after it is applied,
//! so that each half is one. Afterwards the key is never left pending, and says what became of the effect.

use crate::support::{Broken, Calls, State, World, ms, poll_over_time, poll_times, receipt, secs, until};
use hapax_core::idempotency::{IdempotencyStore, Write};
use hapax_engine::{Idempotency, Verdict};
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// What a key must say when a call was dropped: `ended` is what the end of the effect leaves.
fn expected(calls: &Calls, ended: State) -> State {
    match (calls.begun(), calls.ended()) {
        (0, 0) => State::Vacant,
        (1, 0) => State::Unknown,
        (1, 1) => ended,
        other => panic!("the effect began and ended so often: {other:?}"),
    }
}

async fn close(idem: &Idempotency) {
    let closed = idem.keeper().close(secs(600)).await;
    assert!(closed.is_clean(), "{closed:?}");
}

/// The next call, of another process: it runs only where the key is free.
async fn call_again(world: &World, state: State, calls: &Calls) {
    let begun = calls.begun();
    let answer = world.process().run("k", &1, || calls.slow(7)).await;
    match state {
        State::Vacant => assert_eq!((answer.unwrap(), calls.begun()), (Ok(7), begun + 1)),
        State::Done => assert_eq!((answer.unwrap(), calls.begun()), (Ok(7), begun)),
        State::Unknown => assert!(answer.unwrap_err().is_unknown() && calls.begun() == begun),
        State::Pending | State::Unreadable => panic!("{state:?}"),
    }
}

/// Drops a plain call after each number of polls; answers the states seen.
async fn plain(end: Result<u32, Broken>, ended: State) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    for n in 0.. {
        let (world, calls) = (World::yielding(), Calls::new());
        let idem = world.process();
        let mut call = Box::pin(idem.run("k", &1, || calls.ending(end)));
        let output = poll_times(&mut call, n).await;
        drop(call);
        close(&idem).await;
        let state = world.state("k").await;
        assert_eq!(state, expected(&calls, ended), "dropped after {n} polls");
        call_again(&world, state, &calls).await;
        seen.insert(format!("{state:?}"));
        if output.is_some() {
            // Two halves of a reserve, two of a completion or release, and the points of the effect.
            assert!(n > 6, "{n} polls are too few to be all");
            return seen;
        }
    }
    unreachable!("the loop has no end of its own")
}

#[tokio::test(start_paused = true)]
async fn call_that_would_succeed() {
    assert_eq!(
        plain(Ok(7), State::Done).await,
        BTreeSet::from(["Vacant", "Unknown", "Done"].map(String::from))
    );
}

#[tokio::test(start_paused = true)]
async fn call_that_would_fail() {
    let seen = plain(Err(Broken::Failed), State::Vacant).await;
    assert_eq!(seen, BTreeSet::from(["Vacant", "Unknown"].map(String::from)));
}

#[tokio::test(start_paused = true)]
async fn call_that_would_end_unknown() {
    let seen = plain(Err(Broken::Unknown), State::Unknown).await;
    assert_eq!(seen, BTreeSet::from(["Vacant", "Unknown"].map(String::from)));
}

#[tokio::test(start_paused = true)]
async fn call_that_would_time_out() {
    for n in 0.. {
        let (world, calls) = (World::yielding(), Calls::new());
        let idem = world.process();
        let mut call = Box::pin(idem.run("k", &1, || calls.forever::<u32, Broken>()).timeout(ms(5)));
        let output = poll_over_time(&mut call, n, ms(1)).await;
        drop(call);
        close(&idem).await;
        assert_eq!(world.state("k").await, expected(&calls, State::Unknown), "dropped after {n} polls");
        if output.is_some() {
            assert_eq!(receipt(&world.record("k").await.unwrap()).1, "idempotency.timed_out");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn detached_call_goes_on_once_it_has_begun() {
    let (mut left_before, mut left_within) = (0, 0);
    for n in 0.. {
        let (world, calls) = (World::yielding(), Calls::new());
        let (idem, theirs) = (world.process(), calls.clone());
        let mut call = Box::pin(idem.run("k", &1, move || async move { theirs.slow(7).await }).detached());
        let output = poll_times(&mut call, n).await;
        let at_drop = (calls.begun(), calls.ended());
        drop(call);
        until("the call is over", async || world.state("k").await != State::Pending).await;
        close(&idem).await;
        let state = world.state("k").await;
        // What had not begun never begins; what had begun ends.
        assert_eq!(calls.begun(), at_drop.0, "dropped after {n} polls");
        assert_eq!(
            state,
            if at_drop.0 == 0 { State::Vacant } else { State::Done },
            "dropped after {n} polls"
        );
        left_before += usize::from(at_drop == (0, 0));
        left_within += usize::from(at_drop == (1, 0));
        call_again(&world, state, &calls).await;
        if output.is_some() {
            break;
        }
    }
    assert!(left_before > 2 && left_within > 0, "{left_before} before, {left_within} within");
}

#[tokio::test(start_paused = true)]
async fn batch() {
    let mut seen = BTreeSet::new();
    for n in 0.. {
        let (world, calls) = (World::yielding(), [Calls::new(), Calls::new(), Calls::new(), Calls::new()]);
        let idem = world.process();
        let batch = idem.run_many(0..4usize, |i| format!("k{i}"), |i| calls[i].slow(7)).concurrency(2);
        let mut batch = Box::pin(batch.into_future());
        let output = poll_times(&mut batch, n).await;
        drop(batch);
        close(&idem).await;
        let mut states = Vec::new();
        for (i, calls) in calls.iter().enumerate() {
            let state = world.state(&format!("k{i}")).await;
            assert_eq!(state, expected(calls, State::Done), "item {i}, dropped after {n} polls");
            states.push(state);
        }
        seen.insert(format!("{states:?}"));
        if output.is_some() {
            break;
        }
    }
    assert!(seen.len() > 4, "{seen:?}");
    assert!(seen.contains("[Vacant, Vacant, Vacant, Vacant]") && seen.contains("[Done, Done, Done, Done]"));
}

/// A key of unknown outcome, and how long it stays so.
async fn left_unknown(world: &World) -> hapax_core::Timestamp {
    let first = world.process().run("k", &1, async || Err::<u32, _>(Broken::Unknown)).await;
    assert!(first.is_err());
    world.record("k").await.unwrap().until
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Says {
    Happened,
    DidNot,
    CantTell,
}

/// Drops a call that asks a resolver after each number of polls; answers the states seen.
async fn asking(says: Says) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    for n in 0.. {
        let (world, calls, answered) = (World::yielding(), Calls::new(), AtomicBool::new(false));
        let until = left_unknown(&world).await;
        let idem = world.process();
        let resolver = async || {
            tokio::task::yield_now().await;
            answered.store(true, Ordering::SeqCst);
            match says {
                Says::Happened => Verdict::Happened(3),
                Says::DidNot => Verdict::DidNot,
                Says::CantTell => Verdict::CantTell,
            }
        };
        let mut call = Box::pin(idem.run("k", &1, || calls.slow(7)).resolver(resolver));
        let output = poll_times(&mut call, n).await;
        drop(call);
        close(&idem).await;
        let (state, record) = (world.state("k").await, world.record("k").await);
        let first_unknown = state == State::Unknown
            && record.as_ref().is_some_and(|r| r.until == until && receipt(r).1 == "idempotency.unknown");
        let fits = match (says, answered.load(Ordering::SeqCst), calls.begun()) {
            (Says::Happened, true, 0) => state == State::Done,
            (Says::DidNot, true, 0) => first_unknown || state == State::Vacant,
            (Says::DidNot, true, 1) => state == expected(&calls, State::Done) && !first_unknown,
            (_, _, 0) => first_unknown,
            _ => false,
        };
        assert!(fits, "{says:?} after {n} polls: {record:?}, {calls:?}");
        seen.insert(format!("{state:?}"));
        if output.is_some() {
            return seen;
        }
    }
    unreachable!("the loop has no end of its own")
}

#[tokio::test(start_paused = true)]
async fn call_that_asks_and_hears_that_it_happened() {
    assert_eq!(asking(Says::Happened).await, BTreeSet::from(["Unknown", "Done"].map(String::from)));
}

#[tokio::test(start_paused = true)]
async fn call_that_asks_and_hears_that_it_did_not() {
    let seen = asking(Says::DidNot).await;
    assert_eq!(seen, BTreeSet::from(["Unknown", "Vacant", "Done"].map(String::from)));
}

#[tokio::test(start_paused = true)]
async fn call_that_asks_and_hears_nothing() {
    assert_eq!(asking(Says::CantTell).await, BTreeSet::from(["Unknown".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn call_that_waits_for_an_owner_who_fails() {
    for n in 0.. {
        let (world, calls) = (World::yielding(), Calls::new());
        let idem = world.process();
        let owner = world.dead_owner("k", hapax_core::stable_hash(&1).unwrap(), secs(60)).await;
        let (store, name) = (Arc::clone(&world.store), idem.name("k").unwrap());
        let fails = tokio::spawn(async move {
            tokio::time::sleep(ms(200)).await;
            store.inner().release(&name, &owner).await.unwrap()
        });
        let mut call = Box::pin(idem.run("k", &1, || calls.slow(7)).wait(secs(5)));
        let output = poll_over_time(&mut call, n, ms(5)).await;
        drop(call);
        assert_eq!(fails.await.unwrap(), Write::Applied);
        close(&idem).await;
        let state = world.state("k").await;
        assert_eq!(state, expected(&calls, State::Done), "dropped after {n} polls");
        call_again(&world, state, &calls).await;
        if output.is_some() {
            assert_eq!(calls.ended(), 1);
            break;
        }
    }
}
