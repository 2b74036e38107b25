//! The handle that users hold.

use crate::{
    kit::{Kit, code, keyed},
    support::plain,
};
use hapax_core::Coded;
use hapax_engine::{Class, Classify, EffectExt};
use hapax_mail::{
    Commit, MailCategory, Mailer, Member, NotAccepted, Outcome, RawMessage, Receipt, SendContext, Stub,
    Transport,
};
use std::time::Duration;

#[tokio::test]
async fn mailer_without_a_store_sends_whatever_it_is_given() {
    let stub = Stub::without_commit();
    let mailer = Mailer::via(stub.clone()).build().unwrap();
    for _ in 0..2 {
        assert!(!mailer.send(&keyed("k")).await.replayed);
    }
    assert_eq!(mailer.send_many(&[keyed("k"), keyed("k")]).concurrency(2).collect().await.len(), 2);
    assert_eq!(stub.handed(), 4);
    assert_eq!(mailer.commit(), Commit::Unsupported);
}

#[tokio::test]
async fn unknown_is_not_sent_again() {
    let kit = Kit::new();
    kit.stub
        .then(Receipt::unknown("smtp.reply_lost"))
        .then(Receipt::failed(MailCategory::Network, "smtp.connect"));
    let mailer = Mailer::via(kit.stub.clone()).idempotent(&kit.idem).build().unwrap();
    for _ in 0..3 {
        assert!(matches!(mailer.send(&keyed("k")).await.outcome, Outcome::Unknown(_)));
    }
    assert_eq!(kit.stub.sent().len(), 1);
}

#[tokio::test]
async fn futures_of_a_mailer_borrow_nothing() {
    let kit = Kit::new();
    let mailer = Mailer::via(kit.stub.clone()).idempotent(&kit.idem).build().unwrap();
    let raw = RawMessage::new("shop@example.com", ["ada@example.com"], "Subject: hi\r\n\r\nhi\r\n")
        .with_idempotency_key("raw:1");
    let (one, two) = {
        let message = keyed("k");
        (tokio::spawn(mailer.send(&message)), tokio::spawn(mailer.send_raw(&raw)))
    };
    assert!(one.await.unwrap().into_result().is_ok());
    assert!(two.await.unwrap().into_result().is_ok());
    tokio::spawn(async move { mailer.send_raw(&raw).await.into_result() }).await.unwrap().unwrap();
}

#[tokio::test]
async fn what_cannot_be_built_says_why() {
    let kit = Kit::new();
    let via = || Mailer::via(Member::new(kit.stub.clone()));
    let error = via().lease(Duration::from_mins(1)).build().unwrap_err();
    assert!(error.to_string().contains("`lease`") && error.to_string().contains("idempotent"));
    assert_eq!(error.code(), "mail.invalid_transport");
    let error = via().idempotent(&kit.idem).lease(Duration::from_millis(5)).build().unwrap_err();
    assert!(error.to_string().contains("1 s"), "{error}");
    let error = via().idempotent(&kit.idem).ttl(Duration::ZERO).build().unwrap_err();
    assert!(error.to_string().contains("400 days"), "{error}");
    let error = via().idempotent(&kit.idem).scope("").build().unwrap_err();
    assert!(error.to_string().contains("scope"), "{error}");
    let error = via().idempotent(&kit.idem.with_namespace("")).build().unwrap_err();
    assert!(error.to_string().contains("namespace"), "{error}");
}

#[tokio::test]
async fn settings_of_a_mailer_are_those_of_the_decorator() {
    let kit = Kit::new();
    let mailer = Mailer::via(kit.stub.clone())
        .idempotent(&kit.idem)
        .scope("mail:stub")
        .lease(Duration::from_mins(2))
        .ttl(Duration::from_hours(1))
        .unknown_ttl(Duration::from_hours(2))
        .key(|m| m.subject().map(|s| format!("subject:{s}")))
        .raw_key(|raw| Some(format!("raw:{}", raw.from)))
        .keep_rejected(true)
        .build()
        .unwrap();
    let now = hapax_core::Clock::now(&kit.clock);
    let _ = mailer.send(&keyed("ignored")).await;
    assert_eq!(kit.record("subject:Welcome").await.unwrap().until.since(now), Duration::from_hours(1));
    kit.stub.then(Receipt::unknown("smtp.reply_lost"));
    let raw = RawMessage::new("shop@example.com", ["ada@example.com"], "Subject: hi\r\n\r\nhi\r\n");
    let _ = mailer.send_raw(&raw).await;
    assert_eq!(kit.record("raw:shop@example.com").await.unwrap().until.since(now), Duration::from_hours(2));
    kit.stub.then(Receipt::failed(MailCategory::Rejected, "smtp.rejected"));
    let other = plain().subject("Other").build().unwrap();
    let _ = mailer.send(&other).await;
    assert_eq!(code(&mailer.send(&other).await), "smtp.rejected");
    assert_eq!(kit.stub.handed(), 3);
}

