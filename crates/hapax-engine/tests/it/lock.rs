//! Locks over a store that fails when told, on paused time.

use crate::support::{Logs, PausedClock, ms, secs};
use hapax_conformance::faulty::{Fault, FaultyLocks, LockStep};
use hapax_core::{
    Backend, Coded, Name, Span, StoreResult, Token, async_trait,
    lock::{Acquire, Acquired, Extended, Fence, HolderInfo, ListLocks, LockInfo, LockPage, LockStore, Write},
    memory::{MemoryLocks, MemoryStore},
};
use hapax_engine::{
    Loss,
    lock::{Lock, LockError, Locks},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tracing::Level;

const TTL: Duration = Duration::from_secs(30);

/// Says that it was dropped.
struct Tells(Arc<AtomicBool>);

impl Drop for Tells {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// One store of locks, and any number of processes that share it.
#[derive(Debug)]
struct World {
    store: Arc<FaultyLocks<MemoryLocks>>,
    clock: PausedClock,
}

impl World {
    fn new() -> Self {
        let clock = PausedClock::new();
        Self { store: Arc::new(FaultyLocks::new(MemoryLocks::new(Arc::new(clock.clone())))), clock }
    }

    fn process(&self) -> Locks {
        let clock = Arc::new(self.clock.clone());
        let keys = Arc::new(MemoryStore::new(Arc::clone(&clock) as _));
        let backend = Backend::new("memory", keys).with_locks(Arc::clone(&self.store) as _).with_clock(clock);
        Locks::of(&backend, secs(5))
    }

    async fn is_free(&self) -> bool {
        self.process().show("k").await.unwrap().held.is_none()
    }
}

#[tokio::test(start_paused = true)]
async fn work_under_a_free_lock_takes_two_round_trips() {
    let world = World::new();
    let locks = world.process();
    let fence = locks
        .with_lock("k", |lock| async move {
            assert!(lock.is_held());
            tokio::time::sleep(secs(5)).await;
            lock.fence()
        })
        .await
        .unwrap();
    assert!(fence.get() > 1_700_000_000_000_000);
    let calls = [LockStep::Acquire, LockStep::Extend, LockStep::Release].map(|step| world.store.calls(step));
    assert_eq!(calls, [1, 0, 1]);
    assert!(world.is_free().await);
}

#[tokio::test(start_paused = true)]
async fn what_is_held_by_another_is_busy_or_waited_for() {
    let world = World::new();
    let (one, other) = (world.process(), world.process());
    let guard = one.try_lock("k").await.unwrap().unwrap();
    assert!(other.try_lock("k").await.unwrap().is_none());
    let mut ran = false;
    let busy = other.with_lock("k", async |_| ran = true).await;
    assert!(matches!(busy, Err(LockError::Busy { retry_after, .. }) if retry_after == TTL));
    assert!(!ran);

    let started = tokio::time::Instant::now();
    let over = other.lock("k", secs(7)).await;
    assert!(matches!(over, Err(LockError::Busy { .. })));
    assert!((secs(7)..secs(8)).contains(&started.elapsed()), "{:?}", started.elapsed());

    let waits = tokio::spawn(async move { other.lock("k", secs(60)).await.map(|guard| guard.fence()) });
    tokio::time::sleep(secs(40)).await;
    let (started, fence) = (tokio::time::Instant::now(), guard.fence());
    guard.release().await.unwrap();
    let next = waits.await.unwrap().unwrap();
    assert!(next > fence && started.elapsed() < ms(20), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_takes_over_when_the_lease_of_a_dead_holder_is_over() {
    let world = World::new();
    let dead = world.process().with_ttl(secs(20)).try_lock("k").await.unwrap().unwrap();
    world.store.break_step(LockStep::Extend, Fault::Before);
    let started = tokio::time::Instant::now();
    let guard = world.process().lock("k", secs(60)).await.unwrap();
    assert!((secs(20)..secs(21)).contains(&started.elapsed()), "{:?}", started.elapsed());
    assert!(guard.is_held() && !dead.is_held());
    assert!(matches!(dead.release().await, Err(LockError::Lost { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_renewed_at_each_third_while_its_work_runs() {
    let world = World::new();
    world.process().with_lock("k", |_| tokio::time::sleep(secs(301))).await.unwrap();
    let renewals = world.store.calls(LockStep::Extend);
    assert!((29..=31).contains(&renewals), "{renewals}");
    tokio::time::sleep(secs(300)).await;
    assert_eq!(world.store.calls(LockStep::Extend), renewals, "and not after");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_is_no_loss() {
    let world = World::new();
    let store = Arc::clone(&world.store);
    let outage = async move |lock: Lock| {
        tokio::time::sleep(secs(8)).await;
        store.break_step(LockStep::Extend, Fault::LostReply);
        tokio::time::sleep(secs(15)).await;
        store.mend();
        tokio::time::sleep(secs(60)).await;
        lock.is_held()
    };
    assert!(world.process().with_lock("k", outage).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_told_and_the_result_is_handed_over() {
    let world = World::new();
    let (logs, _guard) = Logs::capture();
    let other = world.process();
    let work = |lock: Lock| async move {
        let broken = other.break_lock("k").await.unwrap().unwrap();
        assert_eq!(broken.fence, lock.fence());
        let cause = lock.lost().await;
        assert!(!lock.is_held());
        (cause, "written")
    };
    let lost = world.process().with_lock("k", work).await.unwrap_err();
    assert_eq!(lost.code(), "lock.lost");
    let LockError::Lost { value, cause, .. } = lost else { panic!("{lost:?}") };
    assert_eq!((value, cause), (Some((Loss::Fenced, "written")), Loss::Fenced));
    assert_eq!(logs.levels("lock.lost"), [Level::WARN]);
}

#[tokio::test(start_paused = true)]
async fn work_is_dropped_where_that_was_asked_for() {
    let world = World::new();
    world.store.break_step(LockStep::Extend, Fault::Before);
    let (dropped, started) = (Arc::new(AtomicBool::new(false)), tokio::time::Instant::now());
    let tells = Tells(Arc::clone(&dropped));
    let lost = world
        .process()
        .with_lock("k", |_| async move {
            let _tells = tells;
            std::future::pending::<()>().await;
        })
        .drop_body_when_lost()
        .await;
    assert!(matches!(lost, Err(LockError::Lost { value: None, cause: Loss::Expired, .. })), "{lost:?}");
    assert!(dropped.load(Ordering::SeqCst));
    // The margin of 30 s is 3 s.
    assert!((secs(26)..secs(28)).contains(&started.elapsed()), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_pause_of_the_process_ends_a_lock_at_once() {
    let world = World::new();
    let locks = world.process();
    let guard = locks.try_lock("k").await.unwrap().unwrap();
    assert!(guard.is_held());
    world.clock.suspend(secs(31));
    assert!(!guard.is_held(), "nobody had the time to say so");
    let next = world.process().try_lock("k").await.unwrap().unwrap();
    assert!(next.fence() > guard.fence());
    assert!(matches!(guard.release().await, Err(LockError::Lost { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_to_an_acquire_is_no_loss() {
    let world = World::new();
    world.store.inject(LockStep::Acquire, Fault::LostReply);
    let guard = world.process().try_lock("k").await.unwrap().unwrap();
    assert_eq!(world.store.calls(LockStep::Acquire), 2);
    let seen = world.process().show("k").await.unwrap();
    assert_eq!(seen.held.map(|held| held.fence), Some(guard.fence()));
    world.store.inject(LockStep::Release, Fault::LostReply);
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_failed_acquire_may_have_taken_is_given_back() {
    let world = World::new();
    world.store.break_step(LockStep::Acquire, Fault::LostReply);
    let locks = world.process();
    let failed = locks.try_lock("k").await.unwrap_err();
    assert_eq!(failed.code(), "lock.store_failed");
    assert_eq!(locks.close(secs(10)).await, 0);
    assert!(world.is_free().await);
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_is_dropped_gives_the_lock_back() {
    let world = World::new();
    let locks = world.process();
    let guard = locks.try_lock("k").await.unwrap().unwrap();
    let lock = guard.lock().clone();
    world.store.inject(LockStep::Release, Fault::Before);
    drop(guard);
    assert!(!lock.is_held());
    assert_eq!(locks.close(secs(10)).await, 0);
    assert!(world.is_free().await);

    let work = locks.with_lock("k", |_| std::future::pending::<()>());
    assert!(tokio::time::timeout(secs(1), work).await.is_err());
    assert_eq!(locks.close(secs(10)).await, 0);
    assert!(world.is_free().await);

    let panics = locks.with_lock("k", |lock| async move { assert!(!lock.is_held(), "on purpose") });
    assert!(tokio::spawn(panics).await.unwrap_err().is_panic());
    assert_eq!(locks.close(secs(10)).await, 0);
    assert!(world.is_free().await);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_be_asked_proves_nothing() {
    let world = World::new();
    let locks = world.process();
    let store = Arc::clone(&world.store);
    let lost = locks
        .with_lock("k", |_| async move {
            store.break_step(LockStep::Release, Fault::Before);
            7
        })
        .await;
    assert!(matches!(lost, Err(LockError::Lost { value: Some(7), cause: Loss::Expired, .. })), "{lost:?}");
}

#[tokio::test(start_paused = true)]
async fn names_and_durations_are_checked() {
    let locks = World::new().process();
    for error in [
        locks.try_lock("").await.unwrap_err(),
        locks.with_ttl(ms(999)).try_lock("k").await.unwrap_err(),
        locks.with_ttl(Duration::MAX).lock("k", secs(1)).await.unwrap_err(),
        locks.with_lock("k", async |_| ()).ttl(Duration::ZERO).await.unwrap_err(),
    ] {
        assert_eq!(error.code(), "lock.invalid", "{error}");
    }
    let none = Backend::new("none", Arc::new(MemoryStore::new(Arc::new(PausedClock::new()))));
    let error = Locks::of(&none, secs(5)).try_lock("k").await.unwrap_err();
    assert_eq!(error.code(), "lock.store_failed");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_failed_stops_none_of_the_next_lock() {
    let world = World::new();
    let locks = world.process();
    world.store.break_step(LockStep::Extend, Fault::Before);
    let lost = locks.with_lock("k", |lock| async move { lock.lost().await }).await;
    // It is told ahead of the end; given back within the margin, it was held all the same.
    assert_eq!(lost.unwrap(), Loss::Expired);
    world.store.mend();
    let before = world.store.calls(LockStep::Extend);
    tokio::time::sleep(TTL).await;
    let held = locks.with_lock("k", |lock| async move {
        tokio::time::sleep(TTL * 3).await;
        lock.is_held()
    });
    assert!(held.await.unwrap());
    assert!(world.store.calls(LockStep::Extend) - before >= 8);
}

/// Its grants take so long that their leases have passed.
#[derive(Debug)]
struct Late(World);

#[async_trait]
impl LockStore for Late {
    async fn acquire(&self, req: &Acquire) -> StoreResult<Acquired> {
        let granted = self.0.store.acquire(req).await;
        self.0.clock.suspend(secs(31));
        granted
    }
    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        self.0.store.extend(name, token, lease).await
    }
    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        self.0.store.release(name, token).await
    }
    async fn show(&self, name: &Name) -> StoreResult<LockInfo> {
        self.0.store.show(name).await
    }
    async fn list(&self, req: &ListLocks) -> StoreResult<LockPage> {
        self.0.store.list(req).await
    }
    async fn break_lock(&self, name: &Name) -> StoreResult<Option<HolderInfo>> {
        self.0.store.break_lock(name).await
    }
    async fn seed_fence(&self, name: &Name, least: Fence) -> StoreResult<Fence> {
        self.0.store.seed_fence(name, least).await
    }
    async fn wait(&self, name: &Name, limit: Duration) -> StoreResult<()> {
        self.0.store.wait(name, limit).await
    }
    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        self.0.store.prune(limit).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_when_its_lease_has_passed_is_none() {
    let world = World::new();
    let keys = Arc::new(MemoryStore::new(Arc::new(world.clock.clone())));
    let late = Late(World { store: Arc::clone(&world.store), clock: world.clock.clone() });
    let backend =
        Backend::new("memory", keys).with_locks(Arc::new(late)).with_clock(Arc::new(world.clock.clone()));
    let locks = Locks::of(&backend, secs(5));
    let mut ran = false;
    let error = locks.with_lock("k", async |_| ran = true).await.unwrap_err();
    assert_eq!(error.code(), "lock.store_failed", "{error}");
    assert!(error.to_string().contains("too late") || format!("{error:?}").contains("too late"), "{error:?}");
    assert!(!ran);
    assert_eq!(locks.close(secs(10)).await, 0);
    assert!(world.is_free().await);
}
