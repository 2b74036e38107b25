//! Locks, and writes that compare fences.

use crate::{
    fake::{Fake, Said, name},
    lost::through,
    support::{Place, open},
    trips::Heard,
};
use hapax_core::{
    Applied, BackendUrl, Clock as _, Name, Namespace, Span, StoreErrorKind, SystemClock, Token,
    lock::{Acquire, Acquired, Extended, Fence, Grant, Guarded, Holder, LockStore, Write},
    registry::ConnectOptions,
};
use hapax_mongodb::{DRIVER, Guard, MongoStore};
use hapax_testkit::{Fault, Proxy};
use mongodb::{
    Collection,
    bson::{Document, doc},
};
use std::time::Duration;

crate::list!("fences";
    a_lock_whose_document_was_deleted_is_lost_to_its_holder,
    a_step_on_a_lock_whose_reply_was_lost_is_answered_as_the_first_time,
    a_break_whose_reply_was_lost_is_not_sent_again,
    a_lock_takes_two_trips,
    a_holder_has_a_second_more,
    a_document_that_is_no_lock_is_left_alone,
    a_store_from_before_there_were_locks_gets_their_indexes,
    a_backend_has_locks_and_limits,
    a_guard_tells_holders_apart,
    a_guard_makes_the_document_and_keeps_what_is_in_it,
    a_guarded_write_whose_reply_was_lost_is_a_repeat,
    a_guard_says_what_is_wrong,
    of_many_holders_that_write_at_once_the_newest_is_the_last,
);

const LEASE: Duration = Duration::from_mins(1);

fn lock_name() -> Name {
    hapax_core::lock::name(&Namespace::default(), "k").unwrap()
}

fn request() -> Acquire {
    let (name, token) = (lock_name(), Token::random().unwrap());
    Acquire { name, token, lease: Span::new(LEASE).unwrap(), holder: Holder::new("test") }
}

async fn taken(store: &MongoStore, req: &Acquire) -> Grant {
    match store.acquire(req).await.unwrap() {
        Acquired::Yours(grant) => grant,
        Acquired::Busy { rest } => panic!("busy for {rest:?}"),
    }
}

fn fence(number: u64) -> Fence {
    Fence::new(number).unwrap()
}

async fn locks(place: &Place) -> Collection<Document> {
    place.raw().await.collection("idempotency_lock")
}

async fn a_lock_whose_document_was_deleted_is_lost_to_its_holder() {
    let place = Place::new();
    let (store, first, second) = (place.store().await, request(), request());
    let before = taken(&store, &first).await;
    locks(&place).await.delete_many(doc! {}).await.unwrap();
    assert_eq!(store.extend(&lock_name(), &first.token, first.lease).await.unwrap(), Extended::Fenced);
    assert_eq!(store.release(&lock_name(), &first.token).await.unwrap(), Write::Fenced);
    let after = taken(&store, &second).await;
    assert!(after.fence > before.fence, "{after:?} after {before:?}");
}

async fn a_step_on_a_lock_whose_reply_was_lost_is_answered_as_the_first_time() {
    let place = Place::new();
    let proxy = Proxy::before(place.server.port());
    let (store, req) = (through(&proxy, &place, "30s").await, request());
    proxy.arm(Fault::CutAfter);
    let grant = taken(&store, &req).await;
    assert_eq!(store.show(&lock_name()).await.unwrap().fence, Some(grant.fence));
    proxy.arm(Fault::CutAfter);
    let longer = Span::new(LEASE * 2).unwrap();
    assert!(matches!(store.extend(&lock_name(), &req.token, longer).await.unwrap(), Extended::Until(_)));
    proxy.arm(Fault::CutAfter);
    assert_eq!(store.release(&lock_name(), &req.token).await.unwrap(), Write::Applied);
    assert_eq!(proxy.happened(), 3);
}

