//! A send that is dropped wherever it waits.
//!
//! The send is polled a number of times and then dropped, for every number from none to the one that ends it. Whatever
//! the moment: a key that is kept was sent under once at most, and a key that is free was not sent under, so a later
//! send leaves one delivery in all, or answers that nobody knows.

use crate::kit::{Kit, code, handle, keyed};
use futures_util::StreamExt;
use hapax_conformance::faulty::{Fault, Step};
use hapax_core::{
    ManualClock, Name, Span, StoreResult, Token, async_trait,
    idempotency::{
        Complete, Completed, Dropped, Extended, IdempotencyStore, List, Page, Record, Reserve, Reserved,
        Resolve, Resolved, Retake, Retaken, Write,
    },
    memory::MemoryStore,
};
use hapax_engine::Keeper;
use hapax_mail::{
    Act, IdempotencyTransport, MailCategory, Mailer, Message, OnUnknown, Outbox, Outcome, Receipt,
    SendContext, Stub,
};
use std::{pin::pin, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// Every step takes its time: once before it is done and once after.
#[derive(Debug)]
struct Slow(MemoryStore);

async fn slowly<T>(step: impl Future<Output = T>) -> T {
    tokio::task::yield_now().await;
    let answer = step.await;
    tokio::task::yield_now().await;
    answer
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl IdempotencyStore for Slow {
    async fn reserve(&self, req: &Reserve) -> StoreResult<Reserved> {
        slowly(self.0.reserve(req)).await
    }
    async fn complete(&self, req: &Complete) -> StoreResult<Completed> {
        slowly(self.0.complete(req)).await
    }
    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        slowly(self.0.release(name, token)).await
    }
    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        slowly(self.0.extend(name, token, lease)).await
    }
    async fn retake_unknown(&self, req: &Retake) -> StoreResult<Retaken> {
        slowly(self.0.retake_unknown(req)).await
    }
    async fn drop_unknown(&self, name: &Name, token: &Token) -> StoreResult<Dropped> {
        slowly(self.0.drop_unknown(name, token)).await
    }
    async fn resolve(&self, req: &Resolve) -> StoreResult<Resolved> {
        slowly(self.0.resolve(req)).await
    }
    async fn force_release(&self, name: &Name) -> StoreResult<Write> {
        slowly(self.0.force_release(name)).await
    }
    async fn read(&self, name: &Name) -> StoreResult<Option<Record>> {
        slowly(self.0.read(name)).await
    }
    fn token(&self) -> StoreResult<Token> {
        self.0.token()
    }
    fn peek(&self, _: &Name) -> Option<Record> {
        None
    }
    async fn list(&self, req: &List) -> StoreResult<Page> {
        slowly(self.0.list(req)).await
    }
    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        slowly(self.0.prune(limit)).await
    }
    async fn reserve_many(&self, reqs: &[Reserve]) -> Vec<StoreResult<Reserved>> {
        slowly(self.0.reserve_many(reqs)).await
    }
    async fn complete_many(&self, reqs: &[Complete]) -> Vec<StoreResult<Completed>> {
        slowly(self.0.complete_many(reqs)).await
    }
    async fn extend_many(&self, reqs: &[(Name, Token, Span)]) -> Vec<StoreResult<Extended>> {
        slowly(self.0.extend_many(reqs)).await
    }
    async fn release_many(&self, reqs: &[(Name, Token)]) -> Vec<StoreResult<Write>> {
        slowly(self.0.release_many(reqs)).await
    }
    async fn secret(&self) -> StoreResult<Option<[u8; 32]>> {
        slowly(self.0.secret()).await
    }
}

struct Scene {
    keeper: Keeper,
    mailer: Mailer,
    transport: IdempotencyTransport<Stub>,
    stub: Stub,
}

fn scene(stub: Stub) -> Scene {
    let clock = ManualClock::new();
    let store = Slow(MemoryStore::new(Arc::new(clock.clone())));
    let (keeper, idem) = handle(Arc::new(store), &clock);
    let transport = IdempotencyTransport::new(stub.clone()).with_idempotency(&idem);
    let mailer = Mailer::via(stub.clone()).idempotent(&idem).build().unwrap();
    Scene { keeper, mailer, transport, stub }
}

