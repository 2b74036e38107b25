//! Further attempts.

use super::{busy, busy_for, codes, lost, mail, scripted, secs, stuck};
use crate::{kit::code, support::plain};
use futures_util::StreamExt;
use hapax_engine::queue::Backoff;
use hapax_mail::{
    Act, Mail, MailCategory, Mailer, Member, RawMessage, Receipt, Retry, SendContext, Stub, Transport,
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

async fn send(transport: &impl Transport) -> Receipt {
    transport.send(&mail(), &SendContext::default()).await
}

#[tokio::test(start_paused = true)]
async fn attempts_are_bounded_and_each_is_in_the_receipt() {
    let stub = scripted("a", [busy(), Receipt::failed(MailCategory::Network, "smtp.connect")]);
    let receipt = send(&Retry::new(stub.clone())).await;
    assert!(receipt.is_accepted());
    assert_eq!(codes(&receipt), ["smtp.busy", "smtp.connect", "sent"]);
    let numbers: Vec<_> = stub.calls().iter().map(|call| call.context.attempt).collect();
    assert_eq!(numbers, [1, 2, 3]);

    // nodemailer#1105: a connection that always drops is not tried for ever.
    let stub = scripted("a", (0..9).map(|_| busy()));
    let start = Instant::now();
    let receipt = send(&Retry::new(stub.clone())).await;
    assert_eq!((code(&receipt), stub.handed()), ("smtp.busy", 3));
    assert!(start.elapsed() <= Duration::from_millis(1500), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn all_attempts_have_one_id_one_date_and_one_key() {
    // twisted#3638, upyo#58: the same bytes, not an emptied body, not another id.
    let stub = Stub::deduplicating(secs(3600));
    stub.then(busy()).then(busy());
    assert!(send(&Retry::new(stub.clone())).await.is_accepted());
    let calls = stub.calls();
    let frozen: Vec<_> = calls.iter().map(|call| call.context.frozen.clone().unwrap()).collect();
    assert!(frozen.iter().all(|one| *one == frozen[0]));
    let keys: Vec<_> = calls.iter().map(|call| call.context.provider_key().unwrap().to_owned()).collect();
    assert!(keys.iter().all(|key| *key == keys[0] && key.len() == 64));

    // The caller's own id wins; a raw mail gets one for all attempts.
    let stub = scripted("a", [busy()]);
    let own = plain().message_id("<own@example.com>").build().unwrap();
    let receipt = Retry::new(stub.clone()).send(&own, &SendContext::default()).await;
    assert_eq!(receipt.message_id, "<own@example.com>");
    let stub = scripted("a", [busy()]);
    let raw = RawMessage::new("a@example.com", ["b@example.com"], "Subject: hi\r\n\r\nhi\r\n");
    assert!(Retry::new(stub.clone()).send_raw(&raw, &SendContext::default()).await.is_accepted());
    let calls = stub.calls();
    assert_eq!(calls[0].context.frozen, calls[1].context.frozen);
    assert!(calls[0].context.frozen.is_some());
}

#[tokio::test(start_paused = true)]
async fn what_may_have_gone_is_not_tried_again() {
    let stub = scripted("a", [lost()]);
    let receipt = send(&Retry::new(stub.clone())).await;
    assert!(receipt.is_unknown());
    assert_eq!(stub.handed(), 1);
    // Nor after a time limit that passed behind the commitment point.
    let stub = Stub::new();
    stub.then_act(stuck());
    let mailer =
        Mailer::via(Member::new(stub.clone()).retry(3, Backoff::fixed(secs(1))).attempt_timeout(secs(5)));
    let receipt = mailer.build().unwrap().send(&mail()).await;
    assert!(receipt.is_unknown());
    assert_eq!((code(&receipt), stub.handed()), ("mail.timeout", 1));
}

#[tokio::test(start_paused = true)]
async fn what_may_have_gone_is_tried_again_where_the_provider_recognises_it() {
    let stub = Stub::deduplicating(secs(3600));
    stub.then(lost()).then(busy());
    let receipt = send(&Retry::new(stub.clone())).await;
    assert!(receipt.is_accepted());
    assert_eq!(codes(&receipt), ["smtp.reply_lost", "smtp.busy", "sent"]);
    // The provider asks for a pause after which it may have forgotten.
    let stub = Stub::deduplicating(secs(10));
    stub.then(lost()).then(busy_for(secs(10)));
    let receipt = send(&Retry::new(stub.clone()).with_backoff(Backoff::fixed(Duration::ZERO))).await;
    assert!(receipt.is_unknown());
    assert_eq!(stub.handed(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_may_have_gone_stays_unknown_unless_a_later_attempt_succeeds() {
    for last in [
        Receipt::failed(MailCategory::Validation, "provider.key_reused"),
        Receipt::failed(MailCategory::Auth, "provider.auth"),
        Receipt::failed(MailCategory::Rejected, "provider.rejected"),
    ] {
        let stub = Stub::deduplicating(secs(3600));
        stub.then(lost()).then(last.clone());
        let receipt = send(&Retry::new(stub.clone())).await;
        assert!(receipt.is_unknown(), "{last:?}");
        assert_eq!(code(&receipt), "smtp.reply_lost");
        assert_eq!(receipt.attempts.len(), 2);
    }
    let stub = Stub::deduplicating(secs(3600));
    stub.then(lost()).then(busy()).then(busy());
    assert!(send(&Retry::new(stub.clone())).await.is_unknown());
    assert_eq!(stub.handed(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_a_provider_asks_for_is_waited_for_or_told() {
    let stub = scripted("a", [busy_for(secs(20))]);
    let start = Instant::now();
    assert!(send(&Retry::new(stub)).await.is_accepted());
    assert!(start.elapsed() >= secs(20));

    let stub = scripted("a", [busy_for(secs(300))]);
    let start = Instant::now();
    let receipt = send(&Retry::new(stub.clone())).await;
    let failure = receipt.failure().unwrap();
    assert!(failure.retryable);
    assert_eq!(failure.retry_after, Some(secs(300)));
    assert_eq!((stub.handed(), start.elapsed()), (1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_all_attempts_ends_them() {
    let stub = scripted("a", [busy_for(secs(20)), busy()]);
    let receipt = send(&Retry::new(stub.clone()).with_total(secs(20))).await;
    let failure = receipt.failure().unwrap();
    assert_eq!((&*failure.code, failure.category), ("retry.deadline", MailCategory::Service));
    // It may be sent later, by a queue say.
    assert!(failure.retryable);
    assert_eq!(failure.retry_after, Some(secs(20)));
    assert!(failure.detail.as_deref().unwrap().contains("smtp.busy"));
    assert_eq!(stub.handed(), 1);
    // The message's own deadline does the same.
    let context = SendContext::default().with_deadline(Instant::now() + secs(19));
    let receipt = Retry::new(scripted("a", [busy_for(secs(20))])).send(&mail(), &context).await;
    assert_eq!(code(&receipt), "retry.deadline");
    assert!(!context.is_committed());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_stops_is_not_tried_again() {
    let stub = scripted("a", [busy_for(secs(20))]);
    let (cancel, retry) = (CancellationToken::new(), Retry::new(stub.clone()));
    let context = SendContext::default().with_cancel(cancel.clone());
    let message = mail();
    let (receipt, ()) = tokio::join!(retry.send(&message, &context), async {
        tokio::time::sleep(secs(1)).await;
        cancel.cancel();
    });
    // It was not sent, for certain, and that is what it says.
    assert_eq!((code(&receipt), stub.handed()), ("smtp.busy", 1));
    let end = CancellationToken::new();
    end.cancel();
    let stub = scripted("a", [busy()]);
    assert_eq!(code(&send(&Retry::new(stub.clone()).with_end(end)).await), "smtp.busy");
    assert_eq!(stub.handed(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_given_up_is_handed_over_with_its_attempts() {
    let letters: Arc<Mutex<Vec<(usize, String)>>> = Arc::default();
    let kept = Arc::clone(&letters);
    let stub = scripted("a", [busy(), busy(), busy(), Receipt::failed(MailCategory::Rejected, "smtp.no")]);
    let retry = Retry::new(stub).with_given_up(move |mail, receipt| {
        assert!(matches!(mail, Mail::Message(_)));
        kept.lock().unwrap().push((receipt.attempts.len(), receipt.code().unwrap().to_owned()));
    });
    let _ = send(&retry).await;
    // A refusal is no such case: it was not tried often enough, it was answered.
    let _ = send(&retry).await;
    let _ = send(&retry).await;
    assert_eq!(*letters.lock().unwrap(), [(3, "smtp.busy".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_goes_on_one_by_one_after_its_first_attempts() {
    let stub = scripted("a", [busy(), Receipt::failed(MailCategory::Rejected, "smtp.no")]);
    let retry = Retry::new(stub.clone());
    let messages = (0..3).map(|_| (mail(), SendContext::default()));
    let receipts: Vec<_> = retry.send_many(Box::pin(futures_util::stream::iter(messages))).collect().await;
    let shown: Vec<_> = receipts.iter().map(|receipt| codes(receipt).join(" ")).collect();
    // The batch of the wrapped transport goes one after another, so the second answer meets the second message, or the
    // further attempt of the first.
    assert_eq!(shown, ["smtp.busy smtp.no", "sent", "sent"]);
    assert_eq!(stub.handed(), 4);
}

#[tokio::test(start_paused = true)]
async fn dropped_between_attempts_it_is_certainly_not_sent() {
    let stub = Stub::new();
    stub.then(busy_for(secs(20)));
    let (retry, context, message) = (Retry::new(stub.clone()), SendContext::default(), mail());
    let mut sending = Box::pin(retry.send(&message, &context));
    assert!(tokio::time::timeout(secs(1), &mut sending).await.is_err());
    drop(sending);
    assert!(!context.is_committed());
    // An attempt that commits says so to whoever is around.
    stub.then_act([Act::Commit, Act::Hang]);
    assert!(tokio::time::timeout(secs(1), retry.send(&message, &context)).await.is_err());
    assert!(context.is_committed());
}
