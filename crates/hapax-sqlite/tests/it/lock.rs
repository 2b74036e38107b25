//! Locks: what other processes, a restart and a hand in the file do to them.

use crate::support::{Restarted, abandon, file, folder, locked, open, open_on, raw, span, until};
use hapax_core::{
    Clock, ManualClock, Name, Namespace, Token,
    idempotency::{Extended, Write},
    lock::{self, Acquire, Acquired, Fence, Grant, Holder, LockInfo, LockStore},
};
use hapax_sqlite::{SqliteOptions, SqliteStore, Synchronous};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

const LEASE: Duration = Duration::from_mins(1);

fn named(key: &str) -> Name {
    lock::name(&Namespace::default(), key).unwrap()
}

fn request(key: &str) -> Acquire {
    Acquire {
        name: named(key),
        token: Token::random().unwrap(),
        lease: span(LEASE),
        holder: Holder::new("worker-3"),
    }
}

fn granted(answer: Acquired) -> Option<Grant> {
    match answer {
        Acquired::Yours(grant) => Some(grant),
        Acquired::Busy { .. } => None,
    }
}

async fn take(store: &SqliteStore, req: &Acquire) -> Option<Fence> {
    granted(store.acquire(req).await.unwrap()).map(|grant| grant.fence)
}

async fn is_free(store: &SqliteStore, key: &str) -> bool {
    store.show(&named(key)).await.unwrap().held.is_none()
}

#[tokio::test]
async fn a_restart_of_the_machine_frees_a_lock_and_keeps_its_fence() {
    let (folder, clock) = (folder(), ManualClock::new());
    let path = file(&folder);
    let (store, holder) = (open_on(&path, &clock).await, request("k"));
    let first = take(&store, &holder).await.unwrap();
    drop(store);
    let store = Restarted::open(&path, &clock).await;
    assert_eq!(store.show(&holder.name).await.unwrap(), LockInfo { held: None, fence: Some(first) });
    assert!(store.list(&lock::ListLocks::new(Namespace::default())).await.unwrap().locks.is_empty());
    let extended = store.extend(&holder.name, &holder.token, holder.lease).await.unwrap();
    assert_eq!(extended, Extended::Fenced);
    assert_eq!(store.release(&holder.name, &holder.token).await.unwrap(), Write::Fenced);
    // The clock stands still: only the row knows that the next one has to be larger.
    assert_eq!(take(&store, &request("k")).await.unwrap().get(), first.get() + 1);
}

#[tokio::test]
async fn a_lock_whose_row_is_deleted_by_hand_fences_its_holder() {
    let (folder, clock) = (folder(), ManualClock::new());
    let path = file(&folder);
    let (store, holder) = (open_on(&path, &clock).await, request("k"));
    let first = take(&store, &holder).await.unwrap();
    raw(&path).execute("DELETE FROM hapax_lock", []).unwrap();
    let extended = store.extend(&holder.name, &holder.token, holder.lease).await.unwrap();
    assert_eq!(extended, Extended::Fenced);
    assert_eq!(store.release(&holder.name, &holder.token).await.unwrap(), Write::Fenced);
    clock.advance(Duration::from_millis(1));
    assert!(take(&store, &request("k")).await.unwrap() > first);
}

#[cfg(unix)]
#[tokio::test]
async fn who_holds_a_lock_in_a_file_that_was_moved_away_is_told_so() {
    let (folder, clock) = (folder(), ManualClock::new());
    let (path, away) = (file(&folder), folder.path().join("away.db"));
    let (store, holder) = (open_on(&path, &clock).await, request("k"));
    assert!(take(&store, &holder).await.is_some());
    std::fs::rename(&path, &away).unwrap();
    clock.advance(Duration::from_secs(1));
    let other = open_on(&path, &clock).await;
    assert!(take(&other, &request("k")).await.is_some(), "others have a store of their own there");
    let extended = async || store.extend(&holder.name, &holder.token, holder.lease).await.unwrap();
    assert_eq!(extended().await, Extended::Fenced);
    let all = store.extend_many(&[(holder.name.clone(), holder.token, holder.lease)]).await;
    assert_eq!(all.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [Extended::Fenced]);
    assert_eq!(store.release(&holder.name, &holder.token).await.unwrap(), Write::Fenced);
    let error = store.acquire(&request("other")).await.unwrap_err();
    assert!(error.to_string().contains("was moved, removed or replaced"), "{error}");
    // Back in its place it is the store again.
    std::fs::rename(&away, &path).unwrap();
    assert!(matches!(extended().await, Extended::Until(_)));
}

#[tokio::test]
async fn who_finds_a_lock_taken_waits_for_no_writer() {
    let folder = folder();
    let path = file(&folder);
    let store = open(&path).await;
    assert!(take(&store, &request("k")).await.is_some());
    let commits = store.commits();
    let other = locked(&path);
    assert_eq!(take(&store, &request("k")).await, None);
    assert!(!is_free(&store, "k").await);
    drop(other);
    assert_eq!(store.commits(), commits);
}

