//! The bounded store of a process, seen through the decorator.

use crate::kit::{DAY, Kit, LEASE, code, keyed};
use hapax_mail::{MailCategory, Outcome, Stub};
use std::time::Duration;

#[tokio::test]
async fn room_is_made_by_expired_keys_first() {
    let kit = Kit::bounded(Stub::new(), 3);
    let short = kit.transport.clone().with_ttl(Duration::from_hours(1));
    let _ = kit.transport.send(&keyed("old")).await;
    let _ = short.send(&keyed("expired")).await;
    kit.clock.advance(Duration::from_hours(2));
    let _ = kit.transport.send(&keyed("new")).await;
    let _ = kit.transport.send(&keyed("newer")).await;
    // The oldest is still there, as the expired one made room.
    assert!(kit.transport.send(&keyed("old")).await.replayed);
}

#[tokio::test]
async fn room_is_made_by_the_oldest_done_keys_then_whose_messages_go_again() {
    let kit = Kit::bounded(Stub::new(), 2);
    for key in ["a", "b", "c"] {
        let _ = kit.transport.send(&keyed(key)).await;
        kit.clock.advance(Duration::from_secs(1));
    }
    assert!(kit.transport.send(&keyed("b")).await.replayed);
    assert!(kit.transport.send(&keyed("c")).await.replayed);
    // Within its time, and forgotten all the same.
    assert!(!kit.transport.send(&keyed("a")).await.replayed);
    assert_eq!(kit.stub.handed(), 4);
}

#[tokio::test]
async fn pending_key_is_never_dropped_before_its_lease_ends() {
    let kit = Kit::bounded(Stub::new(), 2);
    kit.reserve_and_die("a", &keyed("a")).await;
    kit.reserve_and_die("b", &keyed("b")).await;
    let receipt = kit.transport.send(&keyed("c")).await;
    let Outcome::Failed(failure) = &receipt.outcome else { panic!("{receipt:?}") };
    assert_eq!((&*failure.code, failure.category), ("idempotency.store_failed", MailCategory::Unknown));
    for key in ["a", "b"] {
        assert_eq!(code(&kit.transport.send(&keyed(key)).await), "idempotency.in_flight");
    }
    kit.clock.advance(LEASE);
    assert!(kit.transport.send(&keyed("c")).await.is_accepted());
    kit.clock.advance(DAY);
    assert!(!kit.transport.send(&keyed("c")).await.replayed);
}
