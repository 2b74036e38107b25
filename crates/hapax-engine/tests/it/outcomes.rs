//! What becomes of an effect, and of its key: each line of the table is a test.

use crate::support::{Broken, Calls, DAY, Failure, State, World, once, poll_times, receipt, secs};
use futures_util::FutureExt;
use hapax_core::{Applied, BoxError, Clock, StoreError, StoreErrorKind};
use hapax_engine::{EffectExt, IdempotencyError};
use std::{
    convert::Infallible,
    error::Error,
    io,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio_util::sync::CancellationToken;

#[tokio::test(start_paused = true)]
async fn success_keeps_its_receipt_for_the_ttl() {
    let (world, calls) = (World::new(), Calls::new());
    world.process().run("k", &1, || calls.effect::<Infallible>(7)).ttl(secs(30)).await.unwrap().unwrap();
    let record = world.record("k").await.unwrap();
    assert_eq!(receipt(&record), ("json/1".into(), "7".into()));
    assert_eq!(record.until, world.clock.now().after(secs(30)));
}

#[tokio::test(start_paused = true)]
async fn certain_failure_frees_the_key() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    let failed = idem.run("k", &1, || calls.ending(Err(Broken::Failed))).await;
    assert_eq!(failed.unwrap(), Err(Broken::Failed));
    assert_eq!(world.state("k").await, State::Vacant);
    assert_eq!(idem.run("k", &1, || calls.slow(7)).await.unwrap(), Ok(7));
    assert_eq!(calls.begun(), 2);
}

#[tokio::test(start_paused = true)]
async fn unknown_outcome_keeps_the_key_for_its_own_ttl() {
    let (world, calls) = (World::new(), Calls::new());
    let call = world.process().run("k", &1, || calls.ending(Err(Broken::Unknown))).unknown_ttl(secs(30));
    let error = call.await.unwrap_err();
    let IdempotencyError::Unknown { since, replayed: false, source: Some(source), .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(*since, world.clock.now());
    assert_eq!(source.downcast_ref::<Broken>(), Some(&Broken::Unknown));
    let record = world.record("k").await.unwrap();
    assert_eq!(receipt(&record), ("hapax.unknown/1".into(), "idempotency.unknown".into()));
    assert_eq!(record.until, world.clock.now().after(secs(30)));
    tokio::time::sleep(secs(30)).await;
    assert_eq!(world.state("k").await, State::Vacant);
}

/// Whether an effect that fails like this leaves its key unknown.
async fn leaves_unknown<F, E>(effect: F) -> bool
where
    F: Future<Output = Result<u32, E>> + Send,
    E: hapax_engine::EffectError,
{
    let world = World::new();
    let call = world.process().run("k", &1, || effect).await;
    let state = world.state("k").await;
    match call {
        Ok(Err(_)) => assert_eq!(state, State::Vacant),
        Err(IdempotencyError::Unknown { .. }) => assert_eq!(state, State::Unknown),
        other => panic!("{:?}", other.map(|inner| inner.map_err(|_| "an error"))),
    }
    state == State::Unknown
}

async fn fails<E>(error: E) -> Result<u32, E> {
    tokio::task::yield_now().await;
    Err(error)
}

#[tokio::test(start_paused = true)]
async fn class_is_what_the_effect_says() {
    let timed_out = |e: &Failure| e.0 == "timed out";
    assert!(leaves_unknown(fails(Failure("timed out")).unknown_when(timed_out)).await);
    assert!(!leaves_unknown(fails(Failure("declined")).unknown_when(timed_out)).await);
    let declined = |e: &Failure| e.0 == "declined";
    assert!(!leaves_unknown(fails(Failure("declined")).failed_when(declined)).await);
    assert!(leaves_unknown(fails(Failure("anything else")).failed_when(declined)).await);
    assert!(leaves_unknown(fails(Failure("")).always_unknown()).await);
    assert!(!leaves_unknown(fails(Failure("")).never_unknown()).await);
    assert!(leaves_unknown(fails(Broken::Unknown)).await);
    assert!(!leaves_unknown(fails(Broken::Failed)).await);
}

#[derive(Debug, thiserror::Error)]
#[error("outer")]
struct Outer(#[source] BoxError);

fn io_error(kind: io::ErrorKind) -> io::Error {
    io::Error::from(kind)
}

#[tokio::test(start_paused = true)]
async fn default_class_walks_the_chain_of_sources() {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, NotFound, TimedOut, UnexpectedEof,
    };
    for kind in [TimedOut, ConnectionReset, ConnectionAborted, BrokenPipe, UnexpectedEof] {
        assert!(leaves_unknown(fails(io_error(kind)).by_default()).await, "{kind}");
        let nested = Outer(Box::new(Outer(Box::new(io_error(kind)))));
        assert!(leaves_unknown(fails(nested).by_default()).await, "nested {kind}");
    }
    for kind in [ConnectionRefused, NotFound] {
        assert!(!leaves_unknown(fails(io_error(kind)).by_default()).await, "{kind}");
    }
    let boxed: BoxError = Box::new(Outer(Box::new(io_error(TimedOut))));
    assert!(leaves_unknown(fails(boxed).by_default()).await);

    let elapsed = tokio::time::timeout(Duration::ZERO, std::future::pending::<()>()).await.unwrap_err();
    assert!(leaves_unknown(fails(elapsed).by_default()).await);

    let store = || StoreError::new(StoreErrorKind::Timeout, "test", "work", "no answer");
    assert_eq!(store().applied(), Applied::No);
    assert!(!leaves_unknown(fails(store()).by_default()).await);
    assert!(leaves_unknown(fails(store().maybe_applied()).by_default()).await);
}

#[tokio::test(start_paused = true)]
async fn unknown_run_inside_a_run_is_unknown() {
    let world = World::new();
    let idem = world.process();
    let inner = async || -> Result<u32, IdempotencyError> {
        Ok(idem.run("inner", &1, || fails(Broken::Unknown)).await?.unwrap())
    };
    let outer = idem.run("outer", &1, inner).await;
    assert!(matches!(outer, Err(IdempotencyError::Unknown { .. })), "{outer:?}");
    assert_eq!(world.state("outer").await, State::Unknown);
}

#[tokio::test(start_paused = true)]
async fn busy_run_inside_a_run_is_a_certain_failure() {
    let world = World::new();
    let idem = world.process();
    let fingerprint = hapax_core::stable_hash(&1).unwrap();
    world.dead_owner("inner", fingerprint, secs(60)).await;
    let inner = async || -> Result<u32, IdempotencyError> {
        Ok(idem.run("inner", &1, || fails(Broken::Unknown)).await?.unwrap())
    };
    let outer = idem.run("outer", &1, inner).await;
    assert!(matches!(outer, Ok(Err(IdempotencyError::InFlight { .. }))), "{outer:?}");
    assert_eq!(world.state("outer").await, State::Vacant);
}

struct OnDrop(Arc<AtomicBool>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn effect_that_takes_too_long_is_dropped_and_unknown() {
    let (world, calls) = (World::new(), Calls::new());
    let dropped = Arc::new(AtomicBool::new(false));
    let guard = OnDrop(Arc::clone(&dropped));
    let started = world.clock.now();
    let effect = || async {
        let _guard = guard;
        calls.forever::<u32, Broken>().await
    };
    let error = world.process().run("k", &1, effect).timeout(secs(20)).await.unwrap_err();
    assert!(matches!(error, IdempotencyError::Unknown { replayed: false, .. }), "{error:?}");
    assert!(error.source().is_some());
    assert!(dropped.load(Ordering::SeqCst), "the effect lives on");
    assert_eq!(world.clock.now().since(started), secs(20));
    let record = world.record("k").await.unwrap();
    assert_eq!(receipt(&record).1, "idempotency.timed_out");
}

#[tokio::test(start_paused = true)]
async fn effect_that_ends_in_time_is_no_time_out() {
    let (world, calls) = (World::new(), Calls::new());
    let call = world.process().run("k", &1, || calls.slow(7)).timeout(Duration::ZERO + secs(1));
    assert_eq!(call.await.unwrap(), Ok(7));
}

#[tokio::test(start_paused = true)]
async fn panic_goes_on_and_leaves_the_key_unknown() {
    let world = World::new();
    let idem = world.process();
    let effect = || async {
        tokio::task::yield_now().await;
        assert!(!world.clock.is_manual(), "a bug in the effect");
        Ok::<u32, Broken>(7)
    };
    let panic = AssertUnwindSafe(idem.run("k", &1, effect)).catch_unwind().await.unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"a bug in the effect"));
    let record = world.record("k").await.unwrap();
    assert_eq!((world.state("k").await, receipt(&record).1), (State::Unknown, "idempotency.aborted".into()));
}