#[tokio::test]
async fn a_release_wakes_who_waits_in_this_process_and_in_another() {
    let folder = folder();
    let path = file(&folder);
    let (store, other) = (open(&path).await, open(&path).await);
    for waiter in [&store, &other] {
        let holder = request("k");
        assert!(take(&store, &holder).await.is_some());
        let start = Instant::now();
        let release = async {
            tokio::task::yield_now().await;
            assert_eq!(store.release(&holder.name, &holder.token).await.unwrap(), Write::Applied);
        };
        let (waited, ()) = tokio::join!(waiter.wait(&holder.name, LEASE), release);
        waited.unwrap();
        assert!(is_free(waiter, "k").await);
        assert!(start.elapsed() < LEASE / 2, "woken, not by the end of the lease");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_whose_caller_has_gone_is_free_and_its_resend_holds() {
    let folder = folder();
    let path = file(&folder);
    let store = open(&path).await;
    let gone = request("k");
    abandon(&store, &path, store.acquire(&gone)).await;
    until("the lock is free", async || is_free(&store, "k").await).await;
    for n in 0..10 {
        let req = request(&format!("k{n}"));
        abandon(&store, &path, store.acquire(&req)).await;
        assert!(take(&store, &req).await.is_some());
        // Whatever was queued before this has run by then.
        assert!(take(&store, &request(&format!("other{n}"))).await.is_some());
        let extended = store.extend(&req.name, &req.token, span(2 * LEASE)).await.unwrap();
        assert!(matches!(extended, Extended::Until(_)), "{extended:?}");
    }
}

#[tokio::test]
async fn forgetting_goes_on_where_it_stopped() {
    let (folder, clock) = (folder(), ManualClock::new());
    let path = file(&folder);
    let options = SqliteOptions::new(&path).synchronous(Synchronous::Normal);
    let store = SqliteStore::open(options, Arc::new(clock.clone())).await.unwrap();
    let seeds = (0..1_500).map(|n| (format!("k{n:04}"), Fence::new(1).unwrap()));
    for (key, least) in seeds {
        store.seed_fence(&named(&key), least).await.unwrap();
    }
    let held = request("k0700");
    let long = Acquire { lease: span(2 * lock::FENCE_KEPT), ..held };
    assert!(take(&store, &long).await.is_some());
    assert_eq!(LockStore::prune(&store, 10).await.unwrap(), 0);
    clock.advance(lock::FENCE_KEPT + Duration::from_millis(1));
    assert_eq!(LockStore::prune(&store, 1_100).await.unwrap(), 1_100);
    drop(store);
    let store = open_on(&path, &clock).await;
    assert_eq!(LockStore::prune(&store, 1_100).await.unwrap(), 399);
    assert_eq!(LockStore::prune(&store, 1_100).await.unwrap(), 0);
    assert!(!is_free(&store, "k0700").await);
}

/// Of two processes one may be told another time.
#[tokio::test]
async fn a_fence_grows_between_processes_whose_wall_clocks_differ() {
    let (folder, clock) = (folder(), ManualClock::new());
    let path = file(&folder);
    let ahead = clock.ahead(Duration::from_hours(1));
    let (behind, ahead) = (open_on(&path, &clock).await, open_on(&path, &ahead).await);
    let mut last = None;
    for store in [&behind, &ahead, &behind, &ahead] {
        let req = request("k");
        let fence = take(store, &req).await;
        assert!(fence > last, "{fence:?} after {last:?}");
        last = fence;
        // The lease is the same for both.
        let other = if std::ptr::eq(store, &raw const behind) { &ahead } else { &behind };
        clock.advance(LEASE.saturating_sub(Duration::from_millis(1)));
        assert_eq!(take(other, &request("k")).await, None);
        clock.advance(Duration::from_millis(1));
        assert!(is_free(other, "k").await);
    }
    assert!(last.unwrap().get() / 1000 >= u64::try_from(clock.now().as_millis()).unwrap());
}

#[tokio::test]
async fn what_hapax_did_not_write_is_an_error_and_no_grant() {
    let folder = folder();
    let path = file(&folder);
    let store = open(&path).await;
    assert!(take(&store, &request("k")).await.is_some());
    assert!(take(&store, &request("l")).await.is_some());
    raw(&path).execute("UPDATE hapax_lock SET held_fence = 0 WHERE key = 'k'", []).unwrap();
    let error = store.acquire(&request("k")).await.unwrap_err();
    assert_eq!(error.kind(), hapax_core::StoreErrorKind::Internal);
    assert_eq!(take(&store, &request("l")).await, None);
}
