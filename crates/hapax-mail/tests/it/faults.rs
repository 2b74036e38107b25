//! A store that fails before, during and after a send.

use crate::kit::{Kit, LEASE, code, handle, keyed, until};
use hapax_conformance::faulty::{Fault, Step};
use hapax_core::{
    ManualClock, Name, Span, StoreResult, Token, async_trait,
    idempotency::{
        Complete, Completed, Dropped, Extended, IdempotencyStore, List, Page, Record, Reserve, Reserved,
        Resolve, Resolved, Retake, Retaken, Write,
    },
    memory::MemoryStore,
};
use hapax_mail::{IdempotencyTransport, MailCategory, Mailer, Outcome, Receipt, Stub};
use std::{sync::Arc, time::Duration};

#[tokio::test]
async fn store_that_cannot_reserve_fails_that_message_alone() {
    let kit = Kit::new();
    kit.store.inject(Step::Reserve, Fault::Before);
    let receipt = kit.transport.send(&keyed("a")).await;
    let Outcome::Failed(failure) = &receipt.outcome else { panic!("{receipt:?}") };
    assert_eq!((&*failure.code, failure.category), ("idempotency.store_failed", MailCategory::Unknown));
    assert!(failure.retryable);
    assert_eq!(kit.stub.handed(), 0);
    assert!(kit.transport.send(&keyed("b")).await.is_accepted());
    assert!(kit.transport.send(&keyed("a")).await.is_accepted());
}

#[tokio::test]
async fn reservation_whose_reply_was_lost_is_given_back() {
    let kit = Kit::new();
    kit.store.inject(Step::Reserve, Fault::LostReply);
    assert_eq!(code(&kit.transport.send(&keyed("k")).await), "idempotency.store_failed");
    assert!(kit.is_free("k").await);
    assert!(kit.transport.send(&keyed("k")).await.is_accepted());
    assert_eq!(kit.stub.handed(), 1);
}

#[tokio::test]
async fn store_that_has_lost_its_secret_sends_nothing_and_frees_the_key() {
    let kit = Kit::new();
    kit.store.inject(Step::Secret, Fault::Before);
    assert_eq!(code(&kit.transport.send(&keyed("k")).await), "idempotency.store_failed");
    assert_eq!(kit.stub.handed(), 0);
    assert!(kit.is_free("k").await);
    assert!(kit.transport.send(&keyed("k")).await.is_accepted());
}

#[tokio::test]
async fn receipt_comes_back_when_it_cannot_be_stored_and_is_stored_later() {
    for fault in [Fault::Before, Fault::LostReply, Fault::Delayed, Fault::Duplicate] {
        let kit = Kit::new();
        kit.store.inject(Step::Complete, fault);
        let first = kit.transport.send(&keyed("k")).await;
        assert!(first.is_accepted() && !first.replayed, "{fault:?}");
        // Until it is stored, this process answers from it.
        let again = kit.transport.send(&keyed("k")).await;
        assert!(again.replayed, "{fault:?}");
        assert!(kit.keeper.close(Duration::from_secs(30)).await.is_clean());
        kit.store.deliver_delayed().await;
        assert!(kit.transport.send(&keyed("k")).await.replayed, "{fault:?}");
        assert_eq!(kit.stub.handed(), 1, "{fault:?}");
    }
}

