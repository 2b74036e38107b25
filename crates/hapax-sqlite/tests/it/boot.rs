//! Leases end with the life of the machine in which they were given.

use crate::support::{Restarted, TTL, complete, file, folder, is_done, is_yours, name, open_on, reserve};
use hapax_core::{
    ManualClock,
    idempotency::{Completed, Extended, IdempotencyStore, Write},
};
use std::time::Duration;

#[tokio::test]
async fn a_restart_of_the_machine_ends_every_lease() {
    let (folder, clock) = (folder(), ManualClock::new());
    let path = file(&folder);
    let (store, owner) = (open_on(&path, &clock).await, reserve("k"));
    assert!(is_yours(&store.reserve(&owner).await.unwrap()));
    drop(store);
    let store = Restarted::open(&path, &clock).await;
    assert_eq!(store.read(&owner.name).await.unwrap(), None);
    assert_eq!(store.extend(&owner.name, &owner.token, owner.lease).await.unwrap(), Extended::Fenced);
    assert!(is_yours(&store.reserve(&reserve("k")).await.unwrap()));
}

#[tokio::test]
async fn a_result_outlives_a_restart_of_the_machine() {
    let (folder, clock) = (folder(), ManualClock::new());
    let path = file(&folder);
    let (store, owner) = (open_on(&path, &clock).await, reserve("k"));
    assert!(is_yours(&store.reserve(&owner).await.unwrap()));
    assert_eq!(store.complete(&complete(&owner)).await.unwrap(), Completed::Stored);
    drop(store);
    let store = Restarted::open(&path, &clock).await;
    assert!(is_done(store.read(&owner.name).await.unwrap().as_ref()));
    clock.advance(TTL);
    assert_eq!(store.read(&owner.name).await.unwrap(), None);
}

#[tokio::test]
async fn a_late_result_takes_the_place_of_a_reservation_that_the_restart_ended() {
    let (folder, clock) = (folder(), ManualClock::new());
    let path = file(&folder);
    let (store, first, second) = (open_on(&path, &clock).await, reserve("k"), reserve("k"));
    assert!(is_yours(&store.reserve(&first).await.unwrap()));
    clock.advance(first.lease.get());
    assert!(is_yours(&store.reserve(&second).await.unwrap()));
    assert_eq!(store.complete(&complete(&first)).await.unwrap(), Completed::StoredLate);
    drop(store);
    let store = Restarted::open(&path, &clock).await;
    assert!(is_done(store.read(&name("k")).await.unwrap().as_ref()));
    assert!(!is_yours(&store.reserve(&reserve("k")).await.unwrap()));
    assert_eq!(store.release(&second.name, &second.token).await.unwrap(), Write::Fenced);
}

/// Each of two processes reads the wall clock for itself, and one of them may be told another time.
#[tokio::test]
async fn a_lease_is_the_same_for_a_process_whose_wall_clock_is_off() {
    let hour = Duration::from_hours(1);
    // Two clients, each an hour from the other: one is ahead for the first, and behind for the second.
    let clock = ManualClock::new();
    for (here, there) in [(clock.clone(), clock.ahead(hour)), (clock.ahead(hour), clock.clone())] {
        let folder = folder();
        let path = file(&folder);
        let (store, other) = (open_on(&path, &here).await, open_on(&path, &there).await);
        let (mine, rival) = (reserve("k"), reserve("k"));
        assert!(is_yours(&store.reserve(&mine).await.unwrap()));
        clock.advance(mine.lease.get().saturating_sub(Duration::from_millis(1)));
        assert!(!is_yours(&other.reserve(&rival).await.unwrap()));
        assert!(other.read(&mine.name).await.unwrap().is_some_and(|record| record.is_pending()));
        assert!(matches!(
            other.extend(&mine.name, &mine.token, mine.lease).await.unwrap(),
            Extended::Until(_)
        ));
        clock.advance(mine.lease.get());
        assert!(is_yours(&other.reserve(&rival).await.unwrap()));
        assert!(!is_yours(&store.reserve(&mine).await.unwrap()));
        assert_eq!(store.complete(&complete(&mine)).await.unwrap(), Completed::StoredLate);
        assert_eq!(other.complete(&complete(&rival)).await.unwrap(), Completed::Stored);
        // An hour is less than its time.
        for store in [&store, &other] {
            assert!(is_done(store.read(&rival.name).await.unwrap().as_ref()));
        }
    }
}
