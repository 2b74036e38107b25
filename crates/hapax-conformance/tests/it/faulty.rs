//! The decorator does what its faults say.

use hapax_conformance::faulty::{Fault, Faulty, Request, Step};
use hapax_core::{
    Applied, Fingerprint, Key, ManualClock, Name, Namespace, Scope, Span, StoreErrorKind, Token,
    idempotency::{IdempotencyStore, Reserve, Reserved, Write},
    memory::MemoryStore,
};
use std::{sync::Arc, time::Duration};

fn store() -> Faulty<MemoryStore> {
    Faulty::new(MemoryStore::new(Arc::new(ManualClock::new())))
}

fn reserve(key: &str, token: u8) -> Reserve {
    let name = Name::new(&Namespace::default(), &Scope::new("test").unwrap(), &Key::new(key).unwrap());
    let lease = Span::new(Duration::from_mins(1)).unwrap();
    Reserve { name, token: Token::from_bytes([token; 16]), fingerprint: Fingerprint::ANY, lease }
}

async fn is_vacant(store: &Faulty<MemoryStore>, key: &str) -> bool {
    store.get_ref().read(&reserve(key, 0).name).await.unwrap().is_none()
}

#[tokio::test]
async fn before_does_nothing_and_says_so() {
    let store = store();
    store.inject(Step::Reserve, Fault::Before);
    let error = store.reserve(&reserve("k", 1)).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::No));
    assert!(is_vacant(&store, "k").await);
    assert!(store.reserve(&reserve("k", 1)).await.is_ok());
}

#[tokio::test]
async fn a_lost_reply_is_done_and_unknown() {
    let store = store();
    store.inject(Step::Reserve, Fault::LostReply);
    let error = store.reserve(&reserve("k", 1)).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Timeout, Applied::Unknown));
    assert!(!is_vacant(&store, "k").await);
}

#[tokio::test]
async fn a_delayed_request_is_done_when_it_is_delivered() {
    let store = store();
    store.inject(Step::Reserve, Fault::Delayed);
    let error = store.reserve(&reserve("k", 1)).await.unwrap_err();
    assert_eq!(error.applied(), Applied::Unknown);
    assert!(is_vacant(&store, "k").await);
    assert_eq!(store.deliver_delayed().await.len(), 1);
    assert!(!is_vacant(&store, "k").await);
    assert!(store.deliver_delayed().await.is_empty());
}

#[tokio::test]
async fn a_duplicate_answers_the_second_time() {
    let store = store();
    let request = reserve("k", 1);
    assert!(matches!(store.reserve(&request).await.unwrap(), Reserved::Yours { .. }));
    store.inject(Step::Release, Fault::Duplicate);
    assert_eq!(store.release(&request.name, &request.token).await.unwrap(), Write::Fenced);
    assert!(is_vacant(&store, "k").await);
}

#[tokio::test]
async fn a_held_call_waits_until_it_is_let_through() {
    let store = Arc::new(store());
    store.inject(Step::Reserve, Fault::Held);
    let call = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.reserve(&reserve("k", 1)).await }
    });
    store.called(Step::Reserve, 1).await;
    assert!(is_vacant(&store, "k").await);
    store.let_through();
    assert!(matches!(call.await.unwrap().unwrap(), Reserved::Yours { .. }));
}

#[tokio::test]
async fn faults_come_in_order_and_then_the_lasting_one() {
    let store = store();
    store.break_step(Step::Reserve, Fault::Before);
    store.inject(Step::Reserve, Fault::LostReply);
    let applied = async || store.reserve(&reserve("k", 1)).await.map_err(|error| error.applied());
    assert_eq!(applied().await.unwrap_err(), Applied::Unknown);
    assert_eq!(applied().await.unwrap_err(), Applied::No);
    assert_eq!(applied().await.unwrap_err(), Applied::No);
    assert!(store.read(&reserve("k", 1).name).await.is_ok(), "another step is not met");
    store.heal();
    assert!(applied().await.is_ok());
}

#[tokio::test]
async fn a_fault_meets_a_whole_batch() {
    let store = store();
    let batch = [reserve("a", 1), reserve("b", 1), reserve("c", 1)];
    store.inject(Step::Reserve, Fault::Before);
    let answers = store.reserve_many(&batch).await;
    assert_eq!(answers.len(), 3);
    assert!(answers.iter().all(|answer| answer.as_ref().is_err_and(|error| error.applied() == Applied::No)));
    store.inject(Step::Reserve, Fault::LostReply);
    let answers = store.reserve_many(&batch).await;
    assert!(
        answers.iter().all(|answer| answer.as_ref().is_err_and(|error| error.applied() == Applied::Unknown))
    );
    assert!(!is_vacant(&store, "a").await && !is_vacant(&store, "c").await);
    assert_eq!(store.calls(Step::Reserve), 2);
}

#[tokio::test]
async fn requests_are_kept_and_calls_are_counted() {
    let store = store();
    let request = reserve("k", 1);
    assert!(matches!(store.reserve(&request).await.unwrap(), Reserved::Yours { .. }));
    assert_eq!(store.release(&request.name, &request.token).await.unwrap(), Write::Applied);
    let _ = store.read(&request.name).await.unwrap();
    assert_eq!(store.sent().iter().map(Request::step).collect::<Vec<_>>(), [Step::Reserve, Step::Release]);
    assert_eq!((store.calls(Step::Read), store.all_calls()), (1, 3));
    // An old request arrives once more.
    let _ = store.sent()[0].send(store.get_ref()).await.unwrap();
    assert!(!is_vacant(&store, "k").await);
}
