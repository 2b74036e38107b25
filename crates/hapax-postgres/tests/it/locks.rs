//! Rows that another session has locked.

use crate::support::{Place, complete, is_done, is_yours, name, reserve};
use hapax_core::{
    Applied, StoreErrorKind,
    idempotency::{Completed, IdempotencyStore, Reserved},
};
use sqlx::Connection as _;
use std::time::Duration;

crate::list!("locks";
    a_locked_row_that_is_over_is_held,
    a_row_that_nobody_sees_yet_is_held,
    a_locked_row_in_a_batch_holds_up_no_other,
    a_receipt_that_meets_a_lock_holds_up_no_other,
    a_receipt_that_meets_a_lock_is_not_kept_later,
    a_waiting_receipt_is_kept_when_the_lock_goes,
    pruning_passes_over_locked_rows,
);

async fn a_locked_row_that_is_over_is_held() {
    let place = Place::new();
    let (store, req) = (place.store().await, reserve("k"));
    assert!(is_yours(&store.reserve(&reserve("k")).await.unwrap()));
    place.elapse(req.lease.get()).await;
    let mut conn = place.raw().await;
    let mut tx = conn.begin().await.unwrap();
    place.run_on(&mut tx, "SELECT 1 FROM S.idempotency FOR UPDATE").await;
    let Reserved::Held(record) = store.reserve(&req).await.unwrap() else { panic!("not held") };
    assert!(record.is_pending() && record.fingerprint == req.fingerprint);
    let left = record.until.since(record.first_at);
    assert_eq!(left, Duration::from_secs(1));
    tx.rollback().await.unwrap();
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
}

async fn a_row_that_nobody_sees_yet_is_held() {
    let place = Place::new();
    let (store, req, other) = (place.store().await, reserve("k"), reserve("k"));
    let mut conn = place.raw().await;
    let mut tx = conn.begin().await.unwrap();
    assert_eq!(store.complete_in(&mut tx, &complete(&other)).await.unwrap(), Completed::Stored);
    let Reserved::Held(record) = store.reserve(&req).await.unwrap() else { panic!("not held") };
    assert!(record.is_pending());
    tx.commit().await.unwrap();
    let Reserved::Held(record) = store.reserve(&req).await.unwrap() else { panic!("not held") };
    assert!(is_done(Some(&record)));
}

async fn a_locked_row_in_a_batch_holds_up_no_other() {
    let place = Place::new();
    let store = place.store().await;
    let mut conn = place.raw().await;
    let mut tx = conn.begin().await.unwrap();
    let _stored = store.complete_in(&mut tx, &complete(&reserve("b"))).await.unwrap();
    let batch = ["a", "b", "c"].map(reserve);
    let answers = store.reserve_many(&batch).await;
    let yours: Vec<_> = answers.iter().map(|answer| is_yours(answer.as_ref().unwrap())).collect();
    assert_eq!(yours, [true, false, true]);
}

async fn a_receipt_that_meets_a_lock_holds_up_no_other() {
    for more in ["&timeout=1s", "&timeout=1s&prepared=on"] {
        let place = Place::new();
        let store = place.with(more).await;
        let batch = ["a", "b", "c"].map(reserve);
        for answer in store.reserve_many(&batch).await {
            assert!(is_yours(&answer.unwrap()));
        }
        let mut conn = place.raw().await;
        let mut tx = conn.begin().await.unwrap();
        place.run_on(&mut tx, "SELECT 1 FROM S.idempotency WHERE S.key_of(name) = 'b' FOR UPDATE").await;
        let results = batch.each_ref().map(complete);
        let answers = store.complete_many(&results).await;
        let kinds: Vec<_> =
            answers.iter().map(|answer| answer.as_ref().err().map(|e| (e.kind(), e.applied()))).collect();
        assert_eq!(kinds, [None, Some((StoreErrorKind::Timeout, Applied::No)), None]);
        assert!(is_done(store.read(&name("a")).await.unwrap().as_ref()));
        assert!(is_done(store.read(&name("c")).await.unwrap().as_ref()));
    }
}

async fn a_receipt_that_meets_a_lock_is_not_kept_later() {
    let place = Place::new();
    let (store, req) = (place.with("&timeout=300ms").await, reserve("k"));
    let patient = place.store().await;
    assert!(is_yours(&patient.reserve(&req).await.unwrap()));
    let mut conn = place.raw().await;
    let mut tx = conn.begin().await.unwrap();
    place.run_on(&mut tx, "SELECT 1 FROM S.idempotency FOR UPDATE").await;
    let error = store.complete(&complete(&req)).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Timeout, Applied::No));
    tx.rollback().await.unwrap();
    assert!(patient.read(&req.name).await.unwrap().unwrap().is_pending());
    assert_eq!(patient.complete(&complete(&req)).await.unwrap(), Completed::Stored);
}

async fn a_waiting_receipt_is_kept_when_the_lock_goes() {
    let place = Place::new();
    let (store, req) = (place.store().await, reserve("k"));
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    let mut conn = place.raw().await;
    let mut tx = conn.begin().await.unwrap();
    place.run_on(&mut tx, "SELECT 1 FROM S.idempotency FOR UPDATE").await;
    let waiting = tokio::spawn({
        let (store, result) = (store.clone(), complete(&req));
        async move { store.complete(&result).await }
    });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%S.%'";
    let waits = waits.replace("S.", &place.schema);
    tokio::time::timeout(Duration::from_secs(4), async {
        while place.number(&waits).await == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), Completed::Stored);
}

async fn pruning_passes_over_locked_rows() {
    let place = Place::new();
    let store = place.store().await;
    for key in ["a", "b", "c"] {
        assert!(is_yours(&store.reserve(&reserve(key)).await.unwrap()));
    }
    place.elapse(reserve("a").lease.get()).await;
    let mut conn = place.raw().await;
    let mut tx = conn.begin().await.unwrap();
    place.run_on(&mut tx, "SELECT 1 FROM S.idempotency WHERE S.key_of(name) = 'b' FOR UPDATE").await;
    assert_eq!(store.prune(100).await.unwrap(), 2);
    tx.rollback().await.unwrap();
    assert_eq!(store.prune(100).await.unwrap(), 1);
    assert_eq!(store.read(&name("b")).await.unwrap(), None);
}