async fn settled(keeper: &Keeper) {
    assert!(keeper.close(Duration::from_secs(10)).await.is_clean());
}

/// Polls `work` at most `times` times; answers whether it has ended.
async fn poll_times(work: impl Future, times: usize) -> bool {
    let mut work = pin!(work);
    for _ in 0..times {
        if futures_util::poll!(&mut work).is_ready() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

/// A send with a wait in each of its parts.
fn acts(end: Option<Receipt>) -> Vec<Act> {
    let mut acts = vec![Act::Yield, Act::Yield, Act::Commit, Act::Yield, Act::Yield];
    acts.extend(end.map(Act::Answer));
    acts
}

#[tokio::test]
async fn dropped_send_leaves_one_delivery_or_an_unknown_key() {
    let mut ended_at = None;
    let (mut freed, mut kept) = (0, 0);
    for polls in 0..60 {
        let scene = scene(Stub::new());
        scene.stub.then_act(acts(None));
        let message = keyed("k");
        let ended = poll_times(scene.transport.send(&message), polls).await;
        settled(&scene.keeper).await;
        let committed = scene.stub.committed();
        let again = scene.transport.send(&message).await;
        match committed {
            0 => {
                assert!(again.is_accepted() && !again.replayed, "{polls}: {again:?}");
                freed += 1;
            }
            _ if ended => assert!(again.is_accepted() && again.replayed, "{polls}: {again:?}"),
            _ => {
                // Its receipt may have been on its way already.
                assert!(again.replayed && (again.is_unknown() || again.is_accepted()), "{polls}: {again:?}");
                kept += 1;
            }
        }
        assert_eq!(scene.stub.committed(), 1, "{polls}");
        if ended {
            ended_at = Some(polls);
            break;
        }
    }
    assert!(ended_at.is_some_and(|polls| polls > 8), "{ended_at:?}");
    assert!(freed > 3 && kept > 3, "{freed} {kept}");
}

#[tokio::test]
async fn dropped_send_that_fails_frees_its_key_once_that_is_known() {
    for polls in 0..60 {
        let scene = scene(Stub::new());
        let failed = Receipt::failed(MailCategory::Service, "smtp.busy");
        scene.stub.then_act(acts(Some(failed)));
        let message = keyed("k");
        let ended = poll_times(scene.transport.send(&message), polls).await;
        settled(&scene.keeper).await;
        let handed = scene.stub.handed();
        let again = scene.transport.send(&message).await;
        if ended {
            assert!(again.is_accepted() && !again.replayed);
            return;
        }
        if handed == 0 {
            // The script was left for this one.
            assert_eq!(code(&again), "smtp.busy", "{polls}");
            continue;
        }
        // Between the commit and the answer nobody knows; after the answer the key is free.
        let known = again.is_accepted() && !again.replayed;
        assert!(known || code(&again) == "idempotency.aborted", "{polls}: {again:?}");
    }
    panic!("the send never ended");
}

#[tokio::test]
async fn dropped_retry_of_an_unknown_send_leaves_the_key_unknown() {
    for polls in 0..60 {
        let scene = scene(Stub::new());
        let transport = scene.transport.clone().with_on_unknown(OnUnknown::Retry);
        scene.stub.then(Receipt::unknown("smtp.reply_lost")).then_act(acts(None));
        let message = keyed("k");
        let _ = scene.transport.send(&message).await;
        let ended = poll_times(transport.send(&message), polls).await;
        settled(&scene.keeper).await;
        let again = scene.transport.send(&message).await;
        if ended {
            assert!(again.is_accepted() && again.replayed);
            return;
        }
        assert!(again.replayed && (again.is_unknown() || again.is_accepted()), "{polls}: {again:?}");
    }
    panic!("the send never ended");
}

#[tokio::test]
async fn dropped_batch_leaves_each_key_with_one_delivery_or_unknown() {
    for concurrency in [None, Some(1), Some(3)] {
        let (mut freed, mut unknown, mut done) = (0, 0, 0);
        let mut ended = false;
        for polls in 0..200 {
            let scene = scene(Stub::new());
            let messages: Vec<Message> = (0..6).map(|i| keyed(&format!("k:{i}"))).collect();
            for _ in &messages {
                scene.stub.then_act(acts(None));
            }
            let mut batch = scene.mailer.send_many(&messages);
            if let Some(n) = concurrency {
                batch = batch.concurrency(n);
            }
            ended = poll_times(batch.collect(), polls).await;
            settled(&scene.keeper).await;
            let committed = scene.stub.committed();
            let mut open = 0;
            for message in &messages {
                let again = scene.transport.send(message).await;
                assert!(again.is_accepted() || again.is_unknown(), "{polls}: {again:?}");
                match (again.replayed, again.is_unknown()) {
                    (false, _) => freed += 1,
                    (true, true) => unknown += 1,
                    (true, false) => done += 1,
                }
                open += usize::from(!again.replayed);
            }
            assert_eq!(committed + open, messages.len(), "{concurrency:?} {polls}");
            assert_eq!(scene.stub.committed(), messages.len(), "{concurrency:?} {polls}");
            if ended {
                break;
            }
        }
        assert!(ended, "{concurrency:?}");
        assert!(freed > 10 && unknown > 3 && done > 10, "{concurrency:?} {freed} {unknown} {done}");
    }
}

#[tokio::test]
async fn receipts_that_wait_for_the_store_survive_the_drop_of_their_batch() {
    let kit = Kit::new();
    let gate = Arc::new(Notify::new());
    kit.stub.then(Receipt::accepted()).then_act([Act::Wait(Arc::clone(&gate)), Act::Commit]);
    kit.store.inject(Step::Complete, Fault::Held);
    let mailer = Mailer::via(kit.stub.clone()).idempotent(&kit.idem).scope("mail:stub").build().unwrap();
    let messages: Vec<Message> = (0..20).map(|i| keyed(&format!("k:{i}"))).collect();
    let mut batch = mailer.send_many(&messages);
    // The first receipt is being written when the others end: they wait for it.
    while kit.store.calls(Step::Complete) == 0 {
        assert!(futures_util::poll!(pin!(batch.next())).is_pending());
    }
    gate.notify_one();
    while kit.stub.committed() < messages.len() {
        assert!(futures_util::poll!(pin!(batch.next())).is_pending());
    }
    drop(batch);
    settled(&kit.keeper).await;
    for message in &messages {
        let again = kit.transport.send(message).await;
        assert!(again.is_accepted() && again.replayed, "{again:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_send_to_a_folder_never_contradicts_the_folder() {
    let (mut freed, mut kept) = (0, 0);
    for round in 0..60_usize {
        let dir = tempfile::tempdir().unwrap();
        let kit = Kit::new();
        let outbox = Outbox::new(dir.path());
        let transport = IdempotencyTransport::new(outbox).with_idempotency(&kit.idem);
        let (sender, message, context) = (transport.clone(), keyed("k"), SendContext::default());
        let watched = context.clone();
        let sending = tokio::spawn(async move { sender.send_with(&message, &context).await });
        // At a moment that drifts over the whole of the send.
        for _ in 0..round * 40 {
            tokio::task::yield_now().await;
        }
        sending.abort();
        let ended = sending.await;
        assert!(kit.keeper.close(Duration::from_secs(10)).await.is_clean());
        let there = || {
            std::fs::read_dir(dir.path())
                .is_ok_and(|mut d| d.any(|e| e.unwrap().path().extension().is_some_and(|x| x == "eml")))
        };
        if ended.is_err() && !watched.is_committed() {
            assert!(kit.store.get_ref().read(&crate::kit::name("mail:file", "k")).await.unwrap().is_none());
            assert!(!there(), "a send that was certainly stopped is in the folder");
            freed += 1;
        } else {
            kept += 1;
        }
        let again = transport.send(&keyed("k")).await;
        assert!(again.is_accepted() || again.is_unknown(), "{again:?}");
    }
    assert!(freed + kept == 60 && freed > 0, "{freed} {kept}");
}

#[tokio::test]
async fn batch_that_was_never_asked_for_a_receipt_does_nothing() {
    let scene = scene(Stub::new());
    drop(scene.mailer.send_many(&[keyed("k")]));
    assert_eq!(scene.stub.handed(), 0);
    let mut empty = scene.mailer.send_many(Vec::<Message>::new());
    assert!(empty.next().await.is_none() && StreamExt::next(&mut empty).await.is_none());
    assert!(matches!(scene.transport.send(&keyed("k")).await.outcome, Outcome::Accepted));
}
