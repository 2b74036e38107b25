//! Drops where no runtime is, runtimes that end under a call, and runtimes that are blocked: on real time.

use crate::support::{Broken, Calls, DAY, Fault, Op, PausedClock, Scripted, State, ms, once, secs};
use hapax_core::{
    Backend, Coded, Namespace, SystemClock, idempotency::IdempotencyStore, memory::MemoryStore,
};
use hapax_engine::{Idempotency, IdempotencyError, Keeper, KeyState, Run};
use std::{
    convert::Infallible,
    sync::{Arc, mpsc},
};
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn idem() -> Idempotency {
    Idempotency::new(MemoryStore::new(Arc::new(SystemClock)), "test")
}

/// On its own runtime: what is left is stored, and this is what the key says then.
fn settled(idem: &Idempotency) -> KeyState {
    runtime().block_on(async {
        assert!(idem.keeper().close(secs(30)).await.is_clean());
        idem.get("k").await.unwrap()
    })
}

fn is(state: &KeyState, expected: State) -> bool {
    matches!(
        (state, expected),
        (KeyState::Vacant, State::Vacant)
            | (KeyState::Unknown { .. }, State::Unknown)
            | (KeyState::Done { .. }, State::Done)
    )
}

#[test]
fn call_dropped_outside_every_runtime_is_kept_as_unknown() {
    let (idem, calls) = (idem(), Calls::new());
    let mut call = Box::pin(idem.run("k", &1, || calls.forever::<u32, Broken>()));
    runtime().block_on(async { assert!(once(&mut call).await.is_pending()) });
    assert_eq!(calls.begun(), 1);
    drop(call);
    assert!(is(&settled(&idem), State::Unknown));
}

#[test]
fn call_dropped_on_a_thread_without_a_runtime_before_it_began_is_free() {
    let store = Arc::new(Scripted::new(PausedClock::new()).yielding());
    let shared: Arc<dyn IdempotencyStore> = Arc::clone(&store) as _;
    let (idem, calls) = (Idempotency::new(shared, "test"), Calls::new());
    std::thread::scope(|scope| {
        let mut call = Box::pin(idem.run("k", &1, || calls.forever::<u32, Broken>()));
        runtime().block_on(async {
            assert!(once(&mut call).await.is_pending());
            assert!(once(&mut call).await.is_pending());
        });
        scope.spawn(move || drop(call));
    });
    assert_eq!((calls.begun(), store.count(Op::Reserve)), (0, 1));
    assert!(is(&settled(&idem), State::Vacant));
}

#[test]
fn runtime_that_ends_under_a_detached_call_leaves_it_unknown() {
    let (idem, calls, began) = (idem(), Calls::new(), Arc::new(tokio::sync::Notify::new()));
    let (theirs, told, app) = (calls.clone(), Arc::clone(&began), threads());
    let effect = move || async move {
        told.notify_one();
        theirs.forever::<u32, Broken>().await
    };
    let mut call: Run<'static, u32, Broken> = idem.run("k", &1, effect).detached();
    app.block_on(async {
        tokio::select! {
            answer = &mut call => panic!("{answer:?}"),
            () = began.notified() => {}
        }
    });
    drop(app);
    assert!(is(&settled(&idem), State::Unknown));
    let answer = runtime().block_on(call);
    assert!(matches!(answer, Err(IdempotencyError::Unknown { replayed: false, .. })), "{answer:?}");
}

#[test]
fn runtime_that_ends_before_a_detached_call_begins_leaves_the_key_free() {
    let store = Arc::new(Scripted::new(PausedClock::new()));
    store.next(Op::Reserve, Fault::Hangs);
    let shared: Arc<dyn IdempotencyStore> = Arc::clone(&store) as _;
    let (idem, app) = (Idempotency::new(shared, "test"), threads());
    let mut call = Box::pin(idem.run("k", &1, || Calls::new().forever_owned()).detached());
    app.block_on(async { assert!(once(&mut call).await.is_pending()) });
    drop(app);
    assert!(is(&settled(&idem), State::Vacant));
    let answer = runtime().block_on(call);
    assert_eq!(answer.unwrap_err().code(), "idempotency.store_failed");
}

#[test]
fn detached_call_outlives_the_task_of_its_caller() {
    let (idem, calls, app) = (idem(), Calls::new(), threads());
    let (theirs, handle) = (calls.clone(), idem.clone());
    let (begun, go) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let (told, waits) = (Arc::clone(&begun), Arc::clone(&go));
    app.block_on(async {
        let caller = tokio::spawn(async move {
            let effect = move || async move {
                told.notify_one();
                waits.notified().await;
                theirs.slow(7).await
            };
            handle.run("k", &1, effect).detached().await
        });
        begun.notified().await;
        caller.abort();
        assert!(caller.await.unwrap_err().is_cancelled());
        go.notify_one();
        let again = idem.run("k", &1, || calls.slow(8)).wait(secs(30)).await;
        assert_eq!((again.unwrap(), calls.begun()), (Ok(7), 1));
    });
}