async fn a_break_whose_reply_was_lost_is_not_sent_again() {
    let until = SystemClock.now().after(LEASE).as_millis();
    let held = doc! { "token": "01".repeat(16), "fence": 7, "holder": "x", "since": 1, "until": until };
    let lock = doc! { "_id": "default  lock  k", "form": 1, "fence": 7, "used_at": 1, "held": held };
    let fake = Fake::start(move |command| match name(command) {
        "find" if command.get_str("find").unwrap().ends_with("_lock") => {
            let found = doc! { "id": 0_i64, "ns": "shop.x", "firstBatch": [lock.clone()] };
            Some(Said::Reply(doc! { "ok": 1, "cursor": found }))
        }
        "update" if command.get_str("update").unwrap().ends_with("_lock") => Some(Said::Nothing),
        _ => None,
    })
    .await;
    let store = open(&fake.url("")).await.unwrap();
    let before = fake.heard("update");
    let error = store.break_lock(&lock_name()).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::Unknown), "{error}");
    assert_eq!(fake.heard("update") - before, 1);
}

async fn a_lock_takes_two_trips() {
    let place = Place::new();
    let heard = Heard::new(&place, "").await;
    for _ in 0..2 {
        let req = request();
        taken(&heard.store, &req).await;
        assert_eq!(heard.names(), ["update"]);
        assert!(matches!(heard.store.acquire(&request()).await.unwrap(), Acquired::Busy { .. }));
        assert_eq!(heard.names(), ["update", "find"]);
        let batch = [(lock_name(), req.token, Span::new(LEASE * 2).unwrap())];
        for extended in heard.store.extend_many(&batch).await {
            assert!(matches!(extended.unwrap(), Extended::Until(_)));
        }
        assert_eq!(heard.names(), ["update"]);
        assert_eq!(heard.store.release(&lock_name(), &req.token).await.unwrap(), Write::Applied);
        assert_eq!(heard.names(), ["update"]);
    }
}

async fn a_holder_has_a_second_more() {
    let place = Place::new();
    let (store, req) = (place.store().await, request());
    let grant = taken(&store, &req).await;
    let ends = async |ms: i64| {
        let nearer = doc! { "$set": { "held.until": grant.until.as_millis() - 60_000 + ms } };
        locks(&place).await.update_one(doc! {}, nearer).await.unwrap();
    };
    ends(0).await;
    assert!(matches!(store.acquire(&request()).await.unwrap(), Acquired::Busy { .. }));
    ends(-5_000).await;
    assert!(taken(&store, &request()).await.fence > grant.fence);
    assert_eq!(store.release(&lock_name(), &req.token).await.unwrap(), Write::Fenced);
}

async fn a_document_that_is_no_lock_is_left_alone() {
    let place = Place::new();
    let store = place.store().await;
    let theirs = doc! { "_id": "default  lock  k", "total": 42 };
    locks(&place).await.insert_one(theirs.clone()).await.unwrap();
    let error = store.acquire(&request()).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Corrupt, Applied::No), "{error}");
    assert_eq!(store.show(&lock_name()).await.unwrap_err().kind(), StoreErrorKind::Corrupt);
    assert!(
        store.list(&hapax_core::lock::ListLocks::new(Namespace::default())).await.unwrap().locks.is_empty()
    );
    assert_eq!(store.prune(10).await.unwrap(), 0);
    assert_eq!(locks(&place).await.find_one(doc! {}).await.unwrap(), Some(theirs));
}

async fn a_store_from_before_there_were_locks_gets_their_indexes() {
    let place = Place::new();
    let layout = doc! { "_id": "layout", "layout": 1, "min_reader": 1, "min_writer": 1 };
    place.meta().await.insert_one(layout).await.unwrap();
    drop(place.store().await);
    let marked = place.meta().await.find_one(doc! { "_id": "layout" }).await.unwrap().unwrap();
    assert!(marked.contains_key("indexed"), "{marked}");
    let names = locks(&place).await.list_index_names().await.unwrap();
    assert!(names.iter().any(|name| name.contains("gone_at")), "{names:?}");
}

async fn a_backend_has_locks_and_limits() {
    let place = Place::new();
    let url = BackendUrl::parse(&place.url("")).unwrap();
    let backend = (DRIVER.connect)(&url, &ConnectOptions::default()).await.unwrap();
    assert!(matches!(backend.locks.unwrap().acquire(&request()).await.unwrap(), Acquired::Yours(_)));
    assert!(backend.limits.is_some());
}

async fn accounts(place: &Place) -> Collection<Document> {
    place.raw().await.collection("account")
}

