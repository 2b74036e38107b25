//! Leases: of dead processes, of slow sends, and lost ones.

use crate::kit::{JUST_UNDER_A_LEASE, Kit, LEASE, code, keyed, until};
use hapax_conformance::faulty::{Fault, Step};
use hapax_core::idempotency::{IdempotencyStore, Reserved};
use hapax_mail::{Act, MailCategory, Receipt, SendContext, Transport, fingerprint};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;

#[tokio::test]
async fn dead_process_holds_its_key_for_one_lease() {
    let kit = Kit::new();
    kit.reserve_and_die("k", &keyed("k")).await;
    kit.clock.advance(JUST_UNDER_A_LEASE);
    assert_eq!(code(&kit.transport.send(&keyed("k")).await), "idempotency.in_flight");
    kit.clock.advance(Duration::from_millis(1));
    assert!(kit.transport.send(&keyed("k")).await.is_accepted());
}

#[tokio::test]
async fn crash_between_the_provider_and_the_store_lets_the_message_go_again_after_the_lease() {
    let kit = Kit::new();
    // The provider took it; then the process died with its receipt.
    assert!(kit.stub.send(&keyed("k"), &SendContext::default()).await.is_accepted());
    kit.reserve_and_die("k", &keyed("k")).await;
    kit.clock.advance(LEASE);
    assert!(kit.transport.send(&keyed("k")).await.is_accepted());
    assert_eq!(kit.stub.handed(), 2);
}

#[tokio::test(start_paused = true)]
async fn send_that_takes_longer_than_its_lease_keeps_its_key() {
    let kit = Kit::new();
    let gate = Arc::new(Notify::new());
    kit.stub.then_act([Act::Commit, Act::Wait(Arc::clone(&gate))]);
    let transport = kit.transport.clone().with_lease(Duration::from_secs(30));
    let (sender, message) = (transport.clone(), keyed("k"));
    let sending = tokio::spawn(async move { sender.send(&message).await });
    until("the send", || kit.stub.handed() == 1).await;
    kit.pass(Duration::from_mins(5)).await;
    assert_eq!(code(&transport.send(&keyed("k")).await), "idempotency.in_flight");
    gate.notify_one();
    assert!(sending.await.unwrap().is_accepted());
    assert_eq!(kit.stub.handed(), 1);
}

#[tokio::test(start_paused = true)]
async fn lease_that_is_lost_after_the_commit_costs_no_receipt() {
    let kit = Kit::new();
    let gate = Arc::new(Notify::new());
    kit.stub.then_act([Act::Commit, Act::Wait(Arc::clone(&gate))]);
    let (transport, message) = (kit.transport.clone(), keyed("k"));
    let sending = tokio::spawn(async move { transport.send(&message).await });
    until("the send", || kit.stub.committed() == 1).await;
    kit.store.break_step(Step::Extend, Fault::Before);
    kit.pass(LEASE).await;
    // A second one goes while the first is still out, and holds the key.
    let taken = kit.take("k", fingerprint(&keyed("k")), LEASE).await;
    assert!(matches!(taken, Reserved::Yours { .. }));
    gate.notify_one();
    let receipt = sending.await.unwrap();
    assert!(receipt.is_accepted() && !receipt.replayed);
    // The newer owner's reservation is left alone, and when it ends the first result is there.
    assert!(kit.record("k").await.unwrap().is_pending());
    kit.clock.advance(LEASE);
    assert!(kit.transport.send(&keyed("k")).await.replayed);
    assert_eq!(kit.stub.handed(), 1);
}

#[tokio::test(start_paused = true)]
async fn lease_that_is_lost_before_the_commit_stops_the_send() {
    let kit = Kit::new();
    kit.stub.then_act([Act::Hang]);
    let (transport, message) = (kit.transport.clone(), keyed("k"));
    let sending = tokio::spawn(async move { transport.send(&message).await });
    until("the send", || kit.stub.handed() == 1).await;
    let _ = kit.store.get_ref().force_release(&kit.name("k")).await.unwrap();
    kit.pass(LEASE / 2).await;
    let receipt = sending.await.unwrap();
    assert!(receipt.is_unknown() && code(&receipt) == "idempotency.lease_lost");
    assert_eq!(kit.stub.committed(), 0);
    assert!(kit.is_free("k").await);
}

#[tokio::test]
async fn slow_owner_leaves_the_key_of_the_new_owner_alone() {
    let kit = Kit::new();
    for (key, end) in
        [("failed", Receipt::failed(MailCategory::Network, "smtp.connect")), ("sent", Receipt::accepted())]
    {
        let gate = Arc::new(Notify::new());
        kit.stub.then_act([Act::Commit, Act::Wait(Arc::clone(&gate)), Act::Answer(end)]);
        let (transport, message, handed) = (kit.transport.clone(), keyed(key), kit.stub.handed());
        let sending = tokio::spawn(async move { transport.send(&message).await });
        until("the send", || kit.stub.handed() > handed).await;
        let _ = kit.store.get_ref().force_release(&kit.name(key)).await.unwrap();
        assert!(matches!(kit.take(key, fingerprint(&keyed(key)), LEASE).await, Reserved::Yours { .. }));
        let version = kit.record(key).await.unwrap().version();
        gate.notify_one();
        let _ = sending.await.unwrap();
        let record = kit.record(key).await.unwrap();
        assert!(record.is_pending() && record.version() == version, "{key}");
    }
}
