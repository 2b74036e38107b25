//! How a key is kept: one send after another.

use crate::{
    kit::{DAY, Kit, code, keyed, other, until},
    support::plain,
};
use hapax_conformance::faulty::{Fault, Step};
use hapax_core::{
    Timestamp,
    idempotency::{IdempotencyStore, RecordState},
};
use hapax_mail::{
    Act, Commit, IdempotencyTransport, MailCategory, Message, MessageBuilder, Outcome, RawMessage, Receipt,
    SendContext, Stub, Transport, fingerprint,
};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;

#[tokio::test]
async fn later_send_answers_with_the_receipt_of_the_first() {
    let kit = Kit::new();
    kit.stub.then(Receipt::accepted().with_provider_id("q-1").with_response("250 queued"));
    let first = kit.transport.send(&keyed("welcome:1")).await;
    let second = kit.transport.send(&keyed("welcome:1")).await;
    assert!(first.is_accepted() && !first.replayed && second.replayed);
    let mut as_first = second;
    as_first.replayed = false;
    assert_eq!(as_first, first);
    assert_eq!(kit.stub.handed(), 1);
}

#[tokio::test]
async fn a_transport_and_a_key_are_all_it_takes() {
    let stub = Stub::new();
    let transport = IdempotencyTransport::new(stub.clone());
    let welcome = || {
        Message::builder()
            .from("shop@example.com")
            .to("ada@example.com")
            .subject("Welcome")
            .html("<p>Welcome aboard.</p>")
            .idempotency_key("welcome:7")
            .build()
            .unwrap()
    };
    assert!(transport.send(&welcome()).await.is_accepted());
    assert!(transport.send(&welcome()).await.replayed);
    assert_eq!(stub.handed(), 1);
}

#[tokio::test]
async fn decorator_is_a_transport_like_any_other() {
    let kit = Kit::new();
    let transport: Arc<dyn Transport> = Arc::new(kit.transport.clone());
    let context = SendContext::default();
    assert!(transport.send(&keyed("k"), &context).await.is_accepted());
    assert_eq!((transport.id(), transport.commit()), ("stub", Commit::Supported));
    // The layers around it learn that something may have gone.
    assert!(context.is_committed());
}

#[tokio::test]
async fn key_is_reserved_before_the_message_is_sent() {
    let kit = Kit::new();
    let gate = Arc::new(Notify::new());
    kit.stub.then_act([Act::Wait(Arc::clone(&gate))]);
    let (transport, message) = (kit.transport.clone(), keyed("k"));
    let sending = tokio::spawn(async move { transport.send(&message).await });
    until("the send", || kit.stub.handed() == 1).await;
    assert!(kit.record("k").await.unwrap().is_pending());
    gate.notify_one();
    assert!(sending.await.unwrap().is_accepted());
    assert!(!kit.record("k").await.unwrap().is_pending());
}

#[tokio::test]
async fn of_many_sends_at_once_one_goes() {
    let kit = Kit::new();
    kit.stub.then_act([Act::Yield, Act::Commit, Act::Yield]);
    let sends = (0..50).map(|_| kit.transport.send_with_default(keyed("k")));
    let receipts = futures_util::future::join_all(sends).await;
    assert_eq!(kit.stub.handed(), 1);
    let fresh = receipts.iter().filter(|receipt| receipt.is_accepted() && !receipt.replayed).count();
    assert_eq!(fresh, 1);
    assert!(receipts.iter().all(|r| r.is_accepted() || code(r) == "idempotency.in_flight"));
}

#[tokio::test]
async fn send_in_flight_is_answered_with_unknown_delivery_and_not_sent() {
    let kit = Kit::new();
    kit.reserve_and_die("k", &keyed("k")).await;
    kit.clock.advance(Duration::from_mins(4));
    let receipt = kit.transport.send(&keyed("k")).await;
    let Outcome::Unknown(failure) = &receipt.outcome else { panic!("{receipt:?}") };
    assert_eq!((&*failure.code, failure.category), ("idempotency.in_flight", MailCategory::Unknown));
    assert!(!failure.retryable);
    // The rest of the lease.
    assert_eq!(failure.retry_after, Some(Duration::from_mins(6)));
    assert_eq!(kit.stub.handed(), 0);
}

