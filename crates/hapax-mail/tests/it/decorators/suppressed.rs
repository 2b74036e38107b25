//! Recipients that get no mail.

use crate::{
    kit::{Kit, code, keyed},
    support::plain,
};
use hapax_mail::{
    FailureScope, IdempotencyTransport, RawMessage, SendContext, Stub, Suppressing, SuppressionList,
    Transport,
};

fn list() -> SuppressionList {
    "bob@example.com\n@gone.example\n".parse().unwrap()
}

#[tokio::test]
async fn who_is_on_the_list_is_left_out_and_the_others_get_the_mail() {
    let stub = Stub::new();
    let suppressing = Suppressing::new(stub.clone(), list());
    let message = plain().cc("BOB@example.com").bcc("x@gone.example").build().unwrap();
    let receipt = suppressing.send(&message, &SendContext::default()).await;
    assert!(receipt.is_accepted());
    assert_eq!(receipt.accepted, ["ada@example.com"]);
    let left_out: Vec<_> = receipt.rejected.iter().map(|rejected| rejected.address.as_str()).collect();
    assert_eq!(left_out, ["BOB@example.com", "x@gone.example"]);
    let sent = stub.sent().pop().unwrap();
    assert_eq!((sent.to().len(), sent.cc().len(), sent.bcc().len()), (1, 0, 0));
    // A mail that is ready: by its envelope.
    let raw =
        RawMessage::new("a@example.com", ["bob@example.com", "c@example.com"], "Subject: hi\r\n\r\nhi\r\n");
    assert!(suppressing.send_raw(&raw, &SendContext::default()).await.is_accepted());
    assert_eq!(stub.calls().pop().unwrap().raw.unwrap().to, ["c@example.com"]);
}

#[tokio::test]
async fn where_nobody_is_left_nothing_is_sent() {
    let stub = Stub::new();
    let suppressing = Suppressing::new(stub.clone(), list());
    let message =
        hapax_mail::Message::builder().from("a@example.com").to("bob@example.com").text("").build().unwrap();
    let receipt = suppressing.send(&message, &SendContext::default()).await;
    assert_eq!(
        (code(&receipt), receipt.failure().unwrap().scope),
        ("mail.suppressed", FailureScope::Recipient)
    );
    assert!(!receipt.failure().unwrap().retryable);
    let raw = RawMessage::new("a@example.com", ["bob@example.com"], "Subject: hi\r\n\r\nhi\r\n");
    assert_eq!(code(&suppressing.send_raw(&raw, &SendContext::default()).await), "mail.suppressed");
    assert_eq!(stub.handed(), 0);
}

#[tokio::test]
async fn what_a_key_stands_for_does_not_change_with_the_list() {
    let kit = Kit::new();
    let with = |list: SuppressionList| {
        IdempotencyTransport::new(Suppressing::new(kit.stub.clone(), list)).with_idempotency(&kit.idem)
    };
    assert!(with(SuppressionList::default()).send(&keyed("k")).await.is_accepted());
    assert!(with("ada@example.com".parse().unwrap()).send(&keyed("k")).await.replayed);
}
