//! Locks, and writes that compare fences.

use crate::support::{Place, open};
use hapax_core::{
    Applied, Key, Name, Namespace, Scope, Span, StoreErrorKind, Token,
    lock::{Acquire, Acquired, Extended, FENCE_KEPT, Fence, Grant, Guarded, Holder, LockStore, SCOPE, Write},
};
use hapax_postgres::{PostgresStore, admit};
use hapax_testkit::{Fault, Proxy};
use sqlx::{Connection as _, PgConnection, postgres::PgListener};
use std::time::Duration;

crate::list!("fences";
    a_lock_whose_row_was_deleted_is_lost_to_its_holder,
    a_step_on_a_lock_whose_reply_was_lost_is_answered_as_the_first_time,
    a_break_whose_reply_was_lost_is_not_sent_again,
    a_release_calls_only_where_somebody_waits,
    a_lock_that_need_not_be_remembered_is_removed,
    a_guard_tells_holders_apart,
    a_fence_goes_with_the_transaction_that_brought_it,
    another_writer_waits_for_the_transaction,
    a_guard_is_found_where_hapax_is,
    other_languages_can_ask_a_guard,
);

const LEASE: Duration = Duration::from_mins(1);
const LIMIT: Duration = Duration::from_secs(20);

fn lock() -> Name {
    Name::new(&Namespace::default(), &Scope::new(SCOPE).unwrap(), &Key::new("k").unwrap())
}

fn request() -> Acquire {
    let (name, token) = (lock(), Token::random().unwrap());
    Acquire { name, token, lease: Span::new(LEASE).unwrap(), holder: Holder::new("test") }
}

async fn taken(store: &PostgresStore, req: &Acquire) -> Grant {
    match store.acquire(req).await.unwrap() {
        Acquired::Yours(grant) => grant,
        Acquired::Busy { rest } => panic!("busy for {rest:?}"),
    }
}

fn fence(number: u64) -> Fence {
    Fence::new(number).unwrap()
}

async fn a_lock_whose_row_was_deleted_is_lost_to_its_holder() {
    let place = Place::new();
    let (store, first, second) = (place.store().await, request(), request());
    let before = taken(&store, &first).await;
    place.run("DELETE FROM S.lock_slot").await;
    assert_eq!(store.extend(&lock(), &first.token, first.lease).await.unwrap(), Extended::Fenced);
    assert_eq!(store.release(&lock(), &first.token).await.unwrap(), Write::Fenced);
    let after = taken(&store, &second).await;
    assert!(after.fence > before.fence, "{after:?} after {before:?}");
}

async fn through(proxy: &Proxy, place: &Place) -> PostgresStore {
    let (port, schema) = (proxy.port(), &place.schema);
    open(&format!("postgres://postgres@127.0.0.1:{port}/postgres?timeout=30s&schema={schema}")).await.unwrap()
}

async fn a_step_on_a_lock_whose_reply_was_lost_is_answered_as_the_first_time() {
    let place = Place::new();
    let proxy = Proxy::before(place.port());
    let (store, req, other) = (through(&proxy, &place).await, request(), request());
    let faults = [Fault::CutBefore, Fault::CutAfter, Fault::CutReply];
    for fault in faults {
        proxy.arm(fault);
        let grant = taken(&store, &req).await;
        let seen = store.show(&lock()).await.unwrap();
        assert_eq!(seen.fence, Some(grant.fence), "{fault:?}");
        proxy.arm(fault);
        let extended = store.extend(&lock(), &req.token, req.lease).await.unwrap();
        assert!(matches!(extended, Extended::Until(_)), "{fault:?}: {extended:?}");
    }
    proxy.arm(Fault::CutAfter);
    assert_eq!(store.release(&lock(), &req.token).await.unwrap(), Write::Applied);
    let next = taken(&store, &other).await;
    proxy.arm(Fault::CutAfter);
    let far = fence(next.fence.get() + 1_000_000);
    assert_eq!(store.seed_fence(&lock(), far).await.unwrap(), far);
    assert_eq!(proxy.happened(), 2 * faults.len() + 2);
}

async fn a_break_whose_reply_was_lost_is_not_sent_again() {
    let place = Place::new();
    let proxy = Proxy::before(place.port());
    let (store, req) = (through(&proxy, &place).await, request());
    taken(&store, &req).await;
    proxy.arm(Fault::CutAfter);
    let error = store.break_lock(&lock()).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::Unknown), "{error}");
    assert_eq!(store.show(&lock()).await.unwrap().held, None);
}

