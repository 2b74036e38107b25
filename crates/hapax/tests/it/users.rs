//! How users test their own code: a store in memory, a clock that moves when told, a provider that does what it is told.

use hapax::{
    Hapax, IdempotencyError,
    mail::{IdempotencyTransport, MailCategory, Mailer, Message, Outcome, Receipt, Stub},
    testing::ManualClock,
};
use std::{convert::Infallible, time::Duration};

fn message(key: &str, subject: &str) -> Message {
    let builder = Message::builder().from("a@example.com").to("b@example.com").subject(subject).text("hi");
    builder.idempotency_key(key).build().unwrap()
}

#[tokio::test]
async fn key_is_free_again_after_a_day() -> anyhow::Result<()> {
    let clock = ManualClock::new();
    let idem = Hapax::memory_with(&clock).idempotency("test");
    let mut calls = 0;
    for _ in 0..2 {
        idem.run("k", &1, async || {
            calls += 1;
            Ok::<_, Infallible>(calls)
        })
        .await??;
        clock.advance(Duration::from_hours(25));
    }
    assert_eq!(calls, 2);
    Ok(())
}

#[tokio::test]
async fn other_request_is_refused() {
    let idem = Hapax::memory().idempotency("test");
    idem.run("k", &1, async || Ok::<_, Infallible>(1)).await.unwrap().unwrap();
    let second = idem.run("k", &2, async || Ok::<_, Infallible>(1)).await;
    assert!(matches!(second, Err(IdempotencyError::KeyReused { .. })), "{second:?}");
}

#[tokio::test]
async fn handles_of_one_store_share_its_keys() {
    let hapax = Hapax::memory();
    let (one, two) = (hapax.clone().idempotency("test"), hapax.idempotency("test"));
    assert_eq!(one.run("k", &1, async || Ok::<_, Infallible>(1)).await.unwrap(), Ok(1));
    assert_eq!(two.run("k", &1, async || Ok::<_, Infallible>(2)).await.unwrap(), Ok(1));
    let elsewhere = hapax.namespace("elsewhere").idempotency("test");
    assert_eq!(elsewhere.run("k", &1, async || Ok::<_, Infallible>(3)).await.unwrap(), Ok(3));
    assert!(hapax.close().await.is_clean());
}

#[tokio::test]
async fn stores_connect_by_url() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    for expected in ["first", "first"] {
        let hapax = hapax::connect(&url).namespace("shop").timeout(Duration::from_secs(5)).await.unwrap();
        let effect = async || Ok::<_, Infallible>("first".to_owned());
        assert_eq!(hapax.idempotency("test").run("k", &1, effect).await.unwrap().unwrap(), expected);
        assert!(hapax.close().within(Duration::from_secs(5)).await.is_clean());
    }
    assert!(hapax::connect("memory:").await.is_ok());
    assert!(hapax::connect("mysql://localhost").await.is_err());
    assert!(hapax::connect("memory:").namespace("").await.is_err());
}

#[tokio::test]
async fn name_that_cannot_be_used_is_told_by_the_first_call() {
    let idem = Hapax::memory().namespace("").idempotency("test");
    let call = idem.run("k", &1, async || Ok::<_, Infallible>(1)).await;
    assert!(matches!(call, Err(IdempotencyError::Invalid { .. })), "{call:?}");
}

#[tokio::test]
async fn message_of_unknown_delivery_is_not_sent_again() -> anyhow::Result<()> {
    let stub = Stub::new();
    stub.then(Receipt::unknown("smtp.reply_lost"))
        .then(Receipt::failed(MailCategory::Network, "smtp.connect"));
    let mailer = Mailer::via(stub.clone()).idempotent(&Hapax::memory().idempotency("test")).build()?;
    for _ in 0..3 {
        let receipt = mailer.send(&message("k", "hi")).await;
        assert!(matches!(receipt.outcome, Outcome::Unknown(_)), "{receipt:?}");
    }
    assert_eq!(stub.sent().len(), 1);
    Ok(())
}

#[tokio::test]
async fn message_that_was_refused_may_be_sent_again() -> anyhow::Result<()> {
    let stub = Stub::new();
    stub.then(Receipt::failed(MailCategory::Network, "smtp.connect"));
    let mailer = Mailer::via(stub.clone()).idempotent(&Hapax::memory().idempotency("test")).build()?;
    assert!(mailer.send(&message("k", "hi")).await.into_result().is_err());
    let sent = mailer.send(&message("k", "hi")).await.into_result()?;
    assert!(!sent.replayed && mailer.send(&message("k", "hi")).await.replayed);
    assert_eq!(stub.handed(), 2);
    Ok(())
}

#[tokio::test]
async fn decorator_alone_keeps_keys_in_this_process() {
    let stub = Stub::new();
    let transport = IdempotencyTransport::new(stub.clone());
    assert_eq!(transport.send(&message("k", "hi")).await.outcome, Outcome::Accepted);
    assert!(transport.send(&message("k", "hi")).await.replayed);
    let other = transport.send(&message("k", "something else")).await;
    assert!(matches!(other.outcome, Outcome::Failed(_)), "{other:?}");
    assert_eq!(stub.handed(), 1);
}

#[tokio::test]
async fn batch_of_mails_answers_in_order() -> anyhow::Result<()> {
    let stub = Stub::new();
    let mailer = Mailer::via(stub.clone()).idempotent(&Hapax::memory().idempotency("test")).build()?;
    let messages: Vec<_> = ["a", "b", "a", "c"].map(|key| message(key, "hi")).into();
    let receipts = mailer.send_many(messages).concurrency(2).collect().await;
    let replayed: Vec<bool> = receipts.iter().map(|receipt| receipt.replayed).collect();
    assert!(receipts.iter().all(|receipt| receipt.outcome == Outcome::Accepted));
    assert_eq!((replayed, stub.handed()), (vec![false, false, true, false], 3));
    Ok(())
}
