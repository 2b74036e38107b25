//! Answers that a server gives on a bad day.

use crate::{
    fake::{Fake, Said, name, refusal},
    support::{complete, is_yours, open, reserve},
};
use hapax_core::{
    Applied, StoreErrorKind,
    idempotency::{Completed, IdempotencyStore, Write},
};
use mongodb::bson::doc;
use std::sync::atomic::{AtomicUsize, Ordering};

crate::list!("concerns";
    a_write_that_no_majority_confirmed_may_have_been_done,
    a_step_whose_reply_was_lost_is_sent_again,
    a_release_whose_reply_was_lost_is_not_sent_again,
    a_server_that_is_no_primary_any_more_is_asked_again,
    a_unique_index_of_somebody_else_is_named,
    a_duplicate_that_is_not_found_is_of_another_index,
    a_record_that_never_holds_still_is_given_up,
    a_full_disk_is_named,
);

/// Answers the first of these commands only.
fn once(
    command: &'static str,
    said: fn() -> Said,
) -> impl Fn(&mongodb::bson::Document) -> Option<Said> + Send + Sync {
    let heard = AtomicUsize::new(0);
    move |heard_now| {
        let is_first = name(heard_now) == command && heard.fetch_add(1, Ordering::SeqCst) == 0;
        is_first.then(said)
    }
}

async fn a_write_that_no_majority_confirmed_may_have_been_done() {
    let fake = Fake::start(|command| {
        let concern = doc! { "code": 64, "codeName": "WriteConcernTimeout", "errmsg": "waiting" };
        (name(command) == "insert")
            .then(|| Said::Reply(doc! { "ok": 1, "n": 1, "writeConcernError": concern }))
    })
    .await;
    let error = open(&fake.url("")).await.unwrap().reserve(&reserve("k")).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::Unknown));
    assert!(error.to_string().contains("majority"), "{error}");
}

async fn a_step_whose_reply_was_lost_is_sent_again() {
    let fake = Fake::start(once("update", || Said::Nothing)).await;
    let store = open(&fake.url("")).await.unwrap();
    assert_eq!(store.complete(&complete(&reserve("k"))).await.unwrap(), Completed::Stored);
    // On a busy machine the driver may take the second one's connection down, too.
    assert!(fake.heard("update") >= 2);
}

async fn a_release_whose_reply_was_lost_is_not_sent_again() {
    let fake = Fake::start(once("delete", || Said::Nothing)).await;
    let (store, req) = (open(&fake.url("")).await.unwrap(), reserve("k"));
    let error = store.release(&req.name, &req.token).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::Unknown));
    assert_eq!(fake.heard("delete"), 1);
}

async fn a_server_that_is_no_primary_any_more_is_asked_again() {
    let fake = Fake::start(once("delete", || refusal(10_107, "NotWritablePrimary"))).await;
    let (store, req) = (open(&fake.url("")).await.unwrap(), reserve("k"));
    assert_eq!(store.release(&req.name, &req.token).await.unwrap(), Write::Applied);
    assert_eq!(fake.heard("delete"), 2);
}

fn duplicate(of: Option<&'static str>) -> Said {
    let mut error = doc! { "index": 0, "code": 11_000, "errmsg": "E11000 s3cr3t" };
    error.extend(of.map(|field| ("keyPattern".to_owned(), doc! { field: 1 }.into())));
    Said::Reply(doc! { "ok": 1, "n": 0, "writeErrors": [error] })
}

async fn a_unique_index_of_somebody_else_is_named() {
    let fake = Fake::start(|command| (name(command) == "insert").then(|| duplicate(Some("email")))).await;
    let error = open(&fake.url("")).await.unwrap().reserve(&reserve("k")).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Config, Applied::No));
    assert!(
        error.to_string().contains("unique index") && !format!("{error:?}").contains("s3cr3t"),
        "{error:?}"
    );
    assert_eq!(fake.heard("insert"), 1);
}

async fn a_duplicate_that_is_not_found_is_of_another_index() {
    let fake = Fake::start(|command| (name(command) == "insert").then(|| duplicate(None))).await;
    let error = open(&fake.url("")).await.unwrap().reserve(&reserve("k")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Config);
}

async fn a_record_that_never_holds_still_is_given_up() {
    let fake = Fake::start(|command| (name(command) == "insert").then(|| duplicate(Some("_id")))).await;
    let error = open(&fake.url("")).await.unwrap().reserve(&reserve("k")).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::No));
    assert_eq!(fake.heard("insert"), 4);
}

async fn a_full_disk_is_named() {
    let fake = Fake::start(once("insert", || refusal(14_031, "OutOfDiskSpace"))).await;
    let store = open(&fake.url("")).await.unwrap();
    let error = store.reserve(&reserve("k")).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::No));
    assert!(error.to_string().contains("disk"), "{error}");
    assert!(is_yours(&store.reserve(&reserve("k")).await.unwrap()));
}
