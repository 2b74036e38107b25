//! Stores and rows of other versions.

use crate::support::{complete, file, folder, is_yours, name, open, raw, reserve, settle};
use hapax_core::{
    StoreErrorKind, SystemClock,
    idempotency::{Completed, IdempotencyStore, List, RecordState, Reserved, Write},
};
use hapax_sqlite::{SqliteOptions, SqliteStore, Upgraded, upgrade};
use std::{path::Path, sync::Arc};

fn set(path: &Path, name: &str, value: i64) {
    let changed =
        raw(path).execute("UPDATE hapax_meta SET value = ?2 WHERE name = ?1", (name, value)).unwrap();
    assert_eq!(changed, 1);
}

#[tokio::test]
async fn a_store_for_newer_versions_is_refused() {
    for needed in ["min_reader", "min_writer"] {
        let folder = folder();
        let path = file(&folder);
        drop(open(&path).await);
        set(&path, "layout", 3);
        set(&path, needed, 2);
        let error = SqliteStore::open(SqliteOptions::new(&path), Arc::new(SystemClock)).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Version);
        let text = error.to_string();
        assert!(
            text.contains("layout 3")
                && text.contains("layout 2")
                && text.contains("a newer hapax")
                && text.contains(env!("CARGO_PKG_VERSION")),
            "{text}"
        );
        assert_eq!(upgrade(SqliteOptions::new(&path)).await.unwrap_err().kind(), StoreErrorKind::Version);
    }
}

#[tokio::test]
async fn a_newer_layout_that_asks_for_no_more_is_taken() {
    let folder = folder();
    let path = file(&folder);
    drop(open(&path).await);
    set(&path, "layout", 2);
    settle(&open(&path).await, "k").await;
}

#[tokio::test]
async fn a_store_that_is_upgraded_while_it_is_open_is_written_no_more() {
    let folder = folder();
    let path = file(&folder);
    let (store, req) = (open(&path).await, reserve("k"));
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    set(&path, "min_writer", 2);
    assert_eq!(store.complete(&complete(&req)).await.unwrap_err().kind(), StoreErrorKind::Version);
    assert!(store.read(&req.name).await.unwrap().unwrap().is_pending());
}

#[tokio::test]
async fn the_only_layout_needs_no_upgrade() {
    let folder = folder();
    let path = file(&folder);
    let missing = upgrade(SqliteOptions::new(&path)).await.unwrap_err();
    assert!(missing.kind() == StoreErrorKind::Config && !path.exists());
    drop(open(&path).await);
    assert_eq!(upgrade(SqliteOptions::new(&path)).await.unwrap(), Upgraded::NothingToDo { layout: 1 });
}

#[tokio::test]
async fn a_row_of_an_unknown_form_is_held_and_never_overwritten() {
    // Another version of the row, a state and a fingerprint that are not known, a token that is none.
    for change in ["format = 9", "state = 7", "fingerprint_version = 70000", "token = x'00'", "codec = x'00'"]
    {
        let folder = folder();
        let path = file(&folder);
        let store = open(&path).await;
        settle(&store, "k").await;
        raw(&path).execute(&format!("UPDATE hapax_idempotency SET {change}, until = 1"), []).unwrap();
        let row = |path: &Path| -> (i64, Vec<u8>, i64) {
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            raw(path).query_row("SELECT format, token, state FROM hapax_idempotency", [], read).unwrap()
        };
        let before = row(&path);
        let unreadable = |state: &RecordState| *state == RecordState::Unreadable;

        assert!(unreadable(&store.read(&name("k")).await.unwrap().unwrap().state), "{change}");
        let req = reserve("k");
        assert!(
            matches!(store.reserve(&req).await.unwrap(), Reserved::Held(record) if unreadable(&record.state))
        );
        let superseded = store.complete(&complete(&req)).await.unwrap();
        assert!(matches!(superseded, Completed::Superseded(record) if unreadable(&record.state)));
        assert_eq!(store.release(&req.name, &req.token).await.unwrap(), Write::Fenced);
        assert_eq!(store.force_release(&req.name).await.unwrap(), Write::Fenced);
        assert_eq!(store.prune(100).await.unwrap(), 0);
        let page = store.list(&List::new(hapax_core::Namespace::default())).await.unwrap();
        assert!(page.records.iter().all(|(_, record)| unreadable(&record.state)) && page.records.len() == 1);
        assert_eq!(row(&path), before);
    }
}

#[tokio::test]
async fn a_late_result_of_an_unknown_form_holds_its_key() {
    let folder = folder();
    let path = file(&folder);
    let (store, req) = (open(&path).await, reserve("k"));
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    raw(&path).execute("UPDATE hapax_idempotency SET late_state = 9", []).unwrap();
    assert_eq!(store.release(&req.name, &req.token).await.unwrap(), Write::Fenced);
    assert_eq!(store.read(&req.name).await.unwrap().unwrap().state, RecordState::Unreadable);
}
