//! What the doctor finds, and what the server is left to do by itself.

use crate::support::{Place, complete, id, is_yours, open, reserve};
use hapax_core::{
    Clock as _, SystemClock,
    doctor::{Examine, Severity},
    idempotency::IdempotencyStore,
};
use hapax_testkit::mongodb::is_stand_in;
use mongodb::bson::doc;
use std::time::Duration;

crate::list!("looks";
    the_doctor_knows_the_server,
    a_missing_index_is_found,
    what_the_url_asks_for_in_vain_is_found,
    the_server_removes_nothing_before_it_is_over,
);

async fn the_doctor_knows_the_server() {
    let place = Place::new();
    let found = place.store().await.examine().await.unwrap();
    let fact =
        |name: &str| found.facts.iter().find(|(fact, _)| *fact == name).map(|(_, value)| value.clone());
    assert!(fact("version").unwrap().starts_with("MongoDB "));
    assert_eq!(fact("write_concern").as_deref(), Some("majority, journaled"));
    let off = found.store_time.unwrap().since(SystemClock.now());
    assert!(off < Duration::from_secs(10), "{off:?}");
    let checks: Vec<_> = found.findings.iter().map(|finding| (finding.check, finding.severity)).collect();
    // The server of the tests is alone, one way or the other.
    let alone = if is_stand_in() { ("topology", Severity::Warning) } else { ("replicas", Severity::Info) };
    assert_eq!(checks, [alone]);
}

async fn a_missing_index_is_found() {
    let place = Place::new();
    place
        .meta()
        .await
        .insert_one(doc! { "_id": "layout", "layout": 1, "min_reader": 1, "min_writer": 1 })
        .await
        .unwrap();
    let store = place.store().await;
    assert!(is_yours(&store.reserve(&reserve("k")).await.unwrap()));
    let found = store.examine().await.unwrap();
    assert!(
        found
            .findings
            .iter()
            .any(|finding| finding.check == "index" && finding.severity == Severity::Warning)
    );
}

async fn what_the_url_asks_for_in_vain_is_found() {
    let place = Place::new();
    let store = open(&place.url("w=1&readPreference=secondary")).await.unwrap();
    let found = store.examine().await.unwrap();
    let reason = &found.findings.iter().find(|finding| finding.check == "url").unwrap().reason;
    assert!(reason.contains("readPreference, w"), "{reason}");
}

/// By more than its clock may jump.
async fn the_server_removes_nothing_before_it_is_over() {
    let place = Place::new();
    let (store, req) = (place.store().await, reserve("k"));
    let is_later = async |part: &str| {
        let record = place.record().await;
        let until = record.get_document(part).unwrap().get_i64("until").unwrap();
        let gone_at = record.get_datetime("gone_at").map(|at| at.timestamp_millis());
        gone_at.is_ok_and(|gone_at| gone_at >= until + 60 * 60 * 1000)
    };
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    assert!(is_later("pending").await);
    assert_eq!(place.record().await.get_str("_id").unwrap(), id());
    if is_stand_in() {
        // It makes text of a date that it updates, and so keeps the document.
        return;
    }
    let _ = store.extend(&req.name, &req.token, complete(&req).ttl).await.unwrap();
    assert!(is_later("pending").await);
    let _ = store.complete(&complete(&req)).await.unwrap();
    assert!(is_later("result").await);
}
