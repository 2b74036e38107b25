//! Stores and rows of other versions, and of other programs.

use crate::support::{Place, complete, is_yours, refused, reserve};
use hapax_core::{
    Name, Namespace, StoreErrorKind, Token,
    idempotency::{
        Completed, IdempotencyStore, List, RecordState, Reserved, Resolution, Resolve, Resolved, Write,
    },
};
use hapax_postgres::PostgresStore;

crate::list!("versions";
    a_store_for_newer_versions_is_refused,
    a_newer_layout_that_asks_for_no_more_is_taken,
    a_store_without_its_numbers_is_corrupt,
    a_schema_of_another_program_is_left_alone,
    an_empty_schema_is_used,
    a_function_that_is_gone_is_another_version,
    a_row_of_an_unknown_form_is_held_and_never_overwritten,
);

async fn a_store_for_newer_versions_is_refused() {
    for needed in ["min_reader", "min_writer"] {
        let place = Place::new();
        drop(place.store().await);
        place.run(&format!("UPDATE S.meta SET value = '2' WHERE name IN ('layout', '{needed}')")).await;
        let error = refused(&place.url("postgres", "")).await;
        assert_eq!(error.kind(), StoreErrorKind::Version);
        let text = error.to_string();
        assert!(text.contains("layout 2") && text.contains("a newer hapax"), "{text}");
    }
}

async fn a_newer_layout_that_asks_for_no_more_is_taken() {
    let place = Place::new();
    drop(place.store().await);
    place.run("UPDATE S.meta SET value = '2' WHERE name = 'layout'").await;
    assert!(is_yours(&place.store().await.reserve(&reserve("k")).await.unwrap()));
}

async fn a_store_without_its_numbers_is_corrupt() {
    let place = Place::new();
    drop(place.store().await);
    place.run("DELETE FROM S.meta").await;
    assert_eq!(refused(&place.url("postgres", "")).await.kind(), StoreErrorKind::Corrupt);
}

async fn a_schema_of_another_program_is_left_alone() {
    for table in ["meta (id int)", "idempotency (id int)"] {
        let place = Place::new();
        place.run(&format!("CREATE SCHEMA {}; CREATE TABLE S.{table}", place.schema)).await;
        let error = refused(&place.url("postgres", "")).await;
        assert_eq!(error.kind(), StoreErrorKind::Config, "{error}");
        assert!(error.to_string().contains("`schema=`"), "{error}");
        let tables = format!("SELECT count(*) FROM pg_tables WHERE schemaname = '{}'", place.schema);
        assert_eq!(place.number(&tables).await, 1);
    }
}

async fn an_empty_schema_is_used() {
    let place = Place::new();
    place.run(&format!("CREATE SCHEMA {}", place.schema)).await;
    assert!(is_yours(&place.store().await.reserve(&reserve("k")).await.unwrap()));
}

async fn a_function_that_is_gone_is_another_version() {
    let place = Place::new();
    let store = place.store().await;
    place.run("ALTER FUNCTION S.release_named RENAME TO release_2").await;
    let req = reserve("k");
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    assert_eq!(store.release(&req.name, &req.token).await.unwrap_err().kind(), StoreErrorKind::Version);
}

async fn a_row_of_an_unknown_form_is_held_and_never_overwritten() {
    for change in ["format = 9", "state = 7", "fingerprint_version = 70000", "token = 'x'", "codec = NULL"] {
        let place = Place::new();
        let (store, first) = (place.store().await, reserve("k"));
        assert!(is_yours(&store.reserve(&first).await.unwrap()));
        assert_eq!(store.complete(&complete(&first)).await.unwrap(), Completed::Stored);
        place.run(&format!("UPDATE S.idempotency SET {change}, until = 1")).await;
        let version = "SELECT xmin::text::bigint FROM S.idempotency";
        let before = place.number(version).await;
        let unreadable = |state: &RecordState| *state == RecordState::Unreadable;

        assert!(unreadable(&store.read(&first.name).await.unwrap().unwrap().state), "{change}");
        let req = reserve("k");
        let held = store.reserve(&req).await.unwrap();
        assert!(matches!(held, Reserved::Held(record) if unreadable(&record.state)));
        let superseded = store.complete(&complete(&req)).await.unwrap();
        assert!(matches!(superseded, Completed::Superseded(record) if unreadable(&record.state)));
        assert_eq!(store.release(&req.name, &req.token).await.unwrap(), Write::Fenced);
        assert_eq!(store.force_release(&req.name).await.unwrap(), Write::Fenced);
        assert_eq!(store.prune(100).await.unwrap(), 0);
        let page = store.list(&List::new(Namespace::default())).await.unwrap();
        assert!(page.records.iter().all(|(_, record)| unreadable(&record.state)) && page.records.len() == 1);
        assert_eq!(place.number(version).await, before, "{change}");
        forget(&store, &first.name).await;
    }
}

/// Whoever has looked at it may have it removed.
async fn forget(store: &PostgresStore, name: &Name) {
    let (token, seen) = (Token::random().unwrap(), store.read(name).await.unwrap().unwrap().version());
    let forget = |version| Resolve {
        name: name.clone(),
        token,
        version: Some(version),
        resolution: Resolution::Forget,
    };
    let changed = store.resolve(&forget(token.version())).await.unwrap();
    assert!(matches!(changed, Resolved::Changed(Some(_))), "{changed:?}");
    assert_eq!(store.resolve(&forget(seen)).await.unwrap(), Resolved::Applied);
    assert_eq!(store.read(name).await.unwrap(), None);
}
