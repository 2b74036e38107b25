//! How batches end when something goes wrong, or is stopped.

use crate::{
    batches::{keys, mailer},
    kit::{Kit, code, keyed},
};
use futures_util::{StreamExt, stream, stream::BoxStream};
use hapax_conformance::faulty::{Fault, Step};
use hapax_mail::{
    Act, Commit, MailCategory, Mailer, Message, Outcome, RawMessage, Receipt, SendContext, Stub, Transport,
};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Answers fewer, or more, messages than it was given.
#[derive(Debug)]
struct Miscounts {
    stub: Stub,
    extra: bool,
}

#[hapax_core::async_trait]
impl Transport for Miscounts {
    fn id(&self) -> &'static str {
        "miscounts"
    }
    async fn send(&self, message: &Message, context: &SendContext) -> Receipt {
        self.stub.send(message, context).await
    }
    async fn send_raw(&self, raw: &RawMessage, context: &SendContext) -> Receipt {
        self.stub.send_raw(raw, context).await
    }
    fn send_many<'a>(&'a self, messages: BoxStream<'a, (Message, SendContext)>) -> BoxStream<'a, Receipt> {
        let commit = |(i, (_, context)): (usize, (Message, SendContext))| async move {
            if i == 1 {
                context.commit();
            }
        };
        if self.extra {
            let twice = |()| stream::iter([Receipt::accepted(), Receipt::accepted()]);
            return messages.enumerate().then(commit).flat_map(twice).boxed();
        }
        // Takes three, and ends.
        messages.take(3).enumerate().then(commit).filter_map(|()| async { None }).boxed()
    }
    fn commit(&self) -> Commit {
        Commit::Supported
    }
}

/// Ends without taking anything.
#[derive(Debug)]
struct Refuses;

#[hapax_core::async_trait]
impl Transport for Refuses {
    fn id(&self) -> &'static str {
        "refuses"
    }
    async fn send(&self, _: &Message, _: &SendContext) -> Receipt {
        Receipt::accepted()
    }
    async fn send_raw(&self, _: &RawMessage, _: &SendContext) -> Receipt {
        Receipt::accepted()
    }
    fn send_many<'a>(&'a self, _: BoxStream<'a, (Message, SendContext)>) -> BoxStream<'a, Receipt> {
        stream::empty().boxed()
    }
}

#[tokio::test]
async fn one_receipt_for_each_message_whatever_happens() {
    for concurrency in [None, Some(3)] {
        let kit = Kit::new();
        kit.stub
            .then(Receipt::accepted())
            .then_act([Act::Panic])
            .then_act([Act::Commit, Act::Panic])
            .then(Receipt::failed(MailCategory::Rejected, "smtp.rejected"))
            .then(Receipt::unknown("smtp.reply_lost"));
        let mailer = mailer(&kit);
        let mut batch = mailer.send_many(keys(6));
        if let Some(n) = concurrency {
            batch = batch.concurrency(n);
        }
        let receipts = batch.collect().await;
        let codes: Vec<_> = receipts.iter().map(code).collect();
        assert_eq!(
            codes,
            ["none", "mail.panicked", "idempotency.aborted", "smtp.rejected", "smtp.reply_lost", "none"],
            "{concurrency:?}"
        );
        let free = [false, true, false, true, false, false];
        for (i, free) in free.into_iter().enumerate() {
            assert_eq!(kit.record(&format!("k:{i}")).await.is_none(), free, "{concurrency:?} {i}");
        }
    }
}

#[tokio::test]
async fn transport_that_forgets_receipts_costs_nobody_theirs() {
    let kit = Kit::new();
    let transport = Miscounts { stub: kit.stub.clone(), extra: false };
    let mailer = Mailer::via(transport).idempotent(&kit.idem).scope("mail:stub").build().unwrap();
    let receipts = mailer.send_many(keys(7)).collect().await;
    assert_eq!(receipts.len(), 7);
    assert!(receipts.iter().all(|r| code(r) == "mail.no_receipt"));
    // Three at a time, and the second of each has gone so far that nobody knows.
    let unknown: Vec<_> = receipts.iter().map(Receipt::is_unknown).collect();
    assert_eq!(unknown, [false, true, false, false, true, false, false]);
    assert!(kit.is_free("k:0").await && !kit.is_free("k:1").await);
}

#[tokio::test]
async fn receipts_that_nobody_asked_for_are_ignored() {
    let kit = Kit::new();
    let transport = Miscounts { stub: kit.stub.clone(), extra: true };
    let mailer = Mailer::via(transport).idempotent(&kit.idem).build().unwrap();
    let receipts = mailer.send_many(keys(3)).collect().await;
    assert!(receipts.len() == 3 && receipts.iter().all(Receipt::is_accepted));
}

#[tokio::test]
async fn transport_that_takes_nothing_ends_all_the_same() {
    let kit = Kit::new();
    let mailer = Mailer::via(Refuses).idempotent(&kit.idem).build().unwrap();
    let receipts = mailer.send_many(keys(3)).collect().await;
    assert!(receipts.len() == 3 && receipts.iter().all(|r| code(r) == "mail.no_receipt"));
    assert!(receipts.iter().all(|r| matches!(r.outcome, Outcome::Failed(_))));
}

