//! Many processes on one file, and processes that die.

use crate::{
    child::Process,
    support::{
        SHORT, complete, file, folder, is_done, is_yours, name, open, open_with, raw, reserve, rounds, settle,
    },
};
use hapax_core::{StoreErrorKind, idempotency::IdempotencyStore};
use hapax_sqlite::SqliteOptions;
use std::{collections::HashSet, path::Path};

fn assert_sound(path: &Path) {
    let check: String = raw(path).query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

#[test]
fn of_a_hundred_processes_on_a_new_file_one_reserves_and_none_fails() {
    let folder = folder();
    let path = file(&folder);
    let mut processes: Vec<_> = (0..100).map(|_| Process::new("reserve one key", &path)).collect();
    processes.iter_mut().for_each(Process::begin);
    let said: Vec<_> = processes.into_iter().flat_map(Process::end).collect();
    let count = |what: &str| said.iter().filter(|said| *said == what).count();
    assert_eq!((count("yours"), count("held")), (1, 99), "{said:?}");
    assert_sound(&path);
}

#[test]
fn processes_agree_on_the_secret() {
    let folder = folder();
    let path = file(&folder);
    let mut processes: Vec<_> = (0..8).map(|_| Process::new("keep a secret", &path)).collect();
    processes.iter_mut().for_each(Process::begin);
    let said: Vec<_> = processes.into_iter().flat_map(Process::end).collect();
    assert_eq!(said.len(), 8);
    assert_eq!(said.iter().collect::<HashSet<_>>().len(), 1);
}

#[tokio::test]
async fn a_process_killed_in_a_transaction_leaves_no_lock_and_no_half() {
    let folder = folder();
    let path = file(&folder);
    let store = open(&path).await;
    settle(&store, "before").await;
    let impatient = open_with(SqliteOptions::new(&path).timeout(SHORT)).await;
    let other = Process::new("hold a transaction", &path);
    assert_eq!(other.hear().as_deref(), Some("held"));
    let refused = impatient.reserve(&reserve("meanwhile")).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Timeout);
    other.kill();
    assert!(is_yours(&store.reserve(&reserve("after")).await.unwrap()));
    assert!(is_done(store.read(&name("before")).await.unwrap().as_ref()));
    let halves: i64 = raw(&path)
        .query_row("SELECT count(*) FROM hapax_meta WHERE name = 'half'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(halves, 0);
}

#[tokio::test]
async fn what_a_killed_process_was_told_is_stored_is_stored() {
    let folder = folder();
    let path = file(&folder);
    for round in 0..rounds(10, 50) {
        let process = Process::new("settle keys", &path);
        // Each round dies at another place.
        let mut told: Vec<_> = (0..=round * 3).filter_map(|_| process.hear()).collect();
        told.extend(process.kill());
        let store = open(&path).await;
        for key in &told {
            assert!(is_done(store.read(&name(key)).await.unwrap().as_ref()), "{key} is gone");
        }
        assert!(told.len() > round * 3);
        assert_sound(&path);
    }
}

#[tokio::test]
async fn nobody_starves_beside_processes_that_never_pause() {
    let folder = folder();
    let path = file(&folder);
    let store = open(&path).await;
    let mut busy: Vec<_> = (0..3).map(|_| Process::new("settle keys", &path)).collect();
    for process in &mut busy {
        assert!(process.hear().is_some());
    }
    for n in 0..rounds(30, 300) {
        let req = reserve(&format!("mine-{n}"));
        assert!(is_yours(&store.reserve(&req).await.unwrap()));
        let _ = store.complete(&complete(&req)).await.unwrap();
    }
    // Nor do they: each goes on.
    for process in &mut busy {
        assert!(process.hear().is_some());
    }
    for process in busy {
        process.kill();
    }
    assert_sound(&path);
}
