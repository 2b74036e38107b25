//! Keys of unknown outcome, and what may be done about them.

use crate::kit::{DAY, JUST_UNDER_A_DAY, Kit, code, keyed};
use hapax_core::idempotency::{IdempotencyStore, Resolution, Resolve, Resolved};
use hapax_core::{Span, Token};
use hapax_mail::{MailCategory, OnUnknown, Receipt, Stub};
use std::time::Duration;

async fn with_unknown(stub: Stub) -> Kit {
    let kit = Kit::with(stub);
    kit.stub.then(Receipt::unknown("smtp.reply_lost"));
    let _ = kit.transport.send(&keyed("k")).await;
    kit
}

#[tokio::test]
async fn unknown_key_is_kept_for_its_time_and_free_after() {
    let kit = with_unknown(Stub::new()).await;
    kit.clock.advance(JUST_UNDER_A_DAY);
    assert!(kit.transport.send(&keyed("k")).await.is_unknown());
    kit.clock.advance(Duration::from_millis(1));
    assert!(kit.transport.send(&keyed("k")).await.is_accepted());
}

#[tokio::test]
async fn retry_sends_again_with_the_same_id_and_keeps_what_came_of_it() {
    let kit = with_unknown(Stub::new()).await;
    kit.clock.advance(Duration::from_hours(1));
    let again = kit.transport.clone().with_on_unknown(OnUnknown::Retry).send(&keyed("k")).await;
    assert!(again.is_accepted() && !again.replayed);
    let calls = kit.stub.calls();
    assert_eq!(calls[0].context.frozen, calls[1].context.frozen);
    assert_eq!(calls[0].context.provider_key(), calls[1].context.provider_key());
    assert!(kit.transport.send(&keyed("k")).await.is_accepted());
    assert_eq!(kit.stub.handed(), 2);
}

#[tokio::test]
async fn retry_that_fails_leaves_the_outcome_unknown() {
    let kit = with_unknown(Stub::new()).await;
    kit.stub.then(Receipt::failed(MailCategory::Network, "smtp.connect"));
    let again = kit.transport.clone().with_on_unknown(OnUnknown::Retry).send(&keyed("k")).await;
    assert!(again.is_unknown() && again.replayed && code(&again) == "smtp.reply_lost");
    assert_eq!(kit.stub.handed(), 2);
    assert!(kit.transport.send(&keyed("k")).await.is_unknown());
}

#[tokio::test]
async fn retry_where_the_provider_deduplicates_ends_with_its_window() {
    let kit = with_unknown(Stub::deduplicating(Duration::from_hours(2))).await;
    let retrying = kit.transport.clone().with_on_unknown(OnUnknown::RetryIfDeduped);
    kit.clock.advance(Duration::from_hours(3));
    assert!(retrying.send(&keyed("k")).await.replayed);
    assert_eq!(kit.stub.handed(), 1);

    let kit = with_unknown(Stub::deduplicating(Duration::from_hours(2))).await;
    let retrying = kit.transport.clone().with_on_unknown(OnUnknown::RetryIfDeduped);
    kit.clock.advance(Duration::from_hours(1));
    assert!(!retrying.send(&keyed("k")).await.replayed);
    assert_eq!(kit.stub.handed(), 2);

    // A transport that does not say so keeps the key.
    let kit = with_unknown(Stub::new()).await;
    let retrying = kit.transport.clone().with_on_unknown(OnUnknown::RetryIfDeduped);
    assert!(retrying.send(&keyed("k")).await.replayed);
    assert_eq!(kit.stub.handed(), 1);
}

#[tokio::test]
async fn one_of_many_retries_goes() {
    let kit = with_unknown(Stub::new()).await;
    kit.stub.then_act([hapax_mail::Act::Commit, hapax_mail::Act::Yield]);
    let retrying = kit.transport.clone().with_on_unknown(OnUnknown::Retry);
    let message = keyed("k");
    let receipts = futures_util::future::join_all((0..10).map(|_| retrying.send(&message))).await;
    assert_eq!(kit.stub.handed(), 2);
    assert_eq!(receipts.iter().filter(|r| r.is_accepted() && !r.replayed).count(), 1);
}

#[tokio::test]
async fn resolved_key_answers_with_the_verdict() {
    let kit = with_unknown(Stub::new()).await;
    let receipt = Receipt::accepted().with_message_id("<seen@example.com>").to_stored();
    let resolution = Resolution::Happened { receipt, ttl: Span::new(DAY).unwrap() };
    let verdict = Resolve { name: kit.name("k"), token: Token::random().unwrap(), version: None, resolution };
    assert_eq!(kit.store.get_ref().resolve(&verdict).await.unwrap(), Resolved::Applied);
    let again = kit.transport.send(&keyed("k")).await;
    assert!(again.is_accepted() && again.replayed && again.message_id == "<seen@example.com>");

    let kit = with_unknown(Stub::new()).await;
    let verdict = Resolve {
        name: kit.name("k"),
        token: Token::random().unwrap(),
        version: None,
        resolution: Resolution::DidNot,
    };
    assert_eq!(kit.store.get_ref().resolve(&verdict).await.unwrap(), Resolved::Applied);
    assert!(!kit.transport.send(&keyed("k")).await.replayed);
}