#[tokio::test(start_paused = true)]
async fn panic_before_there_is_an_effect_frees_the_key() {
    let world = World::new();
    let idem = world.process();
    let closure = || {
        assert!(!world.clock.is_manual(), "a bug in the closure");
        std::future::ready(Ok::<u32, Broken>(7))
    };
    assert!(AssertUnwindSafe(idem.run("k", &1, closure)).catch_unwind().await.is_err());
    assert!(idem.keeper().close(secs(60)).await.is_clean());
    assert_eq!(world.state("k").await, State::Vacant);
}

#[tokio::test(start_paused = true)]
async fn dropped_after_it_began_is_unknown() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    let mut call = Box::pin(idem.run("k", &1, || calls.forever::<u32, Broken>()));
    assert!(poll_times(&mut call, 3).await.is_none());
    assert_eq!(calls.begun(), 1);
    drop(call);
    assert!(idem.keeper().close(secs(60)).await.is_clean());
    let record = world.record("k").await.unwrap();
    assert_eq!((world.state("k").await, receipt(&record).1), (State::Unknown, "idempotency.aborted".into()));
    assert_eq!(record.until, world.clock.now().after(DAY));
}

#[tokio::test(start_paused = true)]
async fn dropped_before_it_began_is_free() {
    let (world, calls) = (World::yielding(), Calls::new());
    let idem = world.process();
    let mut call = Box::pin(idem.run("k", &1, || calls.forever::<u32, Broken>()));
    // The step is applied at the second poll; its answer would come at the third.
    assert!(poll_times(&mut call, 2).await.is_none());
    assert_eq!((calls.begun(), world.record("k").await.is_some()), (0, true));
    drop(call);
    assert!(idem.keeper().close(secs(60)).await.is_clean());
    assert_eq!(world.state("k").await, State::Vacant);
}

#[tokio::test(start_paused = true)]
async fn call_that_is_never_polled_asks_nothing() {
    let (world, calls) = (World::new(), Calls::new());
    drop(world.process().run("k", &1, || calls.effect::<Infallible>(7)));
    assert_eq!((calls.begun(), world.store.count(crate::support::Op::Reserve)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn cancellation_is_a_drop() {
    let (world, calls) = (World::new(), Calls::new());
    let (idem, token) = (world.process(), CancellationToken::new());
    let call = idem.run("k", &1, || calls.forever::<u32, Broken>());
    let mut call = Box::pin(token.run_until_cancelled(call));
    assert!(once(&mut call).await.is_pending());
    token.cancel();
    assert!(call.await.is_none());
    assert!(idem.keeper().close(secs(60)).await.is_clean());
    assert_eq!((calls.begun(), world.state("k").await), (1, State::Unknown));
}