async fn a_release_calls_only_where_somebody_waits() {
    let place = Place::new();
    // Statements have names, so the store may listen.
    let (store, first, second) = (place.with("&prepared=on").await, request(), request());
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", place.port());
    let mut calls = PgListener::connect(&url).await.unwrap();
    calls.listen("hapax").await.unwrap();
    taken(&store, &first).await;
    assert_eq!(store.release(&lock(), &first.token).await.unwrap(), Write::Applied);
    let schema = &place.schema;
    place.run(&format!("SELECT pg_notify('hapax', '{schema} mark')")).await;
    // Of other schemas there are calls, too.
    let heard = async |calls: &mut PgListener| loop {
        let call = tokio::time::timeout(LIMIT, calls.recv()).await.unwrap().unwrap();
        if let Some((of, what)) = call.payload().split_once(' ')
            && of == schema
        {
            break what.to_owned();
        }
    };
    assert_eq!(heard(&mut calls).await, "mark");
    taken(&store, &second).await;
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.wait(&lock(), LIMIT).await }
    });
    tokio::time::timeout(LIMIT, async {
        while place.number("SELECT count(*) FROM S.lock_slot WHERE awaited_until > 0").await == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    assert_eq!(store.release(&lock(), &second.token).await.unwrap(), Write::Applied);
    assert_eq!(heard(&mut calls).await, "lock");
    tokio::time::timeout(LIMIT / 2, waiting).await.unwrap().unwrap().unwrap();
}

async fn a_lock_that_need_not_be_remembered_is_removed() {
    let place = Place::new();
    let (store, req) = (place.store().await, request());
    taken(&store, &req).await;
    let passes = |by: Duration| {
        let by = by.as_millis();
        format!("UPDATE S.lock_slot SET fence = fence - {by}::bigint * 1000, used_at = used_at - {by}")
    };
    place.run(&passes(FENCE_KEPT * 2)).await;
    assert_eq!(LockStore::prune(&store, 10).await.unwrap(), 0);
    assert_eq!(store.release(&lock(), &req.token).await.unwrap(), Write::Applied);
    assert_eq!(LockStore::prune(&store, 10).await.unwrap(), 0);
    place.run(&passes(FENCE_KEPT * 2)).await;
    assert_eq!(LockStore::prune(&store, 10).await.unwrap(), 1);
    assert_eq!(place.number("SELECT count(*) FROM S.lock_slot").await, 0);
}

/// One transaction, which commits.
async fn admitted(store: &PostgresStore, conn: &mut PgConnection, number: u64) -> Guarded {
    let mut tx = conn.begin().await.unwrap();
    let said = store.admit_in(&mut tx, &Namespace::default(), "account:7", fence(number)).await.unwrap();
    tx.commit().await.unwrap();
    said
}

async fn a_guard_tells_holders_apart() {
    let place = Place::new();
    let (store, mut conn) = (place.store().await, place.raw().await);
    for (number, said) in [
        (5, Guarded::Applied),
        (5, Guarded::Repeat),
        (4, Guarded::Stale),
        (7, Guarded::Applied),
        (5, Guarded::Stale),
    ] {
        assert_eq!(admitted(&store, &mut conn, number).await, said, "{number}");
    }
    let elsewhere = Namespace::new("other").unwrap();
    let said = store.admit_in(&mut conn, &elsewhere, "account:7", fence(1)).await.unwrap();
    assert_eq!(said, Guarded::Applied);
    let said = store.admit_in(&mut conn, &Namespace::default(), "account:8", Fence::MAX).await.unwrap();
    assert_eq!(said, Guarded::Applied);
    let error = store.admit_in(&mut conn, &Namespace::default(), "", fence(1)).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Config, Applied::No), "{error}");
}

async fn a_fence_goes_with_the_transaction_that_brought_it() {
    let place = Place::new();
    let (store, mut conn) = (place.store().await, place.raw().await);
    let mut tx = conn.begin().await.unwrap();
    let said = store.admit_in(&mut tx, &Namespace::default(), "account:7", fence(9)).await.unwrap();
    assert_eq!(said, Guarded::Applied);
    tx.rollback().await.unwrap();
    assert_eq!(admitted(&store, &mut conn, 8).await, Guarded::Applied);
}

async fn another_writer_waits_for_the_transaction() {
    let place = Place::new();
    let (store, mut conn) = (place.store().await, place.raw().await);
    for first in ["", "INSERT INTO S.fence_seen VALUES ('default', 'account:7', 1, 0)"] {
        place.run(&format!("DELETE FROM S.fence_seen; {first}")).await;
        let mut tx = conn.begin().await.unwrap();
        let said = store.admit_in(&mut tx, &Namespace::default(), "account:7", fence(6)).await.unwrap();
        assert_eq!(said, Guarded::Applied);
        let mut other = place.raw().await;
        let older = tokio::spawn({
            let store = store.clone();
            async move { admitted(&store, &mut other, 5).await }
        });
        let waits =
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%S.%'";
        let waits = waits.replace("S.", &format!("{}\".admit", place.schema));
        tokio::time::timeout(LIMIT, async {
            while place.number(&waits).await == 0 {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        tx.commit().await.unwrap();
        assert_eq!(older.await.unwrap(), Guarded::Stale);
    }
}

async fn a_guard_is_found_where_hapax_is() {
    let place = Place::new();
    let database = format!("{}_db", place.schema);
    place.run(&format!("CREATE DATABASE {database}")).await;
    let url = format!("postgres://postgres@127.0.0.1:{}/{database}", place.port());
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let error = admit(&mut conn, "account:7", fence(1)).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Corrupt, Applied::No), "{error}");
    assert!(error.to_string().contains("schema `hapax`"), "{error}");
    drop(open(&url).await.unwrap());
    let mut tx = conn.begin().await.unwrap();
    assert_eq!(admit(&mut tx, "account:7", fence(1)).await.unwrap(), Guarded::Applied);
    assert_eq!(admit(&mut tx, "account:7", fence(1)).await.unwrap(), Guarded::Repeat);
    tx.commit().await.unwrap();
}

async fn other_languages_can_ask_a_guard() {
    let place = Place::new();
    let store = place.store().await;
    let says = |number: u64, said: &str| {
        format!("SELECT (S.admit('default', 'account:7', {number}) = '{said}')::int::bigint")
    };
    assert_eq!(place.number(&says(5, "applied")).await, 1);
    assert_eq!(place.number(&says(4, "stale")).await, 1);
    assert_eq!(admitted(&store, &mut place.raw().await, 5).await, Guarded::Repeat);
    let wrong =
        sqlx::query(sqlx::AssertSqlSafe(says(0, "applied").replace("S.", &format!("{}.", place.schema))));
    let error = wrong.execute(&mut place.raw().await).await.unwrap_err();
    assert!(error.to_string().contains("a fence is a number from 1"), "{error}");
}
