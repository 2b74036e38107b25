//! Room is made from what is over, then from the oldest that has ended, and never from a live reservation.

use crate::requests::{LEASE, TTL, complete, name, reserve, retake, span, token};
use hapax_core::{
    BackendUrl, BootTime, Clock, Coded, ManualClock, Now, Registry, StoreErrorKind, Timestamp,
    idempotency::{Complete, Completed, Extended, IdempotencyStore, Kind, Reserved, Retaken, Write},
    memory::MemoryStore,
    registry::ConnectOptions,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

fn store(max: usize) -> (MemoryStore, ManualClock) {
    let clock = ManualClock::new();
    (MemoryStore::new(Arc::new(clock.clone())).with_max_entries(max), clock)
}

async fn hold(store: &MemoryStore, key: &str) {
    assert!(matches!(store.reserve(&reserve(key, 1)).await.unwrap(), Reserved::Yours { .. }), "{key}");
}

async fn end(store: &MemoryStore, key: &str, kind: Kind) {
    hold(store, key).await;
    assert_eq!(store.complete(&complete(key, 1, kind)).await.unwrap(), Completed::Stored, "{key}");
}

/// The keys that are held or answered, in order.
async fn kept(store: &MemoryStore, keys: &[&'static str]) -> Vec<&'static str> {
    let mut kept = Vec::new();
    for key in keys {
        if store.read(&name(key)).await.unwrap().is_some() {
            kept.push(*key);
        }
    }
    kept
}

#[tokio::test]
async fn a_store_full_of_live_reservations_refuses_new_keys() {
    let (store, _) = store(2);
    hold(&store, "a").await;
    hold(&store, "b").await;
    let error = store.reserve(&reserve("c", 1)).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (StoreErrorKind::Full, "store.full"));
    let error = store.complete(&complete("c", 1, Kind::Done)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Full);
    assert_eq!(kept(&store, &["a", "b", "c"]).await, ["a", "b"]);
    assert_eq!(store.len(), 2);
}

#[tokio::test]
async fn a_full_store_goes_on_with_the_keys_it_has() {
    let (store, clock) = store(3);
    for key in ["a", "b", "c"] {
        hold(&store, key).await;
    }
    assert!(matches!(store.reserve(&reserve("a", 1)).await.unwrap(), Reserved::Yours { .. }));
    assert!(matches!(store.reserve(&reserve("a", 2)).await.unwrap(), Reserved::Held(_)));
    assert!(matches!(store.extend(&name("b"), &token(1), span(LEASE)).await.unwrap(), Extended::Until(_)));
    assert_eq!(store.release(&name("c"), &token(1)).await.unwrap(), Write::Applied);
    hold(&store, "d").await;
    assert_eq!(store.complete(&complete("a", 1, Kind::Done)).await.unwrap(), Completed::Stored);
    clock.advance(LEASE);
    assert_eq!(store.complete(&complete("d", 1, Kind::Done)).await.unwrap(), Completed::Stored);
    assert_eq!(kept(&store, &["a", "b", "c", "d"]).await, ["a", "d"]);
}

#[tokio::test]
async fn what_is_over_goes_first() {
    let (store, clock) = store(4);
    end(&store, "old", Kind::Done).await;
    let short = Complete { ttl: span(LEASE), ..complete("over", 1, Kind::Done) };
    assert_eq!(store.complete(&short).await.unwrap(), Completed::Stored);
    hold(&store, "dead").await;
    clock.advance(LEASE);
    end(&store, "new", Kind::Done).await;
    assert_eq!(store.len(), 4);
    hold(&store, "x").await;
    hold(&store, "y").await;
    assert_eq!(kept(&store, &["old", "new", "x", "y"]).await, ["old", "new", "x", "y"]);
    assert_eq!(store.len(), 4);
}

#[tokio::test]
async fn then_the_oldest_that_ended_goes() {
    let (store, clock) = store(4);
    // Reserved in another order than ended.
    for key in ["c", "b", "a"] {
        hold(&store, key).await;
    }
    for (key, kind) in [("a", Kind::Done), ("b", Kind::Unknown), ("c", Kind::Done)] {
        clock.advance(Duration::from_secs(1));
        assert_eq!(store.complete(&complete(key, 1, kind)).await.unwrap(), Completed::Stored);
    }
    hold(&store, "w").await;
    let all = ["a", "b", "c", "w", "x", "y", "z"];
    hold(&store, "x").await;
    assert_eq!(kept(&store, &all).await, ["b", "c", "w", "x"]);
    hold(&store, "y").await;
    assert_eq!(kept(&store, &all).await, ["c", "w", "x", "y"]);
    hold(&store, "z").await;
    assert_eq!(kept(&store, &all).await, ["w", "x", "y", "z"]);
    assert!(store.reserve(&reserve("a", 2)).await.is_err());
}

#[tokio::test]
async fn an_evicted_key_can_run_again() {
    let (store, _) = store(1);
    end(&store, "a", Kind::Done).await;
    end(&store, "b", Kind::Done).await;
    end(&store, "a", Kind::Done).await;
    assert_eq!(kept(&store, &["a", "b"]).await, ["a"]);
}

#[tokio::test]
async fn a_live_reservation_is_never_dropped() {
    let (store, _) = store(3);
    hold(&store, "held").await;
    for n in 0..500 {
        end(&store, &format!("k{n}"), Kind::Done).await;
        assert!(store.len() <= 3);
    }
    assert!(store.read(&name("held")).await.unwrap().unwrap().is_pending());
    assert_eq!(store.complete(&complete("held", 1, Kind::Done)).await.unwrap(), Completed::Stored);
}

#[tokio::test]
async fn a_key_that_is_asked_about_is_never_dropped() {
    let (store, _) = store(2);
    end(&store, "lost", Kind::Unknown).await;
    assert!(matches!(store.retake_unknown(&retake("lost", 2)).await.unwrap(), Retaken::Yours { .. }));
    for n in 0..50 {
        end(&store, &format!("k{n}"), Kind::Done).await;
    }
    assert!(store.read(&name("lost")).await.unwrap().unwrap().is_pending());
    assert_eq!(store.release(&name("lost"), &token(2)).await.unwrap(), Write::Applied);
    assert!(matches!(store.reserve(&reserve("lost", 3)).await.unwrap(), Reserved::Held(_)));
}

#[tokio::test]
async fn a_late_result_outlives_the_reservation_beside_it() {
    let (store, clock) = store(2);
    hold(&store, "late").await;
    clock.advance(LEASE);
    assert!(matches!(store.reserve(&reserve("late", 2)).await.unwrap(), Reserved::Yours { .. }));
    assert_eq!(store.complete(&complete("late", 1, Kind::Done)).await.unwrap(), Completed::StoredLate);
    clock.advance(LEASE);
    // The reservation is over, and what lies beside it is not: the older result makes room.
    hold(&store, "x").await;
    assert_eq!(kept(&store, &["late", "x"]).await, ["late", "x"]);
    hold(&store, "y").await;
    assert_eq!(kept(&store, &["late", "x", "y"]).await, ["x", "y"]);
}

#[tokio::test]
async fn extended_leases_are_live_to_their_new_end() {
    let (store, clock) = store(2);
    hold(&store, "a").await;
    hold(&store, "b").await;
    for _ in 0..5 {
        clock.advance(LEASE / 2);
        assert!(matches!(
            store.extend(&name("a"), &token(1), span(LEASE)).await.unwrap(),
            Extended::Until(_)
        ));
    }
    hold(&store, "c").await;
    assert!(store.reserve(&reserve("d", 1)).await.is_err());
    assert_eq!(kept(&store, &["a", "b", "c", "d"]).await, ["a", "c"]);
}

#[tokio::test]
async fn the_bound_holds_through_a_long_life() {
    let (store, clock) = store(10);
    for n in 0..5_000 {
        let key = format!("k{}", n % 37);
        match store.reserve(&reserve(&key, 1)).await.unwrap() {
            Reserved::Yours { .. } if n % 3 == 0 => {
                assert_eq!(store.release(&name(&key), &token(1)).await.unwrap(), Write::Applied);
            }
            Reserved::Yours { .. } if n % 3 == 1 => {
                let _stored = store.complete(&complete(&key, 1, Kind::Done)).await.unwrap();
            }
            _ => clock.advance(LEASE),
        }
        assert!(store.len() <= 10, "{n}");
    }
}

/// A clock whose wall time can be set, as an administrator sets it.
#[derive(Clone, Debug)]
struct SetClock {
    time: ManualClock,
    wall: Arc<AtomicI64>,
}

impl Clock for SetClock {
    fn read(&self) -> Now {
        let now = self.time.read();
        Now { wall: Timestamp::from_millis(now.wall.as_millis() + self.wall.load(Ordering::SeqCst)), ..now }
    }

    fn boot(&self) -> BootTime {
        self.time.boot()
    }

    fn boot_id(&self) -> Arc<str> {
        self.time.boot_id()
    }
}

#[tokio::test]
async fn leases_pass_although_the_wall_clock_is_set_back() {
    let clock = SetClock { time: ManualClock::new(), wall: Arc::default() };
    let store = MemoryStore::new(Arc::new(clock.clone())).with_max_entries(2);
    hold(&store, "dead").await;
    end(&store, "done", Kind::Done).await;
    clock.time.advance(LEASE);
    clock.wall.store(-3_600_000, Ordering::SeqCst);
    hold(&store, "x").await;
    assert_eq!(kept(&store, &["dead", "done", "x"]).await, ["done", "x"]);
}

#[tokio::test]
async fn leases_are_live_although_the_wall_clock_is_set_forward() {
    let clock = SetClock { time: ManualClock::new(), wall: Arc::default() };
    let store = MemoryStore::new(Arc::new(clock.clone())).with_max_entries(2);
    hold(&store, "held").await;
    end(&store, "done", Kind::Done).await;
    clock.wall.store(i64::try_from(TTL.as_millis()).unwrap(), Ordering::SeqCst);
    hold(&store, "x").await;
    assert_eq!(kept(&store, &["held", "done", "x"]).await, ["held", "x"]);
    assert_eq!(store.prune(100).await.unwrap(), 0);
    assert!(store.reserve(&reserve("y", 1)).await.is_err());
}

#[tokio::test]
async fn the_url_sets_the_bound() {
    let connect = async |url: &str| {
        Registry::new().connect(&BackendUrl::parse(url).unwrap(), &ConnectOptions::default()).await
    };
    let store = connect("memory:?max_entries=1").await.unwrap().idempotency;
    assert!(store.reserve(&reserve("a", 1)).await.is_ok());
    assert_eq!(store.reserve(&reserve("b", 1)).await.unwrap_err().kind(), StoreErrorKind::Full);
    for wrong in ["memory:?max_entries=0", "memory:?max_entries=many", "memory:?max_entries=-1"] {
        assert_eq!(connect(wrong).await.unwrap_err().kind(), StoreErrorKind::Config, "{wrong}");
    }
    let error = connect("memory:?max_entry=1").await.unwrap_err();
    assert!(error.to_string().contains("max_entries"), "{error}");
}
