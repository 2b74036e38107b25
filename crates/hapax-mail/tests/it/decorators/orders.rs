//! How a stack is put together, and what is refused.

use super::{busy, codes, mail, scripted, secs, stuck};
use crate::kit::{Kit, code, keyed};
use hapax_core::limit::Quota;
use hapax_engine::queue::Backoff;
use hapax_mail::{
    Breaker, IdempotencyTransport, InvalidTransport, Layer, Mailer, MailerBuilder, Member, RateLimited,
    Retry, Strategy, Stub, Transport,
};
use std::time::Duration;

fn whole(stub: Stub) -> Member {
    // Not in the order in which they will stand.
    Member::new(stub)
        .limit(Quota::token_bucket(100, secs(1)))
        .retry(3, Backoff::exponential(secs(1), secs(30)))
        .breaker(5, secs(30))
        .attempt_timeout(secs(60))
}

fn refused(built: Result<Mailer, InvalidTransport>) -> String {
    built.unwrap_err().to_string()
}

#[tokio::test]
async fn whatever_the_order_of_the_calls_the_order_of_the_stack_is_one() {
    let kit = Kit::new();
    let mailer = Mailer::via(whole(Stub::named("a")))
        .idempotent(&kit.idem)
        .or_via(whole(Stub::named("b")))
        .build()
        .unwrap();
    assert_eq!(
        mailer.stack().layers,
        [Layer::Idempotency, Layer::Pool, Layer::Retry, Layer::Breaker, Layer::RateLimit]
    );
    let plain = Mailer::via(Stub::new()).build().unwrap();
    assert!(plain.stack().layers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_reservation_holds_for_all_attempts_of_all_members() {
    let kit = Kit::new();
    let (first, second) = (scripted("a", [busy(), busy(), busy()]), Stub::named("b"));
    let mailer =
        Mailer::via(whole(first)).or_via(whole(second.clone())).idempotent(&kit.idem).build().unwrap();
    let receipt = mailer.send(&keyed("k")).await;
    assert_eq!(codes(&receipt), ["smtp.busy", "smtp.busy", "smtp.busy", "sent"]);
    assert!(mailer.send(&keyed("k")).await.replayed);
    assert_eq!(second.handed(), 1);
}

#[tokio::test]
async fn a_wrong_order_is_refused_with_the_reason() {
    let kit = Kit::new();
    let keyed = || IdempotencyTransport::new(Stub::named("smtp"));
    let retried = || Retry::new(Stub::named("smtp"));
    let cases: Vec<(MailerBuilder, [&str; 3])> = vec![
        (
            Mailer::via(Member::new(keyed()).retry(3, Backoff::fixed(secs(1)))),
            ["a retry", "idempotency", "reserved once"],
        ),
        (Mailer::via(Stub::named("x")).or_via(keyed()), ["a pool", "idempotency", "reserved once"]),
        (
            Mailer::via(Member::new(keyed()).breaker(1, secs(1))),
            ["a breaker", "idempotency", "reserved once"],
        ),
        (
            Mailer::via(Member::new(retried()).breaker(1, secs(1))),
            ["a breaker", "a retry", "could not end them"],
        ),
        (
            Mailer::via(Member::new(retried()).retry(2, Backoff::fixed(secs(1)))),
            ["a retry", "a retry", "multiplied"],
        ),
        (
            Mailer::via(Member::new(retried()).limit(Quota::token_bucket(1, secs(1)))),
            ["a rate limit", "a retry", "past the limit"],
        ),
        (
            Mailer::via(
                Member::new(Breaker::new(Stub::named("smtp"), 1, secs(1)))
                    .limit(Quota::token_bucket(1, secs(1))),
            ),
            ["a rate limit", "a breaker", "use the limit up"],
        ),
    ];
    for (builder, words) in cases {
        let reason = refused(builder.build());
        assert!(words.iter().all(|word| reason.contains(word)), "{words:?}: {reason}");
    }
    let pooled = || Mailer::via(Stub::named("a")).or_via(Stub::named("b")).build().unwrap();
    let reason = refused(Mailer::via(Member::new(pooled()).breaker(1, secs(1))).build());
    assert!(reason.contains("shut the others out"), "{reason}");
    // What stands the right way round may be put together by hand.
    let by_hand = RateLimited::new(Stub::new(), Quota::token_bucket(1, secs(1)));
    let by_hand = Retry::new(Breaker::new(by_hand, 1, secs(1)));
    assert!(Mailer::via(by_hand).idempotent(&kit.idem).build().is_ok());
}

#[tokio::test]
async fn attempts_that_together_take_longer_than_a_lease_is_renewed_are_refused_with_the_sum() {
    let kit = Kit::new();
    let member = |attempts, each| {
        Member::new(Stub::new()).retry(attempts, Backoff::fixed(secs(60))).attempt_timeout(each)
    };
    let build = |members: Vec<Member>| {
        let mut members = members.into_iter();
        let first = Mailer::via(members.next().unwrap());
        members.fold(first, MailerBuilder::or_via).idempotent(&kit.idem).build()
    };
    // 4 × 14 min and 3 pauses of a minute; 4 × 15 and 3.
    assert!(build(vec![member(4, Duration::from_mins(14))]).is_ok());
    let reason = refused(build(vec![member(4, Duration::from_mins(15))]));
    assert!(reason.contains("63 min") && reason.contains("60 min"), "{reason}");
    let reason = refused(build(vec![member(2, Duration::from_mins(15)), member(2, Duration::from_mins(15))]));
    assert!(reason.contains("62 min"), "{reason}");
    // Waiting for a limit counts, for each attempt.
    let waits = member(3, Duration::from_mins(15)).limit(Quota::token_bucket(1, secs(1)));
    assert!(build(vec![waits.clone()]).is_ok());
    assert!(refused(build(vec![waits.limit_wait(Duration::from_mins(5))])).contains("62 min"));
    // A time for all attempts bounds them; and without keys there is no lease to outlive.
    assert!(build(vec![member(9, Duration::from_mins(15)).retry_within(Duration::from_mins(50))]).is_ok());
    assert!(Mailer::via(member(9, Duration::from_mins(15))).build().is_ok());
    // Where nothing is said an attempt has 15 min.
    let silent = || Member::new(Stub::new()).retry(3, Backoff::exponential(secs(1), secs(30)));
    assert!(build(vec![silent()]).is_ok());
    assert!(refused(build(vec![silent(), silent()])).contains("92 min"));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_has_its_own_time_which_a_wait_for_the_limit_does_not_use_up() {
    let stub = Stub::new();
    let member = Member::new(stub.clone()).limit(Quota::sliding_window(1, secs(20))).attempt_timeout(secs(5));
    let mailer = Mailer::via(member).build().unwrap();
    assert!(mailer.send(&mail()).await.is_accepted());
    assert!(mailer.send(&mail()).await.is_accepted());
    stub.then_act(stuck());
    let start = tokio::time::Instant::now();
    assert_eq!(code(&mailer.send(&mail()).await), "mail.timeout");
    assert_eq!(start.elapsed(), secs(25));
}

#[tokio::test]
async fn settings_that_do_nothing_or_cannot_be_used_are_refused() {
    let backoff = Backoff::fixed(secs(1));
    let stub = || Member::new(Stub::named("smtp"));
    let pool = || Mailer::via(Stub::named("a")).or_via(Stub::named("b"));
    for (built, word) in [
        (Mailer::via(Stub::new()).strategy(Strategy::RoundRobin).build(), "strategy"),
        (Mailer::via(Stub::new()).named("x").build(), "named"),
        (Mailer::via(Stub::new()).failover_on_unknown().build(), "failover_on_unknown"),
        (Mailer::via(stub().retry(0, backoff)).build(), "retry"),
        (Mailer::via(stub().breaker(0, secs(1))).build(), "breaker"),
        (Mailer::via(stub().breaker(1, Duration::ZERO)).build(), "breaker"),
        (Mailer::via(stub().retry_within(secs(1))).build(), "retry_within"),
        (Mailer::via(stub().longest_pause(secs(1))).build(), "longest_pause"),
        (Mailer::via(stub().limit_wait(secs(1))).build(), "limit_wait"),
        (Mailer::via(stub().attempt_timeout(Duration::ZERO)).build(), "attempt_timeout"),
        (pool().or_via(stub().weight(0)).build(), "weight"),
    ] {
        let reason = refused(built);
        assert!(reason.contains(word), "{word}: {reason}");
    }
}