#[tokio::test(start_paused = true)]
async fn timeout_is_that_of_each_message_from_its_start() {
    for concurrency in [None, Some(2)] {
        let kit = Kit::new();
        for _ in 0..4 {
            kit.stub.then_act([Act::Hang]);
        }
        kit.stub.then_act([Act::Commit, Act::Hang]);
        let mailer = mailer(&kit);
        let mut batch = mailer.send_many(keys(6)).timeout(Duration::from_secs(10));
        if let Some(n) = concurrency {
            batch = batch.concurrency(n);
        }
        let receipts = batch.collect().await;
        let codes: Vec<_> = receipts.iter().map(code).collect();
        assert_eq!(
            codes,
            ["mail.timeout", "mail.timeout", "mail.timeout", "mail.timeout", "mail.timeout", "none"]
        );
        assert!(!receipts[3].is_unknown() && receipts[4].is_unknown());
    }
}

#[tokio::test]
async fn drained_batch_finishes_what_has_begun_and_frees_the_rest() {
    let kit = Kit::new();
    let gates: Vec<_> = (0..2).map(|_| Arc::new(Notify::new())).collect();
    for gate in &gates {
        kit.stub.then_act([Act::Commit, Act::Wait(Arc::clone(gate))]);
    }
    let drain = CancellationToken::new();
    let mailer = mailer(&kit);
    // A copy of one that begins, and a copy of one that does not.
    let mut messages = keys(8);
    messages.extend([keyed("k:0"), keyed("k:7")]);
    let mut batch = mailer.send_many(messages).concurrency(2).drain_on(drain.clone());
    while kit.stub.handed() < 2 {
        assert!(futures_util::poll!(std::pin::pin!(batch.next())).is_pending());
    }
    drain.cancel();
    assert!(futures_util::poll!(std::pin::pin!(batch.next())).is_pending());
    for gate in &gates {
        gate.notify_one();
    }
    let receipts = batch.collect().await;
    let codes: Vec<_> = receipts.iter().map(code).collect();
    assert_eq!(codes[..2], ["none", "none"]);
    assert!(codes[2..8].iter().all(|code| *code == "mail.cancelled"));
    assert_eq!((codes[8], codes[9]), ("none", "mail.cancelled"));
    assert!(receipts[8].copied && receipts[9].copied && !receipts[9].replayed);
    for i in 2..8 {
        assert!(kit.record(&format!("k:{i}")).await.is_none());
    }
    assert_eq!(kit.stub.handed(), 2);
}

#[tokio::test]
async fn stopped_batch_leaves_unknown_what_may_have_gone() {
    let kit = Kit::new();
    kit.stub.then_act([Act::Commit, Act::Hang]).then_act([Act::Hang]);
    let stop = CancellationToken::new();
    let mailer = mailer(&kit);
    let mut batch = mailer.send_many(keys(5)).concurrency(2).stop_on(stop.clone());
    while kit.stub.handed() < 2 {
        assert!(futures_util::poll!(std::pin::pin!(batch.next())).is_pending());
    }
    stop.cancel();
    let receipts = batch.collect().await;
    assert!(receipts[0].is_unknown() && code(&receipts[0]) == "idempotency.aborted");
    assert!(receipts[1..].iter().all(|r| code(r) == "mail.cancelled"));
    assert_eq!(kit.stub.handed(), 2);
}

#[tokio::test]
async fn receipts_of_a_batch_come_back_when_they_cannot_be_stored() {
    let kit = Kit::new();
    kit.store.break_step(Step::Complete, Fault::Before);
    let receipts = mailer(&kit).send_many(keys(20)).collect().await;
    assert!(receipts.iter().all(|r| r.is_accepted() && !r.replayed));
    // This process answers for them meanwhile.
    let again = mailer(&kit).send_many(keys(20)).collect().await;
    assert!(again.iter().all(|r| r.replayed));
    kit.store.heal();
    assert!(kit.keeper.close(Duration::from_secs(30)).await.is_clean());
    assert_eq!(kit.stub.handed(), 20);
    assert!(!kit.record("k:19").await.unwrap().is_pending());
}

#[tokio::test]
async fn kill_loses_the_receipts_of_one_write_at_most() {
    let kit = Kit::with(Stub::forgetful());
    kit.store.break_step(Step::Complete, Fault::Held);
    let mailer = mailer(&kit);
    let mut batch = mailer.send_many((0..2000).map(|i| keyed(&format!("k:{i}")))).concurrency(8);
    for _ in 0..200 {
        assert!(futures_util::poll!(std::pin::pin!(batch.next())).is_pending());
        tokio::task::yield_now().await;
    }
    // No receipt is stored: nothing more starts.
    let handed = kit.stub.handed();
    assert!((8..=128 + 8).contains(&handed), "{handed}");
}
