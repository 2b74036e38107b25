//! One of several transports, and the next one if that fails.

use super::{busy, busy_for, codes, lost, mail, scripted, secs, stuck};
use crate::{
    kit::{Kit, code},
    support::plain,
};
use hapax_engine::queue::Backoff;
use hapax_mail::{
    Failure, FailureScope, Mail, MailCategory, Mailer, MailerBuilder, Member, RawMessage, Receipt, Rejected,
    Strategy, Stub, Transport,
};
use std::time::Duration;

fn pool(members: impl IntoIterator<Item = Stub>) -> MailerBuilder {
    let mut members = members.into_iter();
    let first = Mailer::via(members.next().unwrap());
    members.fold(first, MailerBuilder::or_via)
}

#[tokio::test(start_paused = true)]
async fn it_goes_on_by_the_table() {
    let scoped = |category, scope| Receipt::not_sent(Failure::new(category, "provider.x").with_scope(scope));
    let table = [
        (Receipt::accepted(), false),
        (Receipt::failed(MailCategory::Validation, "message.address"), false),
        (scoped(MailCategory::Validation, FailureScope::Provider), true),
        (Receipt::failed(MailCategory::Configuration, "provider.configuration"), true),
        (Receipt::failed(MailCategory::Auth, "provider.auth"), true),
        (Receipt::failed(MailCategory::RateLimit, "provider.rate_limited"), true),
        (Receipt::failed(MailCategory::Network, "smtp.connect"), true),
        (Receipt::failed(MailCategory::Timeout, "smtp.connect_timeout"), true),
        (busy(), true),
        (Receipt::failed(MailCategory::Service, "breaker.open"), true),
        (Receipt::failed(MailCategory::Rejected, "smtp.no"), false),
        (scoped(MailCategory::Rejected, FailureScope::Recipient), false),
        (scoped(MailCategory::Rejected, FailureScope::Provider), true),
        (Receipt::failed(MailCategory::Cancelled, "mail.cancelled"), false),
        (Receipt::failed(MailCategory::Unknown, "mail.panicked"), true),
        (Receipt::failed(MailCategory::Unknown, "idempotency.store_failed"), false),
        (lost(), false),
        (Receipt::unknown("idempotency.in_flight"), false),
    ];
    for (receipt, goes_on) in table {
        let (first, second) = (scripted("a", [receipt.clone()]), Stub::named("b"));
        let mailer = pool([first, second.clone()]).build().unwrap();
        let answer = mailer.send(&mail()).await;
        assert_eq!(second.handed(), usize::from(goes_on), "{receipt:?}");
        if goes_on {
            assert!(answer.is_accepted());
            assert_eq!(answer.provider, "b");
            assert_eq!(answer.attempts.iter().map(|a| a.provider.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        } else {
            assert_eq!((answer.code(), answer.provider.as_str()), (receipt.code(), "a"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_member_has_taken_in_part_goes_nowhere_else() {
    let partly = Receipt::accepted().with_accepted(["ada@example.com"]).with_rejected([Rejected::new(
        "bob@example.com",
        "550 no such user",
        false,
    )]);
    let (first, second) = (scripted("a", [partly]), Stub::named("b"));
    let receipt = pool([first, second.clone()]).build().unwrap().send(&mail()).await;
    assert!(receipt.is_accepted());
    assert_eq!((receipt.rejected.len(), second.handed()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn when_all_have_failed_the_receipt_says_how_each_did_and_when_to_try_again() {
    let refused = Receipt::failed(MailCategory::Auth, "provider.auth");
    let members =
        [scripted("a", [busy_for(secs(90))]), scripted("b", [busy_for(secs(60))]), scripted("c", [refused])];
    let receipt = pool(members).named("shop").build().unwrap().send(&mail()).await;
    let failure = receipt.failure().unwrap();
    assert_eq!((&*failure.code, failure.category), ("pool.exhausted", MailCategory::Auth));
    assert_eq!((failure.retryable, failure.retry_after), (true, Some(secs(60))));
    assert_eq!(codes(&receipt), ["smtp.busy", "smtp.busy", "provider.auth"]);
    assert_eq!(receipt.provider, "shop");
    // None of them may pass: nor may the whole.
    let refused = || Receipt::failed(MailCategory::Auth, "provider.auth");
    let members = [scripted("a", [refused()]), scripted("b", [refused()])];
    assert!(!pool(members).build().unwrap().send(&mail()).await.failure().unwrap().retryable);
}

#[tokio::test(start_paused = true)]
async fn going_on_after_an_unknown_outcome_is_a_choice() {
    let (first, second) = (scripted("a", [lost(), lost()]), scripted("b", [Receipt::accepted(), busy()]));
    let mailer = pool([first, second.clone()]).failover_on_unknown().build().unwrap();
    assert!(mailer.send(&mail()).await.is_accepted());
    // A failure afterwards does not make it certain.
    let receipt = mailer.send(&mail()).await;
    assert!(receipt.is_unknown());
    assert_eq!(codes(&receipt), ["smtp.reply_lost", "smtp.busy"]);
    assert_eq!(second.handed(), 2);
}

/// unemail#104: one breaker for all providers blocked the healthy one.
#[tokio::test(start_paused = true)]
async fn each_member_has_a_breaker_of_its_own() {
    let (first, second) = (scripted("a", [busy(), busy()]), Stub::named("b"));
    let member = |stub: &Stub| Member::new(stub.clone()).breaker(2, secs(30));
    let mailer = Mailer::via(member(&first)).or_via(member(&second)).build().unwrap();
    for _ in 0..4 {
        assert!(mailer.send(&mail()).await.is_accepted());
    }
    assert_eq!((first.handed(), second.handed()), (2, 4));
    // Nor do two members on one transport, or a clone of a member.
    let stub = scripted("a", [busy()]);
    let twice = member(&stub).breaker(1, secs(30));
    let mailer = Mailer::via(twice.clone()).or_via(twice).build().unwrap();
    assert!(mailer.send(&mail()).await.is_accepted());
    assert!(mailer.send(&mail()).await.is_accepted());
    assert_eq!(stub.handed(), 3);
}

/// symfony#52551, #50162: with all transports marked dead nothing was tried at all.
#[tokio::test(start_paused = true)]
async fn with_all_breakers_open_the_one_nearest_to_its_recovery_is_tried() {
    let (first, second) = (scripted("a", [busy_for(secs(300))]), scripted("b", [busy_for(secs(60)), busy()]));
    let member = |stub: &Stub| Member::new(stub.clone()).breaker(1, secs(30));
    let mailer = Mailer::via(member(&first)).or_via(member(&second)).build().unwrap();
    assert_eq!(code(&mailer.send(&mail()).await), "pool.exhausted");
    assert_eq!((first.handed(), second.handed()), (1, 1));
    let receipt = mailer.send(&mail()).await;
    assert_eq!(codes(&receipt), ["breaker.open", "breaker.open", "smtp.busy"]);
    assert_eq!(code(&receipt), "pool.exhausted");
    assert_eq!((first.handed(), second.handed()), (1, 2));
    assert!(mailer.send(&mail()).await.is_accepted());
    assert_eq!(first.handed() + second.handed(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_ends_the_attempts_so_that_the_pool_moves_on() {
    let (first, second) = (scripted("a", (0..9).map(|_| busy())), Stub::named("b"));
    let member = Member::new(first.clone()).retry(9, Backoff::fixed(secs(1))).breaker(2, secs(30));
    let receipt = Mailer::via(member).or_via(second).build().unwrap().send(&mail()).await;
    assert!(receipt.is_accepted());
    assert_eq!(codes(&receipt), ["smtp.busy", "smtp.busy", "breaker.open", "sent"]);
}

#[tokio::test(start_paused = true)]
async fn a_retry_around_a_pool_tries_again_only_what_nobody_has_taken() {
    let members = || [scripted("a", [busy()]), scripted("b", [busy()])];
    let pooled = pool(members()).build().unwrap();
    let around = Mailer::via(Member::new(pooled).retry(2, Backoff::fixed(secs(1)))).build().unwrap();
    assert!(around.send(&mail()).await.is_accepted());
    let (first, second) = (scripted("a", [busy()]), scripted("b", [lost()]));
    let pooled = pool([first.clone(), second.clone()]).build().unwrap();
    let around = Mailer::via(Member::new(pooled).retry(2, Backoff::fixed(secs(1)))).build().unwrap();
    assert!(around.send(&mail()).await.is_unknown());
    assert_eq!((first.handed(), second.handed()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_batch_goes_to_one_member_and_what_fails_there_to_the_next() {
    let (first, second) = (scripted("a", [Receipt::accepted(), busy(), lost()]), Stub::named("b"));
    let mailer = pool([first.clone(), second.clone()]).build().unwrap();
    let receipts = mailer.send_many((0..4).map(|_| mail())).collect().await;
    let shown: Vec<_> = receipts.iter().map(|receipt| (receipt.provider.as_str(), code(receipt))).collect();
    assert_eq!(shown, [("a", "none"), ("b", "none"), ("a", "smtp.reply_lost"), ("a", "none")]);
    assert_eq!((first.handed(), second.handed()), (4, 1));
}

/// upyo starts over at the first member with each batch.
#[tokio::test(start_paused = true)]
async fn turns_go_on_from_batch_to_batch() {
    let (first, second) = (Stub::named("a"), Stub::named("b"));
    let mailer = pool([first.clone(), second.clone()]).strategy(Strategy::RoundRobin).build().unwrap();
    for _ in 0..4 {
        let receipts = mailer.send_many([mail()]).collect().await;
        assert!(receipts[0].is_accepted());
    }
    assert_eq!((first.handed(), second.handed()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn weights_and_predicates_choose_the_member() {
    let (first, second) = (Stub::named("a"), Stub::named("b"));
    let mailer = Mailer::via(Member::new(first.clone()).weight(3))
        .or_via(Member::new(second.clone()))
        .strategy(Strategy::Weighted)
        .build()
        .unwrap();
    for _ in 0..8 {
        assert!(mailer.send(&mail()).await.is_accepted());
    }
    assert_eq!((first.handed(), second.handed()), (6, 2));

    let (news, rest) = (Stub::named("news"), Stub::named("rest"));
    let is_news = |mail: Mail<'_>| match mail {
        Mail::Message(message) => message.tags().iter().any(|tag| tag == "news"),
        Mail::Raw(_) => false,
    };
    let mailer = Mailer::via(rest.clone()).or_via(Member::new(news.clone()).only(is_news)).build().unwrap();
    let tagged = plain().tag("news").build().unwrap();
    let receipts = mailer.send_many([&mail(), &tagged, &mail()]).collect().await;
    let providers: Vec<_> = receipts.iter().map(|receipt| receipt.provider.as_str()).collect();
    assert_eq!(providers, ["rest", "news", "rest"]);
    let raw = RawMessage::new("a@example.com", ["b@example.com"], "Subject: hi\r\n\r\nhi\r\n");
    assert_eq!(mailer.send_raw(&raw).await.provider, "rest");
    // What none of them is for goes nowhere.
    let picky = |stub: Stub| Member::new(stub).only(is_news);
    let mailer = Mailer::via(picky(news.clone())).or_via(picky(rest)).build().unwrap();
    let receipt = mailer.send(&mail()).await;
    assert_eq!(
        (code(&receipt), receipt.failure().unwrap().category),
        ("pool.no_match", MailCategory::Configuration)
    );
}

#[tokio::test]
async fn keys_of_a_pool_do_not_depend_on_its_members() {
    let kit = Kit::new();
    let keyed = crate::kit::keyed("k");
    let shop = |members: [Stub; 2]| pool(members).named("shop").idempotent(&kit.idem).build().unwrap();
    let first = shop([Stub::named("a"), Stub::named("b")]);
    assert_eq!(first.id(), "shop");
    assert!(first.send(&keyed).await.is_accepted());
    let replayed = shop([Stub::named("c"), Stub::named("d")]).send(&keyed).await;
    assert!(replayed.replayed);
    assert_eq!(replayed.provider, "a");
    // A second send could go to another member: a pool recognises nothing.
    let members = [Stub::deduplicating(secs(60)), Stub::deduplicating(secs(60))];
    assert_eq!(pool(members).build().unwrap().dedupes_for(), None);
}

#[tokio::test(start_paused = true)]
async fn what_a_pool_is_dropped_in_is_unknown_only_where_a_member_had_committed() {
    let kit = Kit::new();
    let (first, second) = (scripted("a", [busy()]), Stub::named("b"));
    second.then_act(stuck());
    let mailer = pool([first, second]).named("p").idempotent(&kit.idem).build().unwrap();
    let keyed = crate::kit::keyed("k");
    assert!(tokio::time::timeout(Duration::from_millis(5), mailer.send(&keyed)).await.is_err());
    assert!(mailer.send(&keyed).await.is_unknown());
}
