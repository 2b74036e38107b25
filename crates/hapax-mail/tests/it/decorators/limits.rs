//! So many attempts in such a time.

use super::{mail, scripted, secs};
use crate::{kit::code, support::plain};
use futures_util::future::join_all;
use hapax_core::{
    Backend, ManualClock,
    limit::Quota,
    memory::{MemoryLimits, MemoryStore},
};
use hapax_engine::limit::{Limit, RateLimiter};
use hapax_mail::{Failure, MailCategory, RateLimited, Receipt, SendContext, Stub, Transport};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

fn limited(stub: &Stub, limit: u32, window: Duration) -> RateLimited<Stub> {
    RateLimited::new(stub.clone(), Quota::sliding_window(limit, window))
}

async fn send(transport: &impl Transport) -> Receipt {
    transport.send(&mail(), &SendContext::default()).await
}

#[tokio::test(start_paused = true)]
async fn attempts_start_at_the_rate_in_the_order_in_which_they_came() {
    let stub = Stub::new();
    let limited = limited(&stub, 2, secs(1));
    let start = Instant::now();
    let messages: Vec<_> = (0..6).map(|n| plain().subject(format!("{n}")).build().unwrap()).collect();
    let context = SendContext::default();
    let receipts = join_all(messages.iter().map(|message| limited.send(message, &context))).await;
    assert!(receipts.iter().all(Receipt::is_accepted));
    assert_eq!(start.elapsed().as_millis().div_ceil(1000), 2);
    let order: Vec<_> = stub.sent().iter().map(|message| message.subject().unwrap().to_owned()).collect();
    assert_eq!(order, ["0", "1", "2", "3", "4", "5"]);
}

#[tokio::test(start_paused = true)]
async fn what_would_wait_too_long_is_told_when() {
    let stub = Stub::new();
    let limited = limited(&stub, 1, secs(60)).with_wait(secs(10));
    assert!(send(&limited).await.is_accepted());
    let start = Instant::now();
    let receipt = send(&limited).await;
    let failure = receipt.failure().unwrap();
    assert_eq!(&*failure.code, "ratelimit.wait_exceeded");
    assert_eq!((failure.category, failure.retryable), (MailCategory::RateLimit, true));
    assert_eq!((failure.retry_after, start.elapsed()), (Some(secs(60)), Duration::ZERO));
    // The message's deadline counts too.
    let patient = self::limited(&stub, 1, secs(5));
    assert!(send(&patient).await.is_accepted());
    let context = SendContext::default().with_deadline(Instant::now() + secs(1));
    assert_eq!(code(&patient.send(&mail(), &context).await), "ratelimit.wait_exceeded");
    assert!(!context.is_committed());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_stops_leaves_its_place_and_too_many_are_refused() {
    let stub = Stub::new();
    let limited = limited(&stub, 1, secs(20)).with_most_waiting(1);
    assert!(send(&limited).await.is_accepted());
    let cancel = CancellationToken::new();
    let context = SendContext::default().with_cancel(cancel.clone());
    let message = mail();
    let mut waiting = Box::pin(limited.send(&message, &context));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    let mut second = Box::pin(send(&limited));
    assert!(futures_util::poll!(&mut second).is_pending());
    assert_eq!(code(&send(&limited).await), "ratelimit.queue_full");
    cancel.cancel();
    assert_eq!(code(&waiting.await), "mail.cancelled");
    assert!(second.await.is_accepted());
    assert_eq!(stub.handed(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_says_too_much_holds_everybody_back() {
    let slow_down = Failure::new(MailCategory::RateLimit, "provider.rate_limited").with_retry_after(secs(7));
    let stub = scripted("a", [Receipt::not_sent(slow_down)]);
    let limited = limited(&stub, 100, secs(1));
    assert_eq!(code(&send(&limited).await), "provider.rate_limited");
    let start = Instant::now();
    let (message, context) = (mail(), SendContext::default());
    let receipts = join_all((0..3).map(|_| limited.send(&message, &context))).await;
    assert!(receipts.iter().all(Receipt::is_accepted));
    assert_eq!(start.elapsed(), secs(7));
    // A whole quota that is used up is told at once.
    let quota = Failure::new(MailCategory::RateLimit, "provider.quota").with_retryable(false);
    stub.then(Receipt::not_sent(quota.with_retry_after(secs(600))));
    let _ = send(&limited).await;
    let receipt = send(&limited).await;
    assert_eq!(code(&receipt), "ratelimit.wait_exceeded");
    assert_eq!(receipt.failure().unwrap().retry_after, Some(secs(600)));
}

#[tokio::test(start_paused = true)]
async fn recipients_count_where_the_provider_counts_them() {
    let stub = Stub::new();
    let limited = limited(&stub, 3, secs(60)).by_recipients().with_wait(Duration::ZERO);
    let three = plain().to("bob@example.com").cc("cy@example.com").build().unwrap();
    assert!(limited.send(&three, &SendContext::default()).await.is_accepted());
    assert_eq!(code(&send(&limited).await), "ratelimit.wait_exceeded");
    // More than the whole limit never passes.
    let small = self::limited(&stub, 2, secs(60)).by_recipients();
    assert_eq!(code(&small.send(&three, &SendContext::default()).await), "limit.never");
}

#[tokio::test]
async fn one_limit_holds_for_all_that_share_it_and_nothing_is_sent_without_its_store() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::new(Arc::new(MemoryLimits::new(Arc::new(clock.clone()))));
    let limit = || Limit::new("mail:smtp", Quota::fixed_window(1, secs(60)));
    let (first, second) = (Stub::new(), Stub::new());
    let a = RateLimited::shared(first.clone(), &limiter, limit()).with_wait(Duration::ZERO);
    let b = RateLimited::shared(second.clone(), &limiter, limit()).with_wait(Duration::ZERO);
    assert!(send(&a).await.is_accepted());
    assert_eq!(code(&send(&b).await), "ratelimit.wait_exceeded");
    clock.advance(secs(60));
    assert!(send(&b).await.is_accepted());
    // A backend without limits.
    let store = Arc::new(MemoryStore::new(Arc::new(clock)));
    let none = RateLimiter::of(&Backend::new("test", store), secs(5));
    let receipt = send(&RateLimited::shared(first.clone(), &none, limit())).await;
    assert_eq!(code(&receipt), "limit.store_failed");
    assert!(receipt.failure().unwrap().retryable);
    assert_eq!((first.handed(), second.handed()), (1, 1));
}