#[tokio::test]
async fn key_that_cannot_be_freed_is_freed_later_and_the_failure_comes_back() {
    for fault in [Fault::Before, Fault::LostReply] {
        let kit = Kit::new();
        kit.stub.then(Receipt::failed(MailCategory::Network, "smtp.connect"));
        kit.store.inject(Step::Release, fault);
        assert_eq!(code(&kit.transport.send(&keyed("k")).await), "smtp.connect");
        assert!(kit.is_free("k").await, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn store_that_never_answers_costs_no_longer_than_its_time_out() {
    let kit = Kit::new();
    kit.store.break_step(Step::Reserve, Fault::Held);
    let begun = tokio::time::Instant::now();
    assert_eq!(code(&kit.transport.send(&keyed("k")).await), "idempotency.store_failed");
    assert_eq!(begun.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn lease_lives_through_a_store_that_is_away_for_a_while() {
    let kit = Kit::new();
    let gate = Arc::new(tokio::sync::Notify::new());
    kit.stub.then_act([hapax_mail::Act::Commit, hapax_mail::Act::Wait(Arc::clone(&gate))]);
    let (transport, message) = (kit.transport.clone(), keyed("k"));
    let sending = tokio::spawn(async move { transport.send(&message).await });
    until("the send", || kit.stub.handed() == 1).await;
    kit.store.break_step(Step::Extend, Fault::Before);
    kit.pass(LEASE / 2).await;
    kit.store.heal();
    kit.pass(LEASE * 2).await;
    assert!(kit.record("k").await.unwrap().is_pending());
    gate.notify_one();
    assert!(sending.await.unwrap().is_accepted());
}

/// Refuses the keys that are called broken, and may forget to answer.
#[derive(Debug)]
struct Picky {
    inner: MemoryStore,
    forgets: bool,
}

impl Picky {
    fn refuses(name: &Name) -> bool {
        name.key().starts_with("broken")
    }

    fn error() -> hapax_core::StoreError {
        hapax_core::StoreError::new(
            hapax_core::StoreErrorKind::Unavailable,
            "picky",
            "reserve",
            "it will not",
        )
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl IdempotencyStore for Picky {
    async fn reserve(&self, req: &Reserve) -> StoreResult<Reserved> {
        if Self::refuses(&req.name) { Err(Self::error()) } else { self.inner.reserve(req).await }
    }
    async fn complete(&self, req: &Complete) -> StoreResult<Completed> {
        self.inner.complete(req).await
    }
    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        self.inner.release(name, token).await
    }
    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        self.inner.extend(name, token, lease).await
    }
    async fn retake_unknown(&self, req: &Retake) -> StoreResult<Retaken> {
        self.inner.retake_unknown(req).await
    }
    async fn drop_unknown(&self, name: &Name, token: &Token) -> StoreResult<Dropped> {
        self.inner.drop_unknown(name, token).await
    }
    async fn resolve(&self, req: &Resolve) -> StoreResult<Resolved> {
        self.inner.resolve(req).await
    }
    async fn force_release(&self, name: &Name) -> StoreResult<Write> {
        self.inner.force_release(name).await
    }
    async fn read(&self, name: &Name) -> StoreResult<Option<Record>> {
        self.inner.read(name).await
    }
    fn token(&self) -> StoreResult<Token> {
        self.inner.token()
    }
    fn peek(&self, _: &Name) -> Option<Record> {
        None
    }
    async fn list(&self, req: &List) -> StoreResult<Page> {
        self.inner.list(req).await
    }
    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        self.inner.prune(limit).await
    }
    async fn reserve_many(&self, reqs: &[Reserve]) -> Vec<StoreResult<Reserved>> {
        let mut answers = Vec::new();
        for req in reqs {
            answers.push(self.reserve(req).await);
        }
        if self.forgets {
            answers.pop();
        }
        answers
    }
    async fn complete_many(&self, reqs: &[Complete]) -> Vec<StoreResult<Completed>> {
        self.inner.complete_many(reqs).await
    }
    async fn extend_many(&self, reqs: &[(Name, Token, Span)]) -> Vec<StoreResult<Extended>> {
        self.inner.extend_many(reqs).await
    }
    async fn release_many(&self, reqs: &[(Name, Token)]) -> Vec<StoreResult<Write>> {
        self.inner.release_many(reqs).await
    }
    async fn secret(&self) -> StoreResult<Option<[u8; 32]>> {
        Ok(None)
    }
}

fn picky(forgets: bool) -> (IdempotencyTransport<Stub>, Mailer, Stub) {
    let clock = ManualClock::new();
    let store = Picky { inner: MemoryStore::new(Arc::new(clock.clone())), forgets };
    let (_, idem) = handle(Arc::new(store), &clock);
    let stub = Stub::new();
    let transport = IdempotencyTransport::new(stub.clone()).with_idempotency(&idem);
    let mailer = Mailer::via(stub.clone()).idempotent(&idem).build().unwrap();
    (transport, mailer, stub)
}

#[tokio::test]
async fn store_that_fails_for_one_key_of_a_batch_fails_that_message_alone() {
    let (_, mailer, stub) = picky(false);
    let messages: Vec<_> =
        (0..9).map(|i| keyed(&format!("{}:{i}", if i == 4 { "broken" } else { "k" }))).collect();
    let receipts = mailer.send_many(&messages).collect().await;
    let codes: Vec<_> = receipts.iter().map(code).collect();
    let mut expected = ["none"; 9];
    expected[4] = "idempotency.store_failed";
    assert_eq!(codes, expected);
    assert_eq!(stub.handed(), 8);
}

#[tokio::test]
async fn key_without_an_answer_from_the_store_is_not_sent() {
    let (_, mailer, stub) = picky(true);
    let messages: Vec<_> = (0..3).map(|i| keyed(&format!("k:{i}"))).collect();
    let receipts = mailer.send_many(&messages).collect().await;
    assert!(receipts[0].is_accepted() && receipts[1].is_accepted());
    let Outcome::Failed(failure) = &receipts[2].outcome else { panic!("{:?}", receipts[2]) };
    assert!(failure.code == "idempotency.store_failed" && failure.retryable);
    assert_eq!(stub.handed(), 2);
}

#[tokio::test]
async fn store_without_a_secret_gives_ids_all_the_same() {
    let (transport, ..) = picky(false);
    let receipt = transport.send(&keyed("k")).await;
    let expected = hapax_mail::derive_message_id(
        &[],
        "default",
        "mail:stub",
        "k",
        &hapax_mail::fingerprint(&keyed("k")),
        "example.com",
    );
    assert_eq!(receipt.message_id, expected);
}
