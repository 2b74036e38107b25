//! Many callers at once, whose steps share statements.

use crate::support::{LEASE, Place, complete, is_done, is_yours, name, reserve};
use hapax_core::{
    Span,
    idempotency::{Completed, IdempotencyStore, Reserve, Reserved, Write},
};
use hapax_postgres::PostgresStore;
use sqlx::Connection as _;
use std::time::Duration;
use tokio::task::JoinSet;

crate::list!("crowds";
    many_callers_share_few_connections,
    many_callers_of_one_key_reserve_it_once,
    a_locked_row_holds_up_no_other_caller,
    callers_that_go_away_hold_up_no_other,
    one_connection_is_enough_for_many,
    batches_of_new_keys_find_the_one_that_is_not,
    each_of_a_batch_has_its_own_lease,
);

/// One run: reserve, keep the receipt.
async fn run(store: PostgresStore, req: Reserve) {
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::Stored);
}

async fn crowd(store: &PostgresStore, count: usize) {
    let mut runs = JoinSet::new();
    for n in 0..count {
        runs.spawn(run(store.clone(), reserve(&n.to_string())));
    }
    while let Some(ended) = runs.join_next().await {
        ended.unwrap();
    }
}

async fn many_callers_share_few_connections() {
    let place = Place::new();
    let store = place.with(&format!("&application_name={}", place.schema)).await;
    crowd(&store, 300).await;
    let sessions =
        format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}'", place.schema);
    assert!(place.number(&sessions).await <= 2);
    let done = "SELECT count(*) FROM S.idempotency WHERE state = 1 AND completed_at IS NOT NULL";
    assert_eq!(place.number(done).await, 300);
    // A commit for each step would be 600 of them.
    let commits = "SELECT count(DISTINCT xmin::text) FROM S.idempotency";
    assert!(place.number(commits).await < 150);
}

async fn many_callers_of_one_key_reserve_it_once() {
    let place = Place::new();
    let store = place.store().await;
    let mut calls = JoinSet::new();
    for n in 0..100 {
        let (store, req) = (store.clone(), reserve(&(n % 3).to_string()));
        calls.spawn(async move { is_yours(&store.reserve(&req).await.unwrap()) });
    }
    let answers = calls.join_all().await;
    assert_eq!(answers.into_iter().filter(|is_yours| *is_yours).count(), 3);
}

async fn a_locked_row_holds_up_no_other_caller() {
    let place = Place::new();
    let store = place.store().await;
    let locked = reserve("locked");
    assert!(is_yours(&store.reserve(&locked).await.unwrap()));
    let mut conn = place.raw().await;
    let mut tx = conn.begin().await.unwrap();
    place.run_on(&mut tx, "SELECT 1 FROM S.idempotency FOR UPDATE").await;
    let mut waiting = JoinSet::new();
    for _ in 0..10 {
        let (store, result) = (store.clone(), complete(&locked));
        waiting.spawn(async move { store.complete(&result).await.unwrap() });
    }
    crowd(&store, 100).await;
    assert!(waiting.try_join_next().is_none());
    tx.rollback().await.unwrap();
    let answers = waiting.join_all().await;
    assert_eq!(answers.iter().filter(|answer| **answer == Completed::Stored).count(), 1);
}

async fn callers_that_go_away_hold_up_no_other() {
    let place = Place::new();
    let store = place.store().await;
    let mut calls = JoinSet::new();
    for n in 0..200 {
        let (store, req) = (store.clone(), reserve(&n.to_string()));
        calls.spawn(async move {
            // Those that are cut off may have reserved, or not.
            let call = store.reserve(&req);
            if n % 2 == 0 {
                return tokio::time::timeout(Duration::from_micros(n), call).await.is_ok();
            }
            matches!(call.await.unwrap(), Reserved::Yours { .. })
        });
    }
    let answers = calls.join_all().await;
    assert!(answers.iter().filter(|answer| **answer).count() >= 100);
    for n in (1..200).step_by(2) {
        assert!(store.read(&name(&n.to_string())).await.unwrap().unwrap().is_pending());
    }
}

async fn one_connection_is_enough_for_many() {
    for connections in [1, 2] {
        let place = Place::new();
        let store =
            place.with(&format!("&connections={connections}&application_name={}", place.schema)).await;
        crowd(&store, 50).await;
        let req = reserve("again");
        assert!(is_yours(&store.reserve(&req).await.unwrap()));
        assert_eq!(store.release(&req.name, &req.token).await.unwrap(), Write::Applied);
        assert!(is_done(store.read(&name("7")).await.unwrap().as_ref()));
        let sessions =
            format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}'", place.schema);
        assert!(place.number(&sessions).await <= connections);
    }
}

async fn batches_of_new_keys_find_the_one_that_is_not() {
    let place = Place::new();
    let (store, held) = (place.store().await, reserve("held"));
    assert!(is_yours(&store.reserve(&held).await.unwrap()));
    let over = reserve("over");
    assert!(is_yours(&store.reserve(&over).await.unwrap()));
    place.run("UPDATE S.idempotency SET until = 1 WHERE S.key_of(name) = 'over'").await;
    for round in 0..20 {
        let mut batch: Vec<_> = (0..5).map(|n| reserve(&format!("{round}-{n}"))).collect();
        let is_last = round == 19;
        if is_last {
            batch.extend([reserve("held"), reserve("over")]);
        }
        let answers = store.reserve_many(&batch).await;
        let yours: Vec<_> = answers.iter().map(|answer| is_yours(answer.as_ref().unwrap())).collect();
        let expected: &[bool] =
            if is_last { &[true, true, true, true, true, false, true] } else { &[true; 5] };
        assert_eq!(yours, expected);
        // Sent again, each finds itself.
        assert!(
            store.reserve_many(batch.get(..5).unwrap()).await.iter().all(|a| is_yours(a.as_ref().unwrap()))
        );
        let results: Vec<_> = batch.iter().take(5).map(complete).collect();
        for answer in store.complete_many(&results).await {
            assert_eq!(answer.unwrap(), Completed::Stored);
        }
        for answer in store.complete_many(&results).await {
            assert_eq!(answer.unwrap(), Completed::AlreadyDone);
        }
    }
}

async fn each_of_a_batch_has_its_own_lease() {
    for more in ["", "&prepared=on"] {
        let place = Place::new();
        let store = place.with(more).await;
        // The later rounds find that all keys before were new.
        for round in 0..12 {
            let mut batch: Vec<_> = (0..3).map(|n| reserve(&format!("{round}-{n}"))).collect();
            let leases = [1, 2, 3].map(|minutes| Span::new(LEASE * minutes).unwrap());
            for (req, lease) in batch.iter_mut().zip(leases) {
                req.lease = lease;
            }
            let answers = store.reserve_many(&batch).await;
            let held = answers.into_iter().map(|answer| match answer.unwrap() {
                Reserved::Yours { until, first_at } => until.as_millis() - first_at.as_millis(),
                held @ Reserved::Held(_) => panic!("{held:?}"),
            });
            assert_eq!(held.collect::<Vec<_>>(), [60_000, 120_000, 180_000]);
        }
    }
}