#[test]
fn panic_of_a_detached_call_reaches_its_caller() {
    let (idem, app) = (idem(), threads());
    let effect = || async {
        tokio::task::yield_now().await;
        assert!(tokio::runtime::Handle::try_current().is_err(), "a bug in the effect");
        Ok::<u32, Broken>(7)
    };
    let call = idem.run("k", &1, effect).detached();
    let caller = app.block_on(async { tokio::spawn(call).await });
    let panic = caller.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"a bug in the effect"));
    assert!(is(&settled(&idem), State::Unknown));
}

#[test]
fn lease_is_renewed_while_the_runtime_is_blocked() {
    let store: Arc<dyn IdempotencyStore> = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let (idem, other) = (Idempotency::new(Arc::clone(&store), "test"), Idempotency::new(store, "test"));
    runtime().block_on(async {
        let effect = async || {
            // Nothing else runs on this runtime meanwhile.
            let (_held, never) = mpsc::channel::<()>();
            never.recv_timeout(ms(2500)).unwrap_err();
            let theirs = other.run("k", &1, async || Ok::<u32, Infallible>(8)).lease(secs(1)).await;
            assert_eq!(theirs.unwrap_err().code(), "idempotency.in_flight");
            Ok::<u32, Infallible>(7)
        };
        let answer = idem.run("k", &1, effect).lease(secs(1)).detailed().await.unwrap().unwrap();
        assert_eq!((answer.value, answer.lost), (7, None));
    });
}

#[test]
fn result_is_stored_when_every_handle_is_gone() {
    let store = Arc::new(Scripted::new(PausedClock::new()));
    let shared: Arc<dyn IdempotencyStore> = Arc::clone(&store) as _;
    store.next(Op::Complete, Fault::Refused);
    let idem = Idempotency::new(Arc::clone(&shared), "test");
    let answer = runtime().block_on(async { idem.run("k", &1, async || Ok::<u32, Infallible>(7)).await });
    assert_eq!(answer.unwrap(), Ok(7));
    drop(idem);
    let other = Idempotency::new(shared, "test");
    runtime().block_on(async {
        let again = other.run("k", &1, async || Ok::<u32, Infallible>(8)).wait(secs(30)).await;
        assert_eq!(again.unwrap(), Ok(7));
    });
}

#[test]
fn clock_that_a_test_moves_ends_results_and_leases() {
    let clock = hapax_core::ManualClock::new();
    let backend: Backend = hapax_core::memory::backend(Arc::new(clock.clone()));
    let process = || Idempotency::on(Keeper::of(&backend, secs(5)), Ok(Namespace::default()), "test");
    runtime().block_on(async {
        let mut calls = 0;
        for _ in 0..2 {
            let idem = process();
            idem.run("k", &1, async || {
                calls += 1;
                Ok::<u32, Infallible>(7)
            })
            .await
            .unwrap()
            .unwrap();
            clock.advance(DAY + secs(1));
        }
        assert_eq!(calls, 2);

        let idem = process();
        let effect = |lease: hapax_engine::Lease| {
            clock.advance(secs(55));
            async move {
                lease.lost().await;
                Ok::<u32, Infallible>(7)
            }
        };
        let lost = idem.run_with("lost", &1, effect).detailed().await.unwrap().unwrap();
        assert!(lost.lost.is_some());
    });
}

#[test]
fn tasks_of_many_threads_run_each_key_once() {
    const KEYS: usize = 20;
    let (idem, app) = (idem(), threads());
    let counts: Arc<[Calls; KEYS]> = Arc::new(std::array::from_fn(|_| Calls::new()));
    app.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..50 * KEYS {
            let (idem, counts) = (idem.clone(), Arc::clone(&counts));
            tasks.spawn(async move {
                let calls = &counts[n % KEYS];
                let call = idem.run(format!("k{}", n % KEYS), &1, || calls.slow(7)).wait(secs(60));
                // Some do not wait; those who do get the one result.
                let call = if n % 7 == 3 { call.wait(secs(0)) } else { call };
                (n, call.await)
            });
        }
        while let Some(ended) = tasks.join_next().await {
            match ended.unwrap() {
                (n, Err(IdempotencyError::InFlight { .. })) => assert_eq!(n % 7, 3),
                (_, answer) => assert_eq!(answer.unwrap(), Ok(7)),
            }
        }
        assert!(idem.keeper().close(secs(30)).await.is_clean());
    });
    assert!(counts.iter().all(|calls| (calls.begun(), calls.ended()) == (1, 1)), "{counts:?}");
}
