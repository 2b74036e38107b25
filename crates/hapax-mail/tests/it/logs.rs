//! What is logged, and at which level.

use crate::kit::{Kit, LEASE, Logs, keyed, other, until};
use hapax_conformance::faulty::{Fault, Step};
use hapax_core::idempotency::IdempotencyStore;
use hapax_mail::{Act, Receipt};
use std::sync::Arc;
use tokio::sync::Notify;
use tracing::Level;

#[tokio::test]
async fn send_answered_as_before_is_logged_at_debug() {
    let kit = Kit::new();
    let _ = kit.transport.send(&keyed("k")).await;
    let (logs, _guard) = Logs::collect();
    let _ = kit.transport.send(&keyed("k")).await;
    assert_eq!(logs.of(Level::DEBUG).len(), 1, "{}", logs.everything());
    assert!(logs.everything().contains("answered as before"));
    assert!(logs.of(Level::WARN).is_empty() && logs.of(Level::INFO).is_empty());
}

#[tokio::test]
async fn send_in_flight_is_logged_at_info() {
    let kit = Kit::new();
    kit.reserve_and_die("k", &keyed("k")).await;
    let (logs, _guard) = Logs::collect();
    let _ = kit.transport.send(&keyed("k")).await;
    assert_eq!(logs.codes(Level::INFO), ["idempotency.in_flight"]);
    assert!(logs.of(Level::WARN).is_empty());
}

#[tokio::test]
async fn key_used_again_is_logged_at_warn() {
    let kit = Kit::new();
    let _ = kit.transport.send(&keyed("k")).await;
    let (logs, _guard) = Logs::collect();
    let _ = kit.transport.send(&other("k")).await;
    assert_eq!(logs.codes(Level::WARN), ["idempotency.key_reused"]);
}

#[tokio::test]
async fn store_that_fails_is_logged_at_warn() {
    let kit = Kit::new();
    kit.store.inject(Step::Reserve, Fault::Before);
    let (logs, _guard) = Logs::collect();
    let _ = kit.transport.send(&keyed("k")).await;
    assert_eq!(logs.codes(Level::WARN), ["idempotency.store_failed"]);
}

#[tokio::test]
async fn receipt_that_could_not_be_stored_is_a_warning_with_a_code() {
    let kit = Kit::new();
    kit.store.inject(Step::Complete, Fault::Before);
    let (logs, _guard) = Logs::collect();
    assert!(kit.transport.send(&keyed("k")).await.is_accepted());
    assert_eq!(logs.codes(Level::WARN), ["idempotency.complete_failed"]);
}

#[tokio::test]
async fn mail_that_may_have_gone_is_a_warning() {
    let kit = Kit::new();
    kit.stub.then(Receipt::unknown("smtp.reply_lost"));
    let (logs, _guard) = Logs::collect();
    let _ = kit.transport.send(&keyed("k")).await;
    assert_eq!(logs.codes(Level::WARN), ["smtp.reply_lost"]);
}

#[tokio::test]
async fn result_that_comes_after_its_lease_is_a_warning() {
    let kit = Kit::new();
    let gate = Arc::new(Notify::new());
    kit.stub.then_act([Act::Commit, Act::Wait(Arc::clone(&gate))]);
    let (logs, _guard) = Logs::collect();
    let (transport, message) = (kit.transport.clone(), keyed("k"));
    let sending = tokio::spawn(async move { transport.send(&message).await });
    until("the send", || kit.stub.committed() == 1).await;
    let _ = kit.store.get_ref().force_release(&kit.name("k")).await.unwrap();
    let _ = kit.take("k", hapax_mail::fingerprint(&keyed("k")), LEASE).await;
    gate.notify_one();
    assert!(sending.await.unwrap().is_accepted());
    assert!(logs.codes(Level::WARN).contains(&"idempotency.lease_lost".to_owned()), "{}", logs.everything());
}

#[tokio::test]
async fn logs_hold_no_address_and_no_key() {
    let kit = Kit::new();
    let (logs, _guard) = Logs::collect();
    let key = "welcome:ada@example.com";
    let _ = kit.transport.send(&keyed(key)).await;
    let _ = kit.transport.send(&keyed(key)).await;
    let _ = kit.transport.send(&other(key)).await;
    kit.store.inject(Step::Reserve, Fault::Before);
    let _ = kit.transport.send(&keyed(key)).await;
    kit.stub.then(Receipt::unknown("smtp.reply_lost").with_response("ada@example.com: lost"));
    let _ = kit.transport.send(&keyed("ada@example.com again")).await;
    let everything = logs.everything();
    assert!(everything.contains("key_reused") && everything.contains("reply_lost"));
    assert!(!everything.contains("example.com"), "{everything}");
    let shown = format!("{:?} {:?}", kit.transport, kit.transport.send(&keyed(key)).await);
    assert!(!shown.contains("ada@"), "{shown}");
}

#[tokio::test]
async fn store_that_is_away_is_one_warning_for_a_batch() {
    let kit = Kit::new();
    let mailer = hapax_mail::Mailer::via(kit.stub.clone()).idempotent(&kit.idem).build().unwrap();
    let messages: Vec<_> = (0..50).map(|i| keyed(&format!("k:{i}"))).collect();
    kit.store.inject(Step::Reserve, Fault::Before);
    let (logs, guard) = Logs::collect();
    let receipts = mailer.send_many(&messages).collect().await;
    assert!(receipts.iter().all(|r| r.code() == Some("idempotency.store_failed")));
    assert_eq!(logs.codes(Level::WARN), ["idempotency.store_failed"]);
    drop(guard);

    kit.store.inject(Step::Complete, Fault::Before);
    let (logs, _guard) = Logs::collect();
    let receipts = mailer.send_many(&messages).collect().await;
    assert!(receipts.iter().all(Receipt::is_accepted));
    assert_eq!(logs.codes(Level::WARN), ["idempotency.complete_failed"]);
}
