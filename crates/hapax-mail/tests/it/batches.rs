//! Many messages at once.

use crate::{
    kit::{Kit, LEASE, Logs, code, keyed, other, until},
    support::plain,
};
use futures_util::{StreamExt, stream, stream::BoxStream};
use hapax_conformance::faulty::{Fault, Step};
use hapax_mail::{
    Act, Commit, IdempotencyTransport, MailCategory, Mailer, Message, OnUnknown, Outcome, RawMessage,
    Receipt, SendContext, Stub, Transport,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

pub(crate) fn mailer(kit: &Kit) -> Mailer {
    Mailer::via(kit.stub.clone()).idempotent(&kit.idem).build().unwrap()
}

pub(crate) fn keys(n: usize) -> Vec<Message> {
    (0..n).map(|i| keyed(&format!("k:{i}"))).collect()
}

fn subjects(stub: &Stub) -> Vec<String> {
    stub.sent().iter().map(|m| m.subject().unwrap_or_default().to_owned()).collect()
}

/// Sends what is ready in one call, as a provider with a batch endpoint does.
#[derive(Debug, Clone)]
struct Native {
    stub: Stub,
    calls: Arc<AtomicUsize>,
}

impl Native {
    fn new(stub: &Stub) -> Self {
        Self { stub: stub.clone(), calls: Arc::default() }
    }
}

#[hapax_core::async_trait]
impl Transport for Native {
    fn id(&self) -> &str {
        self.stub.id()
    }
    async fn send(&self, message: &Message, context: &SendContext) -> Receipt {
        self.stub.send(message, context).await
    }
    async fn send_raw(&self, raw: &RawMessage, context: &SendContext) -> Receipt {
        self.stub.send_raw(raw, context).await
    }
    fn send_many<'a>(&'a self, messages: BoxStream<'a, (Message, SendContext)>) -> BoxStream<'a, Receipt> {
        let send = move |batch: Vec<(Message, SendContext)>| async move {
            self.calls.fetch_add(1, Ordering::SeqCst);
            let mut receipts = Vec::new();
            for (message, context) in batch {
                receipts.push(self.stub.send(&message, &context).await);
            }
            stream::iter(receipts)
        };
        messages.ready_chunks(100).then(send).flatten().boxed()
    }
    fn commit(&self) -> Commit {
        Commit::Supported
    }
}

#[tokio::test]
async fn batch_goes_through_the_batch_of_the_wrapped_transport() {
    let kit = Kit::new();
    let native = Native::new(&kit.stub);
    let transport = IdempotencyTransport::new(native.clone()).with_idempotency(&kit.idem);
    let messages = keys(64).into_iter().map(|m| (m, SendContext::default()));
    let receipts: Vec<_> = transport.send_many(stream::iter(messages).boxed()).collect().await;
    assert!(receipts.len() == 64 && receipts.iter().all(Receipt::is_accepted));
    assert_eq!(native.calls.load(Ordering::SeqCst), 1);
    let again = keys(64).into_iter().map(|m| (m, SendContext::default()));
    let receipts: Vec<_> = transport.send_many(stream::iter(again).boxed()).collect().await;
    assert!(receipts.iter().all(|r| r.replayed));
    assert_eq!(native.calls.load(Ordering::SeqCst), 1);
    assert_eq!(kit.stub.handed(), 64);
}

#[tokio::test]
async fn batch_whose_outcomes_are_known_together_takes_two_trips() {
    for concurrency in [None, Some(8)] {
        let kit = Kit::new();
        let _ = kit.transport.send(&keyed("warm up")).await;
        let before = kit.store.all_calls();
        let messages = keys(64);
        let mailer = mailer(&kit);
        let mut batch = mailer.send_many(&messages);
        if let Some(n) = concurrency {
            batch = batch.concurrency(n);
        }
        let receipts = batch.collect().await;
        assert!(receipts.iter().all(Receipt::is_accepted));
        // The mailer has asked for the secret of its store, once.
        assert_eq!((kit.store.calls(Step::Reserve), kit.store.calls(Step::Complete)), (2, 2));
        assert_eq!(kit.store.all_calls() - before, 3, "{concurrency:?}");
        let before = kit.store.all_calls();
        let _ = mailer.send_many(&messages).collect().await;
        assert_eq!(kit.store.all_calls() - before, 1);
    }
}

#[tokio::test]
async fn receipts_come_in_the_order_of_their_messages() {
    let kit = Kit::new();
    // The first ends last.
    let gate = Arc::new(Notify::new());
    kit.stub.then_act([
        Act::Commit,
        Act::Wait(Arc::clone(&gate)),
        Act::Answer(Receipt::accepted().with_provider_id("0")),
    ]);
    for i in 1..30 {
        kit.stub.then(Receipt::accepted().with_provider_id(i.to_string()));
    }
    let mailer = mailer(&kit);
    let mut batch = mailer.send_many(keys(30)).concurrency(4);
    while kit.stub.handed() < 30 {
        assert!(futures_util::poll!(std::pin::pin!(batch.next())).is_pending());
        tokio::task::yield_now().await;
    }
    // Their receipts are stored, although the first one is not out.
    until("the writes", || kit.store.calls(Step::Complete) > 0).await;
    gate.notify_one();
    let ids: Vec<_> = batch.collect().await.into_iter().map(|r| r.provider_id.unwrap()).collect();
    assert_eq!(ids, (0..30).map(|i| i.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn keys_that_were_used_before_are_answered_in_place() {
    let kit = Kit::new();
    let _ = kit.transport.send(&keyed("sent")).await;
    kit.reserve_and_die("flying", &keyed("flying")).await;
    kit.stub.then(Receipt::unknown("smtp.reply_lost"));
    let _ = kit.transport.send(&keyed("lost")).await;
    let messages = [
        keyed("new:1"),
        keyed("sent"),
        keyed("flying"),
        plain().build().unwrap(),
        keyed("lost"),
        other("sent"),
        keyed("new:2"),
    ];
    let receipts = mailer(&kit).send_many(&messages).collect().await;
    let seen: Vec<_> = receipts.iter().map(|r| (code(r), r.replayed)).collect();
    assert_eq!(
        seen,
        [
            ("none", false),
            ("none", true),
            ("idempotency.in_flight", false),
            ("none", false),
            ("smtp.reply_lost", true),
            ("idempotency.key_reused", false),
            ("none", false),
        ]
    );
    assert_eq!(kit.stub.handed(), 2 + 3);
}

#[tokio::test]
async fn second_message_of_a_key_gets_a_copy_of_the_receipt() {
    for concurrency in [1, 5] {
        let kit = Kit::new();
        kit.stub.then_act([
            Act::Yield,
            Act::Commit,
            Act::Yield,
            Act::Answer(Receipt::accepted().with_provider_id("q")),
        ]);
        let messages = [keyed("k"), keyed("k"), keyed("other"), keyed("k")];
        let receipts = mailer(&kit).send_many(&messages).concurrency(concurrency).collect().await;
        let seen: Vec<_> =
            receipts.iter().map(|r| (r.copied, r.replayed, r.provider_id.as_deref())).collect();
        assert_eq!(
            seen,
            [
                (false, false, Some("q")),
                (true, true, Some("q")),
                (false, false, None),
                (true, true, Some("q"))
            ]
        );
        assert_eq!(kit.stub.handed(), 2);
    }
}

#[tokio::test]
async fn copy_of_a_failure_is_not_sent() {
    let kit = Kit::new();
    kit.stub.then(Receipt::failed(MailCategory::Network, "smtp.connect"));
    let receipts = mailer(&kit).send_many(&[keyed("k"), keyed("k")]).collect().await;
    for receipt in &receipts {
        let Outcome::Failed(failure) = &receipt.outcome else { panic!("{receipt:?}") };
        assert!(failure.code == "smtp.connect" && failure.retryable);
    }
    assert!(!receipts[0].copied && receipts[1].copied);
    assert_eq!(kit.stub.handed(), 1);
    assert!(kit.record("k").await.is_none());
}

#[tokio::test]
async fn copy_of_what_the_store_refused_is_not_sent() {
    let kit = Kit::new();
    kit.store.inject(Step::Reserve, Fault::Before);
    let receipts = mailer(&kit).send_many(&[keyed("k"), keyed("k")]).collect().await;
    assert!(receipts.iter().all(|r| code(r) == "idempotency.store_failed" && !r.replayed));
    assert_eq!(kit.stub.handed(), 0);
}

#[tokio::test]
async fn another_message_under_a_key_of_the_batch_is_refused_at_once() {
    let kit = Kit::new();
    let (logs, _guard) = Logs::collect();
    kit.stub.then_act([Act::Commit, Act::Hang]);
    let gate = Arc::new(Notify::new());
    let first = plain().build().unwrap();
    let mailer = mailer(&kit);
    let mut batch = mailer.send_stream(stream::iter([other("k"), keyed("k"), first])).concurrency(2);
    // The first one never ends; the answer to the second is known all the same.
    assert!(futures_util::poll!(std::pin::pin!(batch.next())).is_pending());
    assert_eq!(logs.codes(tracing::Level::WARN), ["idempotency.key_reused"]);
    drop((batch, gate));
    let receipts = mailer.send_many(&[keyed("j"), other("j")]).collect().await;
    assert!(receipts[0].is_accepted());
    assert_eq!(
        (code(&receipts[1]), receipts[1].failure().unwrap().category),
        ("idempotency.key_reused", MailCategory::Validation)
    );
}

#[tokio::test]
async fn beyond_the_window_the_store_answers() {
    let kit = Kit::with(Stub::forgetful());
    let messages: Vec<_> = (0..3000).map(|i| keyed(&format!("k:{}", i % 1500))).collect();
    let receipts = mailer(&kit).send_many(&messages).collect().await;
    assert_eq!(kit.stub.handed(), 1500);
    assert!(receipts[..1500].iter().all(|r| !r.replayed));
    assert!(receipts[1500..].iter().all(|r| r.replayed && !r.copied));
}

#[tokio::test]
async fn messages_are_pulled_no_further_than_the_window() {
    let kit = Kit::new();
    kit.stub.then_act([Act::Commit, Act::Hang]);
    let pulled = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&pulled);
    let messages = (0..5000).map(move |i| {
        counted.fetch_add(1, Ordering::SeqCst);
        keyed(&format!("k:{i}"))
    });
    let mailer = mailer(&kit);
    let mut batch = mailer.send_many(messages).concurrency(4);
    for _ in 0..1000 {
        assert!(futures_util::poll!(std::pin::pin!(batch.next())).is_pending());
        tokio::task::yield_now().await;
    }
    // Everything in the window but the first was sent.
    assert_eq!(pulled.load(Ordering::SeqCst), 1024);
    assert_eq!(kit.stub.handed(), 1024);
}

#[tokio::test]
async fn big_messages_wait_outside() {
    let kit = Kit::new();
    kit.stub.then_act([Act::Hang]);
    let pulled = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&pulled);
    let attached = plain().attach("a.bin", "application/octet-stream", vec![7; 1024 * 1024]).build().unwrap();
    let messages = (0..100).map(move |i| {
        counted.fetch_add(1, Ordering::SeqCst);
        attached.with_idempotency_key(&format!("k:{i}")).unwrap()
    });
    let mailer = mailer(&kit);
    let mut batch = mailer.send_many(messages).concurrency(1);
    for _ in 0..100 {
        assert!(futures_util::poll!(std::pin::pin!(batch.next())).is_pending());
        tokio::task::yield_now().await;
    }
    assert!(pulled.load(Ordering::SeqCst) <= 10, "{pulled:?}");
}

#[tokio::test(start_paused = true)]
async fn keys_reserved_ahead_are_renewed_until_they_start() {
    let kit = Kit::new();
    let gate = Arc::new(Notify::new());
    kit.stub.then_act([Act::Commit, Act::Wait(Arc::clone(&gate))]);
    let mailer = mailer(&kit);
    let mut batch = mailer.send_many(keys(10)).concurrency(1);
    while kit.stub.handed() < 1 {
        assert!(futures_util::poll!(std::pin::pin!(batch.next())).is_pending());
    }
    kit.pass(LEASE * 3).await;
    assert_eq!(code(&kit.transport.send(&keyed("k:9")).await), "idempotency.in_flight");
    gate.notify_one();
    let receipts = batch.collect().await;
    assert!(receipts.iter().all(|r| r.is_accepted() && !r.replayed));
}

#[tokio::test(start_paused = true)]
async fn slow_provider_is_not_given_more_keys_than_start_within_a_quarter_of_the_lease() {
    let kit = Kit::new();
    let mailer = Mailer::via(Slow(kit.stub.clone()))
        .idempotent(&kit.idem)
        .lease(Duration::from_mins(1))
        .scope("mail:stub")
        .build()
        .unwrap();
    let mut batch = mailer.send_many(keys(300)).concurrency(1);
    for _ in 0..80 {
        assert!(batch.next().await.unwrap().is_accepted());
    }
    // Five seconds each, so three in fifteen.
    let mut held = 0;
    for i in 80..300 {
        held += usize::from(kit.record(&format!("k:{i}")).await.is_some());
    }
    assert!(held <= 5, "{held}");
}

/// Takes five seconds for each message.
#[derive(Debug)]
struct Slow(Stub);

#[hapax_core::async_trait]
impl Transport for Slow {
    fn id(&self) -> &str {
        self.0.id()
    }
    async fn send(&self, message: &Message, context: &SendContext) -> Receipt {
        tokio::time::sleep(Duration::from_secs(5)).await;
        self.0.send(message, context).await
    }
    async fn send_raw(&self, raw: &RawMessage, context: &SendContext) -> Receipt {
        self.0.send_raw(raw, context).await
    }
    fn commit(&self) -> Commit {
        Commit::Supported
    }
}

#[tokio::test]
async fn batch_tries_unknown_keys_again_where_that_is_wanted() {
    let kit = Kit::new();
    kit.stub.then(Receipt::unknown("smtp.reply_lost"));
    let _ = kit.transport.send(&keyed("k:1")).await;
    let mailer =
        Mailer::via(kit.stub.clone()).idempotent(&kit.idem).on_unknown(OnUnknown::Retry).build().unwrap();
    let receipts = mailer.send_many(keys(3)).collect().await;
    assert!(receipts.iter().all(|r| r.is_accepted() && !r.replayed));
    assert_eq!(kit.stub.handed(), 4);
}

#[tokio::test]
async fn messages_without_keys_need_no_store_and_bad_keys_none_either() {
    let kit = Kit::new();
    let keyless: Vec<_> = (0..5).map(|i| plain().subject(i.to_string()).build().unwrap()).collect();
    let receipts = mailer(&kit).send_many(&keyless).collect().await;
    assert!(receipts.iter().all(|r| r.is_accepted() && !r.replayed));
    assert_eq!(subjects(&kit.stub), ["0", "1", "2", "3", "4"]);
    assert_eq!(kit.store.all_calls(), 0);
    let bad =
        Mailer::via(kit.stub.clone()).idempotent(&kit.idem).key(|_| Some(String::new())).build().unwrap();
    let receipts = bad.send_many(&keyless).collect().await;
    assert!(receipts.iter().all(|r| code(r) == "idempotency.invalid"));
    assert_eq!(kit.store.all_calls(), 0);
}

#[tokio::test]
async fn batch_can_be_spawned_and_its_messages_borrowed() {
    let kit = Kit::new();
    let (mailer, messages) = (mailer(&kit), keys(5));
    let count = mailer.send_many(&messages[1..3]).collect().await.len();
    let spawned = tokio::spawn(async move { mailer.send_many(&messages).concurrency(2).collect().await });
    assert_eq!((count, spawned.await.unwrap().len()), (2, 5));
}