#[tokio::test]
async fn mailer_can_be_a_member_of_another() {
    let kit = Kit::new();
    let inner = Mailer::via(kit.stub.clone()).idempotent(&kit.idem).scope("inner").build().unwrap();
    let outer = Mailer::via(inner).idempotent(&kit.idem).scope("outer").build().unwrap();
    assert!(outer.send(&keyed("k")).await.is_accepted());
    // What is in flight further in was not sent, so the outer key is free again.
    kit.stub.then_act([hapax_mail::Act::Commit, hapax_mail::Act::Hang]);
    assert!(outer.send(&keyed("k")).await.replayed);
    assert_eq!(kit.stub.handed(), 1);
}

#[tokio::test]
async fn unsent_message_further_in_frees_the_key_further_out() {
    let kit = Kit::new();
    let inner = Mailer::via(kit.stub.clone()).idempotent(&kit.idem).scope("mail:stub").build().unwrap();
    let outer = Mailer::via(inner).idempotent(&kit.idem).scope("outer").build().unwrap();
    kit.reserve_and_die("k", &keyed("k")).await;
    assert_eq!(code(&outer.send(&keyed("k")).await), "idempotency.in_flight");
    kit.clock.advance(crate::kit::LEASE);
    assert!(outer.send(&keyed("k")).await.is_accepted());
}

#[tokio::test]
async fn refusal_and_doubt_are_told_apart_with_a_question_mark() {
    let stub = Stub::new();
    stub.then(Receipt::failed(MailCategory::Rejected, "smtp.rejected"))
        .then(Receipt::unknown("smtp.reply_lost"));
    let mailer = Mailer::via(stub).build().unwrap();
    let refused = mailer.send(&keyed("k")).await.into_result().unwrap_err();
    assert!(matches!(&refused, NotAccepted::Failed(f) if f.to_string() == "smtp.rejected"));
    assert_eq!(refused.class(), Class::Failed);
    let doubt = mailer.send(&keyed("k")).await.into_result().unwrap_err();
    assert_eq!((doubt.class(), doubt.code()), (Class::Unknown, "smtp.reply_lost"));
    assert_eq!(std::error::Error::source(&doubt).unwrap().to_string(), "smtp.reply_lost");
    let sent = mailer.send(&keyed("k")).await.into_result().unwrap();
    assert!(!sent.replayed && sent.provider == "stub");
}

#[tokio::test]
async fn mail_can_be_the_effect_of_a_run() {
    let kit = Kit::new();
    let mailer = Mailer::via(kit.stub.clone()).build().unwrap();
    kit.stub.then(Receipt::unknown("smtp.reply_lost"));
    let message = plain().build().unwrap();
    let effect = || async { mailer.send(&message).await.into_result().map(|sent| sent.message_id) };
    assert!(kit.idem.run("order:1", &1, effect).await.unwrap_err().is_unknown());
    let judged = || effect().never_unknown();
    assert!(kit.idem.run("order:2", &1, judged).await.unwrap().is_ok());
}

#[tokio::test]
async fn context_of_the_callers_own_is_passed_on() {
    let kit = Kit::new();
    let mailer = Mailer::via(kit.stub.clone()).idempotent(&kit.idem).build().unwrap();
    let context = SendContext::default().with_provider_key("mine").with_attempt(3);
    let _ = mailer.send_with(&keyed("k"), &context).await;
    let seen = kit.stub.calls().pop().unwrap().context;
    assert_eq!((seen.provider_key(), seen.attempt), (Some("mine"), 3));
    let _ = mailer.send(&keyed("j")).await;
    let seen = kit.stub.calls().pop().unwrap().context;
    assert_eq!(seen.provider_key().map(str::len), Some(64));
    assert_eq!(seen.mail_digest().map(|digest| digest.len()), Some(64));
}
