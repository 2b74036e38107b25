//! Stores and documents of other versions, and of other programs.

use crate::support::{Place, complete, id, is_yours, refused, reserve};
use hapax_core::{
    Namespace, StoreErrorKind, Token,
    idempotency::{
        Completed, Extended, IdempotencyStore, List, RecordState, Reserved, Resolution, Resolve, Resolved,
        Write,
    },
};
use mongodb::bson::{Document, doc};

crate::list!("versions";
    a_store_for_newer_versions_is_refused,
    a_newer_layout_that_asks_for_no_more_is_taken,
    a_store_without_its_numbers_is_corrupt,
    a_secret_that_is_none_is_corrupt,
    a_document_of_an_unknown_form_is_held_and_never_overwritten,
    a_document_of_another_program_is_held_and_never_overwritten,
);

async fn a_store_for_newer_versions_is_refused() {
    for needed in ["min_reader", "min_writer"] {
        let place = Place::new();
        drop(place.store().await);
        let newer = doc! { "$set": { "layout": 2, needed: 2 } };
        place.meta().await.update_one(doc! { "_id": "layout" }, newer).await.unwrap();
        let error = refused(&place.url("")).await;
        assert_eq!(error.kind(), StoreErrorKind::Version);
        let text = error.to_string();
        assert!(text.contains("layout 2") && text.contains("a newer hapax"), "{text}");
    }
}

async fn a_newer_layout_that_asks_for_no_more_is_taken() {
    let place = Place::new();
    drop(place.store().await);
    place.meta().await.update_one(doc! { "_id": "layout" }, doc! { "$set": { "layout": 2 } }).await.unwrap();
    assert!(is_yours(&place.store().await.reserve(&reserve("k")).await.unwrap()));
}

async fn a_store_without_its_numbers_is_corrupt() {
    let place = Place::new();
    drop(place.store().await);
    let without = doc! { "$unset": { "min_writer": "" } };
    place.meta().await.update_one(doc! { "_id": "layout" }, without).await.unwrap();
    assert_eq!(refused(&place.url("")).await.kind(), StoreErrorKind::Corrupt);
}

async fn a_secret_that_is_none_is_corrupt() {
    let place = Place::new();
    let store = place.store().await;
    place.meta().await.insert_one(doc! { "_id": "secret", "secret": "short" }).await.unwrap();
    assert_eq!(store.secret().await.unwrap_err().kind(), StoreErrorKind::Corrupt);
}

async fn a_document_of_an_unknown_form_is_held_and_never_overwritten() {
    for change in [
        doc! { "form": 9 },
        doc! { "result.kind": "perhaps" },
        doc! { "result.token": "x" },
        doc! { "result.codec": 7 },
        doc! { "first_at": "long ago" },
        doc! { "pending": {} },
    ] {
        let place = Place::new();
        let (store, first) = (place.store().await, reserve("k"));
        assert!(is_yours(&store.reserve(&first).await.unwrap()));
        assert_eq!(store.complete(&complete(&first)).await.unwrap(), Completed::Stored);
        let mut over = change;
        over.insert("result.until", 1_i64);
        place.change(doc! { "$set": over.clone() }).await;
        is_held(&place, &over.to_string()).await;
        is_forgotten(&place, &over.to_string()).await;
    }
}

async fn a_document_of_another_program_is_held_and_never_overwritten() {
    let place = Place::new();
    let theirs = doc! { "_id": id(), "total": 42, "until": 1 };
    place.records().await.insert_one(&theirs).await.unwrap();
    is_held(&place, "theirs").await;
    assert_eq!(place.record().await, theirs);
    is_forgotten(&place, "theirs").await;
}

async fn is_held(place: &Place, what: &str) {
    let (store, before): (_, Document) = (place.store().await, place.record().await);
    let unreadable = |state: &RecordState| *state == RecordState::Unreadable;
    let (one, two) = (reserve("k"), reserve("other"));
    assert!(unreadable(&store.read(&one.name).await.unwrap().unwrap().state), "{what}");
    let held = store.reserve(&one).await.unwrap();
    assert!(matches!(held, Reserved::Held(record) if unreadable(&record.state)), "{what}");
    let superseded = store.complete(&complete(&one)).await.unwrap();
    assert!(matches!(superseded, Completed::Superseded(record) if unreadable(&record.state)), "{what}");
    assert_eq!(store.release(&one.name, &one.token).await.unwrap(), Write::Fenced);
    assert_eq!(store.extend(&one.name, &one.token, one.lease).await.unwrap(), Extended::Fenced);
    assert_eq!(store.force_release(&one.name).await.unwrap(), Write::Fenced);
    let mut batch = store.reserve_many(&[one, two]).await.into_iter().map(Result::unwrap);
    assert!(matches!(batch.next(), Some(Reserved::Held(record)) if unreadable(&record.state)), "{what}");
    assert!(is_yours(&batch.next().unwrap()));
    assert_eq!(store.prune(100).await.unwrap(), 0);
    let page = store.list(&List::new(Namespace::default())).await.unwrap();
    assert!(unreadable(&page.records.first().unwrap().1.state) && page.records.len() == 2, "{what}");
    assert_eq!(place.record().await, before, "{what}");
}

/// Whoever has looked at it may have it removed.
async fn is_forgotten(place: &Place, what: &str) {
    let store = place.store().await;
    let name = reserve("k").name;
    let (token, seen) = (Token::random().unwrap(), store.read(&name).await.unwrap().unwrap().version());
    let forget = |version| Resolve {
        name: name.clone(),
        token,
        version: Some(version),
        resolution: Resolution::Forget,
    };
    let changed = store.resolve(&forget(token.version())).await.unwrap();
    assert!(matches!(changed, Resolved::Changed(Some(_))), "{what}: {changed:?}");
    assert_eq!(store.resolve(&forget(seen)).await.unwrap(), Resolved::Applied, "{what}");
    assert_eq!(store.read(&name).await.unwrap(), None, "{what}");
}
