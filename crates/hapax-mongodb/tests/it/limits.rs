//! Rate limits.

use crate::{
    fake::{Fake, Said, name},
    support::{Place, open},
    trips::Heard,
};
use hapax_core::{
    Applied, Coded as _, Namespace, StoreErrorKind,
    limit::{Algorithm, Answer, Check, Decide, LimitKey, LimitStore, Quota},
};
use hapax_mongodb::MongoStore;
use mongodb::bson::doc;
use std::time::Duration;

crate::list!("limits";
    a_decision_over_several_limits_is_not_supported,
    a_decision_takes_a_look_and_a_write,
    a_decision_whose_reply_was_lost_is_not_sent_again,
    decisions_of_many_callers_count_each,
    what_cannot_be_read_is_told_and_goes_with_a_reset,
);

const HOUR: Duration = Duration::from_hours(1);

fn decide(checks: &[Check], dry_run: bool) -> Decide {
    Decide { namespace: Namespace::default(), checks: checks.to_vec(), dry_run }
}

fn check(quota: Quota) -> Check {
    Check::new(LimitKey::new("k").unwrap(), quota)
}

async fn ask(store: &MongoStore, check: &Check) -> Answer {
    store.decide(&decide(std::slice::from_ref(check), false)).await.unwrap().answers.pop().unwrap()
}

async fn a_decision_over_several_limits_is_not_supported() {
    let place = Place::new();
    let store = place.store().await;
    let one = check(Quota::fixed_window(5, HOUR));
    let other = Check { key: LimitKey::new("other").unwrap(), ..one.clone() };
    for checks in [&[one.clone(), other][..], &[]] {
        let error = store.decide(&decide(checks, false)).await.unwrap_err();
        assert_eq!((error.code(), error.applied()), ("store.unsupported", Applied::No), "{error}");
        assert!(error.to_string().contains("each by itself"), "{error}");
    }
    assert_eq!(ask(&store, &one).await.remaining, 4);
}

async fn a_decision_takes_a_look_and_a_write() {
    let place = Place::new();
    let heard = Heard::new(&place, "").await;
    for algorithm in Algorithm::ALL {
        let one = check(Quota::new(algorithm, 2, HOUR).unwrap());
        for (allowed, commands) in
            [(true, &["find", "insert"][..]), (true, &["find", "findAndModify"]), (false, &["find"])]
        {
            assert_eq!(ask(&heard.store, &one).await.allowed, allowed, "{algorithm}");
            assert_eq!(heard.names(), commands, "{algorithm}");
        }
        let dry = heard.store.decide(&decide(&[one], true)).await.unwrap();
        assert!(dry.answers.iter().all(|answer| !answer.allowed));
        assert_eq!(heard.names(), ["find"], "{algorithm}");
    }
}

async fn a_decision_whose_reply_was_lost_is_not_sent_again() {
    let fake = Fake::start(|command| (name(command) == "insert").then_some(Said::Nothing)).await;
    let store = open(&fake.url("")).await.unwrap();
    let one = check(Quota::fixed_window(5, HOUR));
    let error = store.decide(&decide(&[one], false)).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::Unknown), "{error}");
    assert_eq!(fake.heard("insert"), 1);
}

async fn decisions_of_many_callers_count_each() {
    let place = Place::new();
    let store = place.store().await;
    for algorithm in Algorithm::ALL {
        let one = check(Quota::new(algorithm, 1_000, HOUR * 2400).unwrap());
        let asks: Vec<_> = (0..24)
            .map(|_| {
                let (store, one) = (store.clone(), one.clone());
                tokio::spawn(async move { ask(&store, &one).await.remaining })
            })
            .collect();
        let mut left = Vec::new();
        for asked in asks {
            left.push(asked.await.unwrap());
        }
        left.sort_unstable();
        // Each sees what others took before it.
        assert_eq!(left, (976..1_000).collect::<Vec<_>>(), "{algorithm}");
    }
}

async fn what_cannot_be_read_is_told_and_goes_with_a_reset() {
    let place = Place::new();
    let (store, one) = (place.store().await, check(Quota::fixed_window(5, HOUR)));
    ask(&store, &one).await;
    let limits = place.raw().await.collection::<mongodb::bson::Document>("idempotency_limit");
    limits.update_one(doc! {}, doc! { "$set": { "form": 9 } }).await.unwrap();
    let error = store.decide(&decide(std::slice::from_ref(&one), false)).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Corrupt, Applied::No), "{error}");
    assert!(error.to_string().contains("reset the limit"), "{error}");
    store.reset(&Namespace::default(), &one.key).await.unwrap();
    assert_eq!(ask(&store, &one).await.remaining, 4);
}