#[tokio::test]
async fn send_that_may_have_gone_answers_with_its_receipt() {
    let kit = Kit::new();
    kit.stub.then(Receipt::unknown("smtp.reply_lost").with_response("connection reset"));
    let first = kit.transport.send(&keyed("k")).await;
    for _ in 0..3 {
        let again = kit.transport.send(&keyed("k")).await;
        assert!(again.is_unknown() && again.replayed);
        assert_eq!((code(&again), &again.response), ("smtp.reply_lost", &first.response));
    }
    assert_eq!(kit.stub.handed(), 1);
}

#[tokio::test]
async fn another_message_under_the_key_is_refused_as_validation() {
    let kit = Kit::new();
    let _ = kit.transport.send(&keyed("k")).await;
    let receipt = kit.transport.send(&other("k")).await;
    let Outcome::Failed(failure) = &receipt.outcome else { panic!("{receipt:?}") };
    assert_eq!((&*failure.code, failure.category), ("idempotency.key_reused", MailCategory::Validation));
    assert!(!failure.retryable);
    assert_eq!(kit.stub.handed(), 1);
}

#[tokio::test]
async fn another_message_is_refused_while_the_first_is_in_flight() {
    let kit = Kit::new();
    kit.reserve_and_die("k", &keyed("k")).await;
    assert_eq!(code(&kit.transport.send(&other("k")).await), "idempotency.key_reused");
}

#[tokio::test]
async fn failed_send_frees_its_key() {
    let kit = Kit::new();
    kit.stub.then(Receipt::failed(MailCategory::Network, "smtp.connect"));
    let failed = kit.transport.send(&keyed("k")).await;
    assert!(matches!(&failed.outcome, Outcome::Failed(failure) if failure.retryable));
    assert!(kit.record("k").await.is_none());
    let second = kit.transport.send(&keyed("k")).await;
    assert!(second.is_accepted() && !second.replayed);
    assert_eq!(kit.stub.handed(), 2);
}

#[tokio::test]
async fn certain_refusal_frees_its_key_unless_it_is_to_be_kept() {
    let kit = Kit::new();
    let refusal = || Receipt::failed(MailCategory::Rejected, "smtp.rejected");
    kit.stub.then(refusal());
    let _ = kit.transport.send(&keyed("freed")).await;
    assert!(kit.record("freed").await.is_none());

    let keeping = kit.transport.clone().keep_rejected();
    kit.stub.then(refusal()).then(Receipt::failed(MailCategory::Service, "smtp.busy"));
    let _ = keeping.send(&keyed("kept")).await;
    let again = keeping.send(&keyed("kept")).await;
    assert!(again.replayed && code(&again) == "smtp.rejected" && matches!(again.outcome, Outcome::Failed(_)));
    let _ = keeping.send(&keyed("busy")).await;
    assert!(kit.record("busy").await.is_none());
}

