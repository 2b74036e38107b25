//! Steps within a caller's transaction.

use crate::support::{Place, complete, is_done, is_yours, reserve};
use hapax_core::{
    Applied, Key, Name, Namespace, Scope, StoreErrorKind,
    idempotency::{Completed, IdempotencyStore, List, Reserve, Reserved, Write},
};
use sqlx::Connection as _;

crate::list!("within";
    a_receipt_commits_with_the_callers_rows,
    a_receipt_goes_with_the_callers_rows,
    a_key_is_held_while_its_receipt_is_on_the_way,
    a_late_receipt_says_so,
    a_release_commits_with_the_callers_rows,
    an_error_within_leaves_nothing,
    other_languages_can_complete,
);

async fn a_receipt_commits_with_the_callers_rows() {
    for more in ["", "&prepared=on"] {
        let place = Place::new();
        let (store, req) = (place.with(more).await, reserve("k"));
        place.run("CREATE TABLE S.orders (id int)").await;
        assert!(is_yours(&store.reserve(&req).await.unwrap()));
        let mut conn = place.raw().await;
        let mut tx = conn.begin().await.unwrap();
        place.run_on(&mut tx, "INSERT INTO S.orders VALUES (7)").await;
        assert_eq!(store.complete_in(&mut tx, &complete(&req)).await.unwrap(), Completed::Stored);
        assert!(store.read(&req.name).await.unwrap().unwrap().is_pending());
        tx.commit().await.unwrap();
        assert!(is_done(store.read(&req.name).await.unwrap().as_ref()));
        assert_eq!(place.number("SELECT count(*) FROM S.orders").await, 1);
    }
}

async fn a_receipt_goes_with_the_callers_rows() {
    let place = Place::new();
    let (store, req) = (place.store().await, reserve("k"));
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    let mut conn = place.raw().await;
    let mut tx = conn.begin().await.unwrap();
    assert_eq!(store.complete_in(&mut tx, &complete(&req)).await.unwrap(), Completed::Stored);
    tx.rollback().await.unwrap();
    assert!(store.read(&req.name).await.unwrap().unwrap().is_pending());
    assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::Stored);
}

async fn a_key_is_held_while_its_receipt_is_on_the_way() {
    let place = Place::new();
    let (store, req) = (place.store().await, reserve("k"));
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    let mut conn = place.raw().await;
    let mut tx = conn.begin().await.unwrap();
    assert_eq!(store.complete_in(&mut tx, &complete(&req)).await.unwrap(), Completed::Stored);
    let Reserved::Held(record) = store.reserve(&reserve("k")).await.unwrap() else { panic!("not held") };
    assert!(record.is_pending());
    tx.commit().await.unwrap();
    let Reserved::Held(record) = store.reserve(&reserve("k")).await.unwrap() else { panic!("not held") };
    assert!(is_done(Some(&record)));
}

async fn a_late_receipt_says_so() {
    let place = Place::new();
    let (store, first, second) = (place.store().await, reserve("k"), reserve("k"));
    assert!(is_yours(&store.reserve(&first).await.unwrap()));
    place.elapse(first.lease.get()).await;
    assert!(is_yours(&store.reserve(&second).await.unwrap()));
    let mut conn = place.raw().await;
    let mut tx = conn.begin().await.unwrap();
    assert_eq!(store.complete_in(&mut tx, &complete(&first)).await.unwrap(), Completed::StoredLate);
    tx.rollback().await.unwrap();
    assert_eq!(store.release(&second.name, &second.token).await.unwrap(), Write::Applied);
    assert_eq!(store.read(&second.name).await.unwrap(), None);
}

async fn a_release_commits_with_the_callers_rows() {
    let place = Place::new();
    let (store, req) = (place.store().await, reserve("k"));
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    let mut conn = place.raw().await;
    let mut tx = conn.begin().await.unwrap();
    assert_eq!(store.release_in(&mut tx, &req.name, &req.token).await.unwrap(), Write::Applied);
    tx.rollback().await.unwrap();
    assert!(store.read(&req.name).await.unwrap().is_some());
    let mut tx = conn.begin().await.unwrap();
    assert_eq!(store.release_in(&mut tx, &req.name, &req.token).await.unwrap(), Write::Applied);
    assert_eq!(store.release_in(&mut tx, &req.name, &req.token).await.unwrap(), Write::Fenced);
    tx.commit().await.unwrap();
    assert_eq!(store.read(&req.name).await.unwrap(), None);
}

async fn an_error_within_leaves_nothing() {
    let place = Place::new();
    let (store, req) = (place.store().await, reserve("k"));
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    let mut conn = place.raw().await;
    let mut tx = conn.begin().await.unwrap();
    assert_eq!(store.complete_in(&mut tx, &complete(&req)).await.unwrap(), Completed::Stored);
    sqlx::raw_sql("SELECT 1 / 0").execute(&mut *tx).await.unwrap_err();
    let error = store.complete_in(&mut tx, &complete(&req)).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unsupported, Applied::No));
    assert!(error.to_string().contains("roll it back"), "{error}");
    drop(tx);
    assert!(store.read(&req.name).await.unwrap().unwrap().is_pending());
}

async fn other_languages_can_complete() {
    let place = Place::new();
    let store = place.store().await;
    let hex = |bytes: &[u8]| format!("'\\x{}'", hex::encode(bytes));
    // A zero byte stands between the parts of a row's name, and may be in each of them.
    for (scope, key) in [("test", "k"), ("a", "\0b"), ("a\0", "b"), ("\0\0b\0", "é\0")] {
        let (scope, key) = (Scope::new(scope).unwrap(), Key::new(key).unwrap());
        let req = Reserve { name: Name::new(&Namespace::default(), &scope, &key), ..reserve("k") };
        let [namespace, in_scope, in_key] =
            [req.name.namespace(), req.name.scope(), req.name.key()].map(|part| hex(part.as_bytes()));
        let of = format!("{namespace}, {in_scope}, {in_key}, {}", hex(req.token.as_bytes()));

        assert!(is_yours(&store.reserve(&req).await.unwrap()));
        let release = format!("SELECT (said = 'applied')::int::bigint FROM S.release({of})");
        assert_eq!(place.number(&release).await, 1);
        assert_eq!(store.read(&req.name).await.unwrap(), None);

        assert!(is_yours(&store.reserve(&req).await.unwrap()));
        let complete = format!(
            "SELECT (said = 'stored')::int::bigint FROM S.complete({of}, {}, {}, 1::smallint, 'json/1', '{{}}', 60000)",
            req.fingerprint.version(),
            hex(req.fingerprint.digest())
        );
        assert_eq!(place.number(&complete).await, 1);
        assert!(is_done(store.read(&req.name).await.unwrap().as_ref()));
        let row = format!("SELECT count(*) FROM S.idempotency WHERE S.key_of(name) = {in_key}");
        assert_eq!(place.number(&row).await, 1);
        let page = store.list(&List { scope: Some(scope), ..List::new(Namespace::default()) }).await.unwrap();
        assert_eq!(page.records.iter().map(|(name, _)| name).collect::<Vec<_>>(), [&req.name]);
        let begin = List { prefix: req.name.key().to_owned(), ..List::new(Namespace::default()) };
        assert_eq!(store.list(&begin).await.unwrap().records.len(), 1);
    }
}
