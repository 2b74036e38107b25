//! Sends that are stopped: by a deadline, a token, a drop, a panic.

use crate::kit::{Kit, code, keyed, until};
use hapax_mail::{Act, MailCategory, Outcome, SendContext, Stub};
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn retry_after_a_time_out_sends_nothing_again() {
    let kit = Kit::new();
    kit.stub.then_act([Act::Commit, Act::Hang]);
    let context = SendContext::default().with_deadline(Instant::now() + Duration::from_secs(30));
    let timed_out = kit.transport.send_with(&keyed("k"), &context).await;
    assert!(timed_out.is_unknown());
    assert_eq!(
        (code(&timed_out), timed_out.failure().unwrap().category),
        ("mail.timeout", MailCategory::Timeout)
    );
    let again = kit.transport.send(&keyed("k")).await;
    assert!(again.is_unknown() && again.replayed);
    assert_eq!(kit.stub.handed(), 1);
}

#[tokio::test(start_paused = true)]
async fn send_aborted_by_its_token_after_it_began_keeps_its_key() {
    let kit = Kit::new();
    kit.stub.then_act([Act::Commit, Act::Hang]);
    let context = SendContext::default();
    let token = context.cancel.clone();
    let (transport, message) = (kit.transport.clone(), keyed("k"));
    let sending = tokio::spawn(async move { transport.send_with(&message, &context).await });
    until("the send", || kit.stub.committed() == 1).await;
    token.cancel();
    let receipt = sending.await.unwrap();
    let Outcome::Unknown(failure) = &receipt.outcome else { panic!("{receipt:?}") };
    assert_eq!((&*failure.code, failure.category), ("idempotency.aborted", MailCategory::Unknown));
    let again = kit.transport.send(&keyed("k")).await;
    assert!(again.replayed && code(&again) == "idempotency.aborted");
    assert_eq!(kit.stub.handed(), 1);
}

#[tokio::test(start_paused = true)]
async fn send_aborted_before_it_began_frees_its_key() {
    let kit = Kit::new();
    kit.stub.then_act([Act::Hang]).then_act([Act::Hang]);
    let context = SendContext::default();
    let token = context.cancel.clone();
    let (transport, message) = (kit.transport.clone(), keyed("k"));
    let sending = tokio::spawn(async move { transport.send_with(&message, &context).await });
    until("the send", || kit.stub.handed() == 1).await;
    token.cancel();
    let receipt = sending.await.unwrap();
    let Outcome::Failed(failure) = &receipt.outcome else { panic!("{receipt:?}") };
    assert_eq!((&*failure.code, failure.category), ("mail.cancelled", MailCategory::Cancelled));
    assert!(kit.record("k").await.is_none());

    let late = SendContext::default().with_deadline(Instant::now() + Duration::from_secs(1));
    let receipt = kit.transport.send_with(&keyed("k"), &late).await;
    assert!(matches!(&receipt.outcome, Outcome::Failed(f) if f.code == "mail.timeout" && f.retryable));
    assert!(kit.record("k").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_does_not_say_when_it_commits_counts_as_committed_from_the_first_poll() {
    let kit = Kit::with(Stub::without_commit());
    kit.stub.then_act([Act::Hang]);
    let context = SendContext::default().with_deadline(Instant::now() + Duration::from_secs(1));
    assert!(kit.transport.send_with(&keyed("k"), &context).await.is_unknown());
    // A send that is stopped before it starts was not sent all the same.
    let stopped = SendContext::default();
    stopped.cancel.cancel();
    let receipt = kit.transport.send_with(&keyed("other"), &stopped).await;
    assert_eq!(code(&receipt), "mail.cancelled");
    assert_eq!(kit.stub.handed(), 1);
}

#[tokio::test]
async fn dropped_send_keeps_its_key_only_when_it_had_begun() {
    let kit = Kit::new();
    for (key, acts, free) in
        [("before", vec![Act::Hang], true), ("after", vec![Act::Commit, Act::Hang], false)]
    {
        kit.stub.then_act(acts);
        let message = keyed(key);
        let handed = kit.stub.handed();
        let mut sending = Box::pin(kit.transport.send(&message));
        while kit.stub.handed() == handed {
            assert!(futures_util::poll!(&mut sending).is_pending());
        }
        drop(sending);
        assert_eq!(kit.is_free(key).await, free, "{key}");
    }
    let again = kit.transport.send(&keyed("after")).await;
    assert!(again.is_unknown() && again.replayed && code(&again) == "idempotency.aborted");
    assert!(!again.message_id.is_empty() && again.first_at.is_some());
}

#[tokio::test]
async fn panic_before_the_commit_frees_the_key_and_goes_on() {
    let kit = Kit::new();
    kit.stub.then_act([Act::Panic]);
    let (transport, message) = (kit.transport.clone(), keyed("k"));
    let ended = tokio::spawn(async move { transport.send(&message).await }).await;
    assert!(ended.unwrap_err().is_panic());
    assert!(kit.is_free("k").await);
    assert!(kit.transport.send(&keyed("k")).await.is_accepted());
}

#[tokio::test]
async fn panic_after_the_commit_is_of_unknown_delivery() {
    let kit = Kit::new();
    kit.stub.then_act([Act::Commit, Act::Panic]);
    let receipt = kit.transport.send(&keyed("k")).await;
    assert!(receipt.is_unknown() && code(&receipt) == "idempotency.aborted");
    assert!(kit.transport.send(&keyed("k")).await.replayed);
    assert_eq!(kit.stub.handed(), 1);
}
