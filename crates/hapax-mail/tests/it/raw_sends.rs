//! Raw messages through the decorator.

use crate::kit::{Kit, code};
use hapax_mail::{MailCategory, Outcome, RawMessage, SendContext, Transport};

fn raw() -> RawMessage {
    RawMessage::new("shop@example.com", ["ada@example.com"], "Subject: hi\r\n\r\nhi\r\n")
}

#[tokio::test]
async fn raw_message_without_a_key_from_either_side_goes_as_it_is() {
    let kit = Kit::new();
    for _ in 0..2 {
        assert!(!kit.transport.send_raw(&raw()).await.replayed);
    }
    // The option for messages says nothing about raw ones.
    let keyed = kit.transport.clone().with_key(|_| Some("k".to_owned()));
    for _ in 0..2 {
        assert!(!keyed.send_raw(&raw()).await.replayed);
    }
    assert_eq!((kit.stub.handed(), kit.store.all_calls()), (4, 0));
}

#[tokio::test]
async fn raw_message_is_sent_once_under_the_key_of_the_option_or_its_own() {
    let kit = Kit::new();
    let by_option = kit.transport.clone().with_raw_key(|raw| raw.to.first().map(|to| format!("raw:{to}")));
    assert!(!by_option.send_raw(&raw()).await.replayed);
    assert!(by_option.send_raw(&raw()).await.replayed);
    let own = raw().with_idempotency_key("raw:own");
    assert!(!kit.transport.send_raw(&own).await.replayed);
    assert!(kit.transport.send_raw(&own).await.replayed);
    // The option comes first.
    assert!(by_option.send_raw(&own).await.replayed);
    assert!(kit.transport.clone().with_raw_key(|_| None).send_raw(&own).await.replayed);
    assert_eq!(kit.stub.handed(), 2);
}

#[tokio::test]
async fn envelope_is_the_fingerprint_of_a_raw_message() {
    let kit = Kit::new();
    let _ = kit.transport.send_raw(&raw().with_idempotency_key("k")).await;
    let other_bytes = RawMessage::new("shop@example.com", ["ada@example.com"], "Subject: ho\r\n\r\nho\r\n");
    assert!(kit.transport.send_raw(&other_bytes.with_idempotency_key("k")).await.replayed);
    for changed in [
        RawMessage::new("else@example.com", ["ada@example.com"], "Subject: hi\r\n\r\nhi\r\n"),
        RawMessage::new("shop@example.com", ["bob@example.com"], "Subject: hi\r\n\r\nhi\r\n"),
        RawMessage::new(
            "shop@example.com",
            ["ada@example.com", "bob@example.com"],
            "Subject: hi\r\n\r\nhi\r\n",
        ),
    ] {
        let receipt = kit.transport.send_raw(&changed.with_idempotency_key("k")).await;
        assert_eq!(code(&receipt), "idempotency.key_reused");
    }
}

#[tokio::test]
async fn raw_message_that_cannot_be_sent_holds_no_key() {
    let kit = Kit::new();
    let bad = RawMessage::new("shop@example.com", Vec::<String>::new(), "Subject: hi\r\n\r\nhi\r\n");
    let receipt = kit.transport.send_raw(&bad.with_idempotency_key("k")).await;
    let Outcome::Failed(failure) = &receipt.outcome else { panic!("{receipt:?}") };
    assert_eq!((&*failure.code, failure.category), ("message.no_recipient", MailCategory::Validation));
    assert_eq!((kit.stub.handed(), kit.store.all_calls()), (0, 0));
}

#[tokio::test]
async fn raw_message_gets_an_id_from_its_key_where_it_has_none() {
    let kit = Kit::new();
    let first = kit.transport.send_raw(&raw().with_idempotency_key("k")).await;
    assert!(first.message_id.ends_with("@example.com>"));
    let own = "Message-ID: <own@example.com>\r\nSubject: hi\r\n\r\nhi\r\n";
    let with_own = RawMessage::new("shop@example.com", ["ada@example.com"], own).with_idempotency_key("own");
    assert_eq!(kit.transport.send_raw(&with_own).await.message_id, "<own@example.com>");
    // The trait's form does the same.
    let replay =
        Transport::send_raw(&kit.transport, &raw().with_idempotency_key("k"), &SendContext::default()).await;
    assert!(replay.replayed && replay.message_id == first.message_id);
}