async fn write(accounts: &Collection<Document>, number: u64) -> Guarded {
    let update = doc! { "$set": { "by": number.to_string() }, "$inc": { "writes": 1 } };
    Guard::new().write(accounts, 7, fence(number), update).await.unwrap()
}

async fn a_guard_tells_holders_apart() {
    let place = Place::new();
    let accounts = accounts(&place).await;
    for (number, verdict) in [
        (5, Guarded::Applied),
        (5, Guarded::Repeat),
        (4, Guarded::Stale),
        (Fence::MAX.get(), Guarded::Applied),
        (6, Guarded::Stale),
    ] {
        assert_eq!(write(&accounts, number).await, verdict, "{number}");
    }
    let found = accounts.find_one(doc! { "_id": 7 }).await.unwrap().unwrap();
    assert_eq!(found.get_str("by").unwrap(), Fence::MAX.to_string());
}

async fn a_guard_makes_the_document_and_keeps_what_is_in_it() {
    let place = Place::new();
    let accounts = accounts(&place).await;
    accounts.insert_one(doc! { "_id": 7, "owner": "ada" }).await.unwrap();
    assert_eq!(write(&accounts, 1).await, Guarded::Applied);
    let found = accounts.find_one(doc! { "_id": 7 }).await.unwrap().unwrap();
    assert_eq!(found.get_str("owner").unwrap(), "ada");
    let other = Guard::new().field("last").unwrap();
    let set = doc! { "$set": { "state": "closed" } };
    for (id, number, verdict) in
        [("new", 3, Guarded::Applied), ("new", 2, Guarded::Stale), ("other", 1, Guarded::Applied)]
    {
        assert_eq!(
            other.write(&accounts, id, fence(number), set.clone()).await.unwrap(),
            verdict,
            "{id} {number}"
        );
    }
    let made = accounts.find_one(doc! { "_id": "new" }).await.unwrap().unwrap();
    assert!(made.contains_key("last") && !made.contains_key("fence"), "{made}");
}

async fn a_guarded_write_whose_reply_was_lost_is_a_repeat() {
    let place = Place::new();
    let proxy = Proxy::before(place.server.port());
    let url = format!("mongodb://127.0.0.1:{}/?directConnection=true&retryWrites=false", proxy.port());
    let client = mongodb::Client::with_uri_str(url).await.unwrap();
    let accounts = client.database(&place.database).collection::<Document>("account");
    assert_eq!(write(&accounts, 1).await, Guarded::Applied);
    proxy.arm(Fault::CutAfter);
    let update = doc! { "$inc": { "writes": 1 } };
    let error = Guard::new().write(&accounts, 7, fence(2), update.clone()).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::Unknown), "{error}");
    assert_eq!(Guard::new().write(&accounts, 7, fence(2), update).await.unwrap(), Guarded::Repeat);
    let found = accounts.find_one(doc! { "_id": 7 }).await.unwrap().unwrap();
    assert_eq!(found.get_i32("writes").unwrap(), 2);
}

async fn a_guard_says_what_is_wrong() {
    let place = Place::new();
    let accounts = accounts(&place).await;
    let error = Guard::new().write(&accounts, 7, fence(1), doc! { "state": "closed" }).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Config, Applied::No), "{error}");
    accounts.insert_one(doc! { "_id": 7, "fence": "wooden" }).await.unwrap();
    let error = Guard::new().write(&accounts, 7, fence(1), doc! {}).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Corrupt, Applied::No), "{error}");
    assert!(error.to_string().contains("`fence`"), "{error}");
}

async fn of_many_holders_that_write_at_once_the_newest_is_the_last() {
    let place = Place::new();
    let accounts = accounts(&place).await;
    let writes: Vec<_> = (1..=8)
        .map(|number| {
            let accounts = accounts.clone();
            tokio::spawn(async move { write(&accounts, number).await })
        })
        .collect();
    let mut applied = 0;
    for written in writes {
        applied += i32::from(written.await.unwrap() == Guarded::Applied);
    }
    let found = accounts.find_one(doc! { "_id": 7 }).await.unwrap().unwrap();
    assert_eq!((found.get_str("by").unwrap(), found.get_i32("writes").unwrap()), ("8", applied));
}
