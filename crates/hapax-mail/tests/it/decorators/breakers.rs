//! No attempts while a provider is down.

use super::{busy, busy_for, lost, mail, scripted, secs, stuck};
use crate::kit::code;
use futures_util::StreamExt;
use hapax_mail::{Breaker, MailCategory, Receipt, SendContext, Stub, Transport};
use std::time::Duration;
use tokio::time::advance;

async fn send(transport: &impl Transport) -> Receipt {
    transport.send(&mail(), &SendContext::default()).await
}

#[tokio::test(start_paused = true)]
async fn it_opens_after_failures_in_a_row_and_lets_one_through_after_a_while() {
    let stub = scripted("a", [busy(), Receipt::accepted(), busy(), lost(), busy()]);
    let breaker = Breaker::new(stub.clone(), 2, secs(30));
    for expected in ["smtp.busy", "none", "smtp.busy", "smtp.reply_lost", "breaker.open", "breaker.open"] {
        assert_eq!(code(&send(&breaker).await), expected);
    }
    let receipt = send(&breaker).await;
    let failure = receipt.failure().unwrap();
    assert_eq!((failure.category, failure.retry_after), (MailCategory::Service, Some(secs(30))));
    assert_eq!((stub.handed(), receipt.provider.as_str()), (4, "a"));
    advance(Duration::from_millis(29_999)).await;
    assert_eq!(code(&send(&breaker).await), "breaker.open");
    advance(Duration::from_millis(1)).await;
    // The probe fails: twice as long.
    assert_eq!(code(&send(&breaker).await), "smtp.busy");
    advance(secs(59)).await;
    assert_eq!(code(&send(&breaker).await), "breaker.open");
    advance(secs(1)).await;
    assert_eq!(code(&send(&breaker).await), "none");
    assert_eq!(code(&send(&breaker).await), "none");
}

#[tokio::test(start_paused = true)]
async fn half_open_lets_one_through_and_a_probe_that_is_dropped_gives_its_place_back() {
    let stub = scripted("a", [busy()]);
    stub.then_act(stuck());
    let breaker = Breaker::new(stub.clone(), 1, secs(30));
    let _ = send(&breaker).await;
    advance(secs(30)).await;
    let (message, context) = (mail(), SendContext::default());
    let mut probe = Box::pin(breaker.send(&message, &context));
    assert!(futures_util::poll!(&mut probe).is_pending());
    assert_eq!(code(&send(&breaker).await), "breaker.open");
    assert_eq!(stub.handed(), 2);
    drop(probe);
    assert_eq!(code(&send(&breaker).await), "none");
}

#[tokio::test(start_paused = true)]
async fn what_says_nothing_about_the_provider_neither_opens_nor_closes_it() {
    let nothing = [
        Receipt::failed(MailCategory::Validation, "message.size"),
        Receipt::failed(MailCategory::Rejected, "smtp.no"),
        Receipt::failed(MailCategory::Configuration, "provider.configuration"),
        Receipt::failed(MailCategory::RateLimit, "provider.rate_limited"),
        Receipt::failed(MailCategory::Cancelled, "mail.cancelled"),
        Receipt::unknown("idempotency.in_flight"),
        Receipt::failed(MailCategory::Unknown, "idempotency.store_failed"),
    ];
    let stub = scripted("a", nothing.clone());
    let breaker = Breaker::new(stub.clone(), 1, secs(30));
    for _ in 0..nothing.len() {
        let _ = send(&breaker).await;
    }
    assert!(send(&breaker).await.is_accepted());
    // Half open, each of them lets the next one have a look.
    stub.then(busy());
    let _ = send(&breaker).await;
    advance(secs(30)).await;
    for receipt in &nothing {
        stub.then(receipt.clone());
        assert_eq!(send(&breaker).await.code(), receipt.code());
    }
    stub.then(busy());
    assert_eq!(code(&send(&breaker).await), "smtp.busy");
    assert_eq!(code(&send(&breaker).await), "breaker.open");
    // A limit of the provider counts if that is wanted.
    let stub = scripted("a", [Receipt::failed(MailCategory::RateLimit, "provider.rate_limited")]);
    let strict = Breaker::new(stub, 1, secs(30)).with_rate_limits();
    let _ = send(&strict).await;
    assert_eq!(code(&send(&strict).await), "breaker.open");
}

#[tokio::test(start_paused = true)]
async fn credentials_that_are_refused_open_it_at_once_and_a_provider_may_ask_for_longer() {
    let breaker =
        Breaker::new(scripted("a", [Receipt::failed(MailCategory::Auth, "provider.auth")]), 5, secs(30));
    let _ = send(&breaker).await;
    assert_eq!(code(&send(&breaker).await), "breaker.open");
    let breaker = Breaker::new(scripted("a", [busy_for(secs(300))]), 1, secs(30));
    let _ = send(&breaker).await;
    assert_eq!(send(&breaker).await.failure().unwrap().retry_after, Some(secs(300)));
}

#[tokio::test(start_paused = true)]
async fn it_opens_by_the_share_of_failures_too() {
    let stub = scripted("a", [busy(), Receipt::accepted(), busy(), Receipt::accepted(), busy(), busy()]);
    let breaker = Breaker::new(stub.clone(), 100, secs(30)).with_rate(0.6, 5);
    let mut seen = Vec::new();
    for _ in 0..6 {
        seen.push(code(&send(&breaker).await).to_owned());
    }
    assert_eq!(seen, ["smtp.busy", "none", "smtp.busy", "none", "smtp.busy", "breaker.open"]);
}

#[tokio::test(start_paused = true)]
async fn what_comes_back_from_before_it_opened_decides_nothing() {
    let stub = Stub::new();
    let signal = std::sync::Arc::new(tokio::sync::Notify::new());
    stub.then_act([hapax_mail::Act::Wait(std::sync::Arc::clone(&signal))]).then(busy());
    let breaker = Breaker::new(stub.clone(), 1, secs(30));
    let (message, context) = (mail(), SendContext::default());
    let mut slow = Box::pin(breaker.send(&message, &context));
    assert!(futures_util::poll!(&mut slow).is_pending());
    let _ = send(&breaker).await;
    signal.notify_one();
    assert!(slow.await.is_accepted());
    assert_eq!(code(&send(&breaker).await), "breaker.open");
}

#[tokio::test(start_paused = true)]
async fn each_message_of_a_batch_is_answered_in_its_place() {
    let stub = scripted("a", [Receipt::accepted(), busy()]);
    let breaker = Breaker::new(stub.clone(), 1, secs(30));
    let messages = (0..5).map(|_| (mail(), SendContext::default()));
    let receipts: Vec<_> = breaker.send_many(Box::pin(futures_util::stream::iter(messages))).collect().await;
    let shown: Vec<_> = receipts.iter().map(code).collect();
    assert_eq!(shown, ["none", "smtp.busy", "breaker.open", "breaker.open", "breaker.open"]);
    assert_eq!(stub.handed(), 2);
}
