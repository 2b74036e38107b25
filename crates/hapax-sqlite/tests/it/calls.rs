//! Callers that go away, deadlines, and runtimes.

use crate::support::{
    SHORT, abandon, file, folder, is_yours, locked, name, open, open_with, reserve, settle, span, until,
};
use hapax_core::{
    Applied, StoreErrorKind,
    idempotency::{Extended, IdempotencyStore},
};
use hapax_sqlite::{SqliteOptions, SqliteStore};
use std::{
    pin::pin,
    sync::{Arc, mpsc},
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::runtime::{Builder, Runtime};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reservation_whose_caller_has_gone_is_freed() {
    let folder = folder();
    let path = file(&folder);
    let store = open(&path).await;
    let (req, batch) = (reserve("k"), [reserve("l"), reserve("m")]);
    abandon(&store, &path, store.reserve(&req)).await;
    abandon(&store, &path, store.reserve_many(&batch)).await;
    for key in ["k", "l", "m"] {
        until("the key is free", async || store.read(&name(key)).await.unwrap().is_none()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resend_after_the_caller_has_gone_holds_its_key() {
    let folder = folder();
    let path = file(&folder);
    let store = open(&path).await;
    for n in 0..20 {
        let req = reserve(&format!("k{n}"));
        abandon(&store, &path, store.reserve(&req)).await;
        assert!(is_yours(&store.reserve(&req).await.unwrap()));
        // Whatever was queued before this has run by then.
        settle(&store, &format!("other{n}")).await;
        let extended = store.extend(&req.name, &req.token, span(Duration::from_secs(90))).await.unwrap();
        assert!(matches!(extended, Extended::Until(_)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_goes_before_its_step_left_leaves_nothing() {
    let folder = folder();
    let path = file(&folder);
    let store = open(&path).await;
    let other = locked(&path);
    let req = reserve("k");
    {
        let mut call = pin!(store.reserve(&req));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    drop(other);
    settle(&store, "other").await;
    // The two of `settle`, and none for what was taken back.
    assert_eq!(store.commits(), 2);
    assert_eq!(store.read(&req.name).await.unwrap(), None);
}

#[tokio::test]
async fn a_lock_that_is_held_too_long_is_a_timeout_and_nothing_was_done() {
    let folder = folder();
    let path = file(&folder);
    let patient = open(&path).await;
    let store = open_with(SqliteOptions::new(&path).timeout(SHORT)).await;
    let other = locked(&path);
    for answer in store.reserve_many(&[reserve("k"), reserve("l")]).await {
        let error = answer.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Timeout, Applied::No));
        assert!(error.to_string().contains("locked"), "{error}");
    }
    drop(other);
    assert!(is_yours(&patient.reserve(&reserve("k")).await.unwrap()));
}

#[tokio::test]
async fn opening_waits_for_a_lock_no_longer_than_a_call() {
    let folder = folder();
    let path = file(&folder);
    std::fs::write(&path, "").unwrap();
    let other = crate::support::raw(&path);
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let options = SqliteOptions::new(&path).timeout(SHORT);
    let error = SqliteStore::open(options, Arc::new(hapax_core::SystemClock)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Timeout);
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap()
}

#[test]
fn a_runtime_without_a_free_thread_is_a_timeout_and_nothing_was_done() {
    let folder = folder();
    let runtime = one_thread();
    runtime.block_on(async {
        let patient = open(&file(&folder)).await;
        let store = open_with(SqliteOptions::new(file(&folder)).timeout(SHORT)).await;
        let (free, taken) = mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || taken.recv());
        let error = store.reserve(&reserve("k")).await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Timeout, Applied::No));
        free.send(()).unwrap();
        busy.await.unwrap().unwrap();
        assert!(is_yours(&patient.reserve(&reserve("k")).await.unwrap()));
    });
}

#[test]
fn a_store_goes_from_one_runtime_to_the_next() {
    let folder = folder();
    let first = one_thread();
    let store = first.block_on(async {
        let store = Arc::new(open(&file(&folder)).await);
        settle(&store, "a").await;
        store
    });
    // A call that is under way when its runtime ends must not keep the store.
    let orphan = first.spawn({
        let store = Arc::clone(&store);
        async move { store.reserve(&reserve("b")).await }
    });
    first.block_on(tokio::task::yield_now());
    drop(first);
    drop(orphan);
    let second = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    second.block_on(async {
        settle(&store, "c").await;
        assert!(store.read(&name("a")).await.unwrap().is_some());
    });
}

#[test]
fn a_call_from_outside_a_runtime_is_an_error() {
    let folder = folder();
    for inline in [true, false] {
        let options = SqliteOptions::new(file(&folder)).inline(inline);
        let store = one_thread().block_on(open_with(options.clone()));
        let mut context = Context::from_waker(Waker::noop());
        let req = reserve("k");
        let answer = pin!(store.reserve(&req)).poll(&mut context);
        assert!(matches!(answer, Poll::Ready(Err(error)) if error.kind() == StoreErrorKind::Unsupported));
        let answer = pin!(store.prune(10)).poll(&mut context);
        assert!(matches!(answer, Poll::Ready(Err(error)) if error.kind() == StoreErrorKind::Unsupported));
        let opened = pin!(SqliteStore::open(options, Arc::new(hapax_core::SystemClock))).poll(&mut context);
        assert!(matches!(opened, Poll::Ready(Err(error)) if error.kind() == StoreErrorKind::Unsupported));
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_neither_hangs_nor_times_out_a_call() {
    let folder = folder();
    let store = open(&file(&folder)).await;
    for n in 0..20 {
        settle(&store, &format!("k{n}")).await;
    }
    assert_eq!(store.commits(), 40);
}