#[tokio::test]
async fn whatever_a_reader_would_see_tells_one_message_from_another() {
    type Change = fn(MessageBuilder) -> MessageBuilder;
    let changes: Vec<(&str, Change)> = vec![
        ("to", |m| m.to("bob@example.com")),
        ("cc", |m| m.cc("bob@example.com")),
        ("bcc", |m| m.bcc("bob@example.com")),
        ("reply_to", |m| m.reply_to("bob@example.com")),
        ("subject", |m| m.subject("Else")),
        ("text", |m| m.text("Else")),
        ("html", |m| m.html("<p>Else</p>")),
        ("header", |m| m.header("X-Else", "1")),
        ("attachment name", |m| m.attach("b.txt", "text/plain", "a")),
        ("attachment type", |m| m.attach("a.txt", "text/csv", "a")),
        ("in_reply_to", |m| m.in_reply_to("<x@example.com>")),
        ("reference", |m| m.reference("<x@example.com>")),
        ("send_at", |m| m.send_at(Timestamp::from_millis(1_900_000_000_000))),
        ("tracking", |m| m.track_opens(true)),
        ("metadata", |m| m.metadata("a", "b")),
    ];
    let kit = Kit::new();
    let base = || plain().idempotency_key("k");
    let first = base().attach("a.txt", "text/plain", "a").build().unwrap();
    let _ = kit.transport.send(&first).await;
    for (what, change) in changes {
        let attached =
            if what.starts_with("attachment") { base() } else { base().attach("a.txt", "text/plain", "a") };
        let receipt = kit.transport.send(&change(attached).build().unwrap()).await;
        assert_eq!(code(&receipt), "idempotency.key_reused", "{what}");
    }
    // The bytes of attachments do not count, unless asked for.
    let other_bytes = base().attach("a.txt", "text/plain", "other bytes").build().unwrap();
    assert!(kit.transport.send(&other_bytes).await.replayed);
    let strict = kit.transport.clone().with_strict_fingerprint().with_namespace("strict");
    let _ = strict.send(&first).await;
    assert_eq!(code(&strict.send(&other_bytes).await), "idempotency.key_reused");
}

#[tokio::test]
async fn message_without_a_key_goes_as_it_is() {
    let kit = Kit::new();
    let message = plain().build().unwrap();
    for _ in 0..2 {
        let receipt = kit.transport.send(&message).await;
        assert!(receipt.is_accepted() && !receipt.replayed);
    }
    assert_eq!(kit.stub.handed(), 2);
    assert_eq!(kit.store.all_calls(), 0);
    let calls = kit.stub.calls();
    assert!(calls.iter().all(|call| call.context.frozen.is_none() && call.context.provider_key().is_none()));
}

#[tokio::test]
async fn receipts_made_here_are_of_category_unknown_except_for_a_reused_key() {
    let kit = Kit::new();
    kit.reserve_and_die("in_flight", &keyed("in_flight")).await;
    let in_flight = kit.transport.send(&keyed("in_flight")).await;
    kit.store.inject(Step::Reserve, Fault::Before);
    let store_failed = kit.transport.send(&keyed("store")).await;
    kit.stub.then_act([Act::Commit, Act::Panic]);
    let aborted = kit.transport.send(&keyed("aborted")).await;
    let reused = kit.transport.send(&other("aborted")).await;
    let seen =
        [&in_flight, &store_failed, &aborted, &reused].map(|r| (code(r), r.failure().unwrap().category));
    assert_eq!(
        seen,
        [
            ("idempotency.in_flight", MailCategory::Unknown),
            ("idempotency.store_failed", MailCategory::Unknown),
            ("idempotency.aborted", MailCategory::Unknown),
            ("idempotency.key_reused", MailCategory::Validation),
        ]
    );
}

/// Tries twice, as a decorator for retries does.
#[derive(Debug)]
struct Twice(Stub);

#[hapax_core::async_trait]
impl Transport for Twice {
    fn id(&self) -> &str {
        self.0.id()
    }
    async fn send(&self, message: &Message, context: &SendContext) -> Receipt {
        let first = self.0.send(message, context).await;
        if first.is_accepted() { first } else { self.0.send(message, &context.clone().with_attempt(2)).await }
    }
    async fn send_raw(&self, raw: &RawMessage, context: &SendContext) -> Receipt {
        self.0.send_raw(raw, context).await
    }
    fn commit(&self) -> Commit {
        self.0.commit()
    }
}

#[tokio::test]
async fn all_attempts_of_a_send_share_one_reservation_one_id_and_one_date() {
    let kit = Kit::new();
    let transport = IdempotencyTransport::new(Twice(kit.stub.clone())).with_idempotency(&kit.idem);
    kit.stub.then(Receipt::failed(MailCategory::Network, "smtp.connect"));
    let receipt = transport.send(&keyed("k")).await;
    assert!(receipt.is_accepted());
    assert_eq!((kit.store.calls(Step::Reserve), kit.store.calls(Step::Complete)), (1, 1));
    let calls = kit.stub.calls();
    assert_eq!(calls.len(), 2);
    let frozen: Vec<_> = calls.iter().map(|call| call.context.frozen.clone().unwrap()).collect();
    assert_eq!(frozen[0], frozen[1]);
    assert_eq!(calls[0].context.provider_key().unwrap(), calls[1].context.provider_key().unwrap());
    assert_eq!(receipt.message_id, frozen[0].message_id);
}

