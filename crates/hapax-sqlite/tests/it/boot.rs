//! Leases end with the life of the machine in which they were given.

use crate::support::{TTL, complete, file, folder, is_done, is_yours, name, open_on, reserve};
use hapax_core::{
    Clock, ManualClock, Now,
    idempotency::{Completed, Extended, IdempotencyStore, Write},
};
use hapax_sqlite::{SqliteOptions, SqliteStore};
use std::{path::Path, sync::Arc};

/// The machine after a restart: its clock of leases may show less or more than before.
#[derive(Debug)]
struct Restarted(ManualClock);

impl Clock for Restarted {
    fn read(&self) -> Now {
        self.0.read()
    }
    fn boot_id(&self) -> Arc<str> {
        Arc::from("another life")
    }
}

async fn after_a_restart(path: &Path, clock: &ManualClock) -> SqliteStore {
    SqliteStore::open(SqliteOptions::new(path), Arc::new(Restarted(clock.clone()))).await.unwrap()
}

#[tokio::test]
async fn a_restart_of_the_machine_ends_every_lease() {
    let (folder, clock) = (folder(), ManualClock::new());
    let path = file(&folder);
    let (store, owner) = (open_on(&path, &clock).await, reserve("k"));
    assert!(is_yours(&store.reserve(&owner).await.unwrap()));
    drop(store);
    let store = after_a_restart(&path, &clock).await;
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
    let store = after_a_restart(&path, &clock).await;
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
    let store = after_a_restart(&path, &clock).await;
    assert!(is_done(store.read(&name("k")).await.unwrap().as_ref()));
    assert!(!is_yours(&store.reserve(&reserve("k")).await.unwrap()));
    assert_eq!(store.release(&second.name, &second.token).await.unwrap(), Write::Fenced);
}
