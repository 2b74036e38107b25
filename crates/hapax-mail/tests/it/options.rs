//! The options of the decorator, and their defaults.

use crate::kit::{DAY, JUST_UNDER_A_DAY, Kit, LEASE, code, keyed, until};
use hapax_core::idempotency::IdempotencyStore;
use hapax_mail::{Act, IdempotencyTransport, Receipt, Stub};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;

#[tokio::test]
async fn key_is_reserved_for_ten_minutes_and_its_receipt_kept_for_a_day() {
    let kit = Kit::new();
    let gate = Arc::new(Notify::new());
    kit.stub.then_act([Act::Wait(Arc::clone(&gate))]);
    let (transport, message) = (kit.transport.clone(), keyed("k"));
    let sending = tokio::spawn(async move { transport.send(&message).await });
    until("the send", || kit.stub.handed() == 1).await;
    let now = hapax_core::Clock::now(&kit.clock);
    assert_eq!(kit.record("k").await.unwrap().until.since(now), LEASE);
    gate.notify_one();
    let _ = sending.await.unwrap();
    assert_eq!(kit.record("k").await.unwrap().until.since(now), DAY);

    kit.clock.advance(JUST_UNDER_A_DAY);
    assert!(kit.transport.send(&keyed("k")).await.replayed);
    kit.clock.advance(Duration::from_millis(1));
    assert!(!kit.transport.send(&keyed("k")).await.replayed);
    assert_eq!(kit.stub.handed(), 2);
}

#[tokio::test]
async fn replay_does_not_make_a_receipt_live_longer() {
    let kit = Kit::new();
    let _ = kit.transport.send(&keyed("k")).await;
    let until = kit.record("k").await.unwrap().until;
    kit.clock.advance(Duration::from_hours(12));
    let _ = kit.transport.send(&keyed("k")).await;
    assert_eq!(kit.record("k").await.unwrap().until, until);
}

#[tokio::test]
async fn lease_and_times_are_options() {
    let kit = Kit::new();
    let transport = kit
        .transport
        .clone()
        .with_lease(Duration::from_secs(30))
        .with_ttl(Duration::from_hours(1))
        .with_unknown_ttl(Duration::from_hours(2));
    let now = hapax_core::Clock::now(&kit.clock);
    let _ = transport.send(&keyed("done")).await;
    assert_eq!(kit.record("done").await.unwrap().until.since(now), Duration::from_hours(1));
    kit.stub.then(Receipt::unknown("smtp.reply_lost"));
    let _ = transport.send(&keyed("unknown")).await;
    assert_eq!(kit.record("unknown").await.unwrap().until.since(now), Duration::from_hours(2));
    // A handle's own lease is not taken over.
    let of_handle =
        kit.transport.clone().with_idempotency(&kit.idem.clone().with_lease(Duration::from_secs(2)));
    kit.stub.then_act([Act::Hang]);
    let message = keyed("pending");
    let mut sending = Box::pin(of_handle.send(&message));
    let handed = kit.stub.handed();
    while kit.stub.handed() == handed {
        assert!(futures_util::poll!(&mut sending).is_pending());
    }
    assert_eq!(kit.record("pending").await.unwrap().until.since(now), LEASE);
}

#[tokio::test]
async fn times_that_cannot_be_used_are_said_by_the_send() {
    let kit = Kit::new();
    let receipt = kit.transport.clone().with_lease(Duration::from_millis(10)).send(&keyed("k")).await;
    assert_eq!(code(&receipt), "idempotency.invalid");
    assert!(receipt.failure().unwrap().detail.as_ref().unwrap().contains("lease"));
    let receipt = kit.transport.clone().with_key(|_| Some(String::new())).send(&keyed("k")).await;
    assert_eq!(code(&receipt), "idempotency.invalid");
    assert_eq!(kit.stub.handed(), 0);
}

#[tokio::test]
async fn default_store_is_this_decorators_alone_and_a_given_one_is_shared() {
    let stub = Stub::new();
    for _ in 0..2 {
        let _ = IdempotencyTransport::new(stub.clone()).send(&keyed("k")).await;
    }
    assert_eq!(stub.handed(), 2);

    let kit = Kit::new();
    let second = IdempotencyTransport::new(kit.stub.clone()).with_idempotency(&kit.idem);
    let _ = kit.transport.send(&keyed("k")).await;
    assert!(second.send(&keyed("k")).await.replayed);
}

#[tokio::test]
async fn key_option_decides_in_place_of_the_messages_own() {
    let kit = Kit::new();
    let by_recipient =
        kit.transport.clone().with_key(|m| m.to().first().map(|to| format!("to:{}", to.addr_spec())));
    let _ = by_recipient.send(&keyed("one")).await;
    assert!(by_recipient.send(&keyed("two")).await.replayed);
    let none = kit.transport.clone().with_key(|_| None);
    assert!(!none.send(&keyed("one")).await.replayed && !none.send(&keyed("one")).await.replayed);
    assert_eq!(kit.stub.handed(), 3);
}

#[tokio::test]
async fn namespace_is_the_id_of_the_transport_unless_given() {
    let kit = Kit::with(Stub::named("ses"));
    let _ = kit.transport.send(&keyed("k")).await;
    assert!(kit.store.get_ref().read(&crate::kit::name("mail:ses", "k")).await.unwrap().is_some());

    let (a, b) = (kit.transport.clone().with_namespace("a"), kit.transport.clone().with_namespace("b"));
    assert!(!a.send(&keyed("k")).await.replayed && !b.send(&keyed("k")).await.replayed);
    assert!(kit.store.get_ref().read(&crate::kit::name("mail:a", "k")).await.unwrap().is_some());
    let exact = kit.transport.clone().with_scope("mail");
    let _ = exact.send(&keyed("k")).await;
    assert!(kit.store.get_ref().read(&crate::kit::name("mail", "k")).await.unwrap().is_some());
    // Transports of one name share their keys, those of different handles' namespaces do not.
    let same = IdempotencyTransport::new(Stub::named("ses")).with_idempotency(&kit.idem);
    assert!(same.send(&keyed("k")).await.replayed);
    let elsewhere = same.with_idempotency(&kit.idem.with_namespace("elsewhere"));
    assert!(!elsewhere.send(&keyed("k")).await.replayed);
}

#[tokio::test(start_paused = true)]
async fn waiting_is_done_where_it_was_asked_for() {
    let kit = Kit::new();
    let gate = Arc::new(Notify::new());
    kit.stub.then_act([Act::Commit, Act::Wait(Arc::clone(&gate))]);
    let (transport, message) = (kit.transport.clone(), keyed("k"));
    let sending = tokio::spawn(async move { transport.send(&message).await });
    until("the send", || kit.stub.handed() == 1).await;
    let patient = kit.transport.clone().with_wait(Duration::from_mins(1));
    let waiting = tokio::spawn(async move { patient.send(&keyed("k")).await });
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!waiting.is_finished());
    gate.notify_one();
    assert!(sending.await.unwrap().is_accepted());
    assert!(waiting.await.unwrap().replayed);

    kit.reserve_and_die("dead", &keyed("dead")).await;
    let impatient = kit.transport.clone().with_wait(Duration::from_secs(1));
    assert_eq!(code(&impatient.send(&keyed("dead")).await), "idempotency.in_flight");
}