#[tokio::test]
async fn message_id_comes_from_the_key_and_the_store_and_the_date_from_the_reservation() {
    let kit = Kit::new();
    kit.clock.advance(Duration::from_millis(1234));
    kit.stub.then(Receipt::failed(MailCategory::Network, "smtp.connect"));
    let first = kit.transport.send(&keyed("k")).await;
    let second = kit.transport.send(&keyed("k")).await;
    assert_eq!(first.message_id, second.message_id);
    let secret = kit.store.secret().await.unwrap().unwrap();
    let expected = hapax_mail::derive_message_id(
        &secret,
        "default",
        "mail:stub",
        "k",
        &fingerprint(&keyed("k")),
        "example.com",
    );
    assert_eq!(second.message_id, expected);
    let context = kit.stub.calls().pop().unwrap().context;
    let date = context.frozen.unwrap().date;
    assert_eq!(date.as_millis() % 1000, 0);
    assert_eq!(hapax_core::Clock::now(&kit.clock).since(date), Duration::from_millis(234));
    assert_eq!(second.first_at, Some(hapax_core::Clock::now(&kit.clock)));
    // Another store has another secret.
    assert_ne!(Kit::new().transport.send(&keyed("k")).await.message_id, expected);
    // The caller's own id wins.
    let own = plain().message_id("<own@example.com>").idempotency_key("own").build().unwrap();
    assert_eq!(kit.transport.send(&own).await.message_id, "<own@example.com>");
}

#[tokio::test]
async fn fresh_send_takes_two_trips_and_a_replay_one_that_writes_nothing() {
    let kit = Kit::new();
    let _ = kit.transport.send(&keyed("warm up")).await;
    let before = kit.store.all_calls();
    let _ = kit.transport.send(&keyed("k")).await;
    assert_eq!(kit.store.all_calls() - before, 2);
    let version = kit.record("k").await.unwrap().version();
    let _ = kit.transport.send(&keyed("k")).await;
    assert_eq!(kit.store.all_calls() - before, 3);
    assert_eq!(kit.record("k").await.unwrap().version(), version);
}

#[tokio::test]
async fn receipt_that_cannot_be_read_is_held_and_never_sent_again() {
    let kit = Kit::new();
    let now = hapax_core::Clock::now(&kit.clock);
    for (key, codec, kind, expected) in [
        ("newer", "mail-receipt/9", hapax_core::idempotency::Kind::Done, "idempotency.unreadable"),
        ("dropped", "hapax.aborted/1", hapax_core::idempotency::Kind::Unknown, "idempotency.aborted"),
    ] {
        let complete = hapax_core::idempotency::Complete {
            name: kit.name(key),
            token: hapax_core::Token::random().unwrap(),
            fingerprint: fingerprint(&keyed(key)),
            kind,
            receipt: hapax_core::idempotency::Receipt::new(codec, "?"),
            ttl: hapax_core::Span::new(DAY).unwrap(),
        };
        let _ = kit.store.get_ref().complete(&complete).await.unwrap();
        let receipt = kit.transport.send(&keyed(key)).await;
        assert!(receipt.is_unknown() && receipt.replayed);
        assert_eq!(code(&receipt), expected);
        assert_eq!(receipt.first_at, Some(now));
        assert!(matches!(kit.record(key).await.unwrap().state, RecordState::Settled { .. }));
    }
    assert_eq!(kit.stub.handed(), 0);
}

trait SendDefault {
    async fn send_with_default(&self, message: Message) -> Receipt;
}

impl SendDefault for IdempotencyTransport<Stub> {
    async fn send_with_default(&self, message: Message) -> Receipt {
        self.send(&message).await
    }
}
