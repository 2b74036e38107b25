//! The store under many threads at once.

use crate::requests::{complete, name, reserve, token};
use hapax_core::{
    ManualClock, Namespace, SystemClock,
    idempotency::{Completed, IdempotencyStore, Kind, List, Reserved, Write},
    memory::MemoryStore,
};
use std::{
    sync::{Arc, Barrier},
    thread,
};

const THREADS: u8 = 8;

/// Runs the same work on all threads, each told its number from 1, started together.
fn on_all_threads<F: Future<Output = ()>>(work: impl Fn(u8) -> F + Sync) {
    let start = Barrier::new(THREADS.into());
    thread::scope(|scope| {
        for n in 1..=THREADS {
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                start.wait();
                runtime.block_on(work(n));
            });
        }
    });
}

fn listed(store: &MemoryStore) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let request = List { limit: usize::MAX, ..List::new(Namespace::default()) };
    runtime.block_on(store.list(&request)).unwrap().records.len()
}

#[test]
fn results_always_find_room_among_results() {
    // So few places that threads make room for each other all the time.
    for max in [1, 2, 3, 8] {
        let store = MemoryStore::new(Arc::new(ManualClock::new())).with_max_entries(max);
        on_all_threads(async |n| {
            for i in 0..2_000 {
                let answer = store.complete(&complete(&format!("{n} {i}"), n, Kind::Done)).await;
                assert_eq!(answer.unwrap(), Completed::Stored);
            }
        });
        assert_eq!(store.len(), listed(&store));
        // One for each thread may have passed the bound at the end.
        assert!(store.len() <= max + usize::from(THREADS), "{max}: {}", store.len());
    }
}

#[test]
fn calls_in_flight_always_find_room_among_results() {
    let max = usize::from(THREADS) * 2;
    let store = MemoryStore::new(Arc::new(ManualClock::new())).with_max_entries(max);
    on_all_threads(async |n| {
        for i in 0..2_000 {
            let key = format!("{n} {i}");
            assert!(matches!(store.reserve(&reserve(&key, n)).await.unwrap(), Reserved::Yours { .. }));
            if i % 5 == 0 {
                assert_eq!(store.release(&name(&key), &token(n)).await.unwrap(), Write::Applied);
            } else {
                let answer = store.complete(&complete(&key, n, Kind::Done)).await.unwrap();
                assert_eq!(answer, Completed::Stored, "the reservation was dropped");
            }
        }
    });
    assert_eq!(store.len(), listed(&store));
    assert!(store.len() <= max + usize::from(THREADS));
}

#[test]
fn each_key_has_one_winner() {
    let store = MemoryStore::new(Arc::new(SystemClock));
    let wins: [std::sync::atomic::AtomicUsize; 500] = std::array::from_fn(|_| 0.into());
    on_all_threads(async |n| {
        for (i, wins) in wins.iter().enumerate() {
            if let Reserved::Yours { .. } = store.reserve(&reserve(&i.to_string(), n)).await.unwrap() {
                wins.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
    });
    assert!(wins.iter().all(|wins| wins.load(std::sync::atomic::Ordering::Relaxed) == 1));
    assert_eq!(store.len(), 500);
}

#[test]
fn the_count_is_right_after_reserving_and_releasing_the_same_keys() {
    let store = MemoryStore::new(Arc::new(SystemClock));
    on_all_threads(async |n| {
        for i in 0..5_000 {
            let key = format!("{}", i % 3);
            if let Reserved::Yours { .. } = store.reserve(&reserve(&key, n)).await.unwrap() {
                assert_eq!(store.release(&name(&key), &token(n)).await.unwrap(), Write::Applied);
            }
        }
    });
    assert_eq!((store.len(), listed(&store)), (0, 0));
    assert!(store.is_empty());
}
