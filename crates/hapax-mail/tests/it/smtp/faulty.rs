//! The transport that fails as it is told.

use super::{message, told};
use crate::{kit::Kit, support::plain};
use hapax_mail::{Faulty, IdempotencyTransport, SendContext, Stub, Transport, smtp::Stage, transport::Fault};
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test]
async fn drops_at_each_stage_are_told_as_a_mail_server_would() {
    for stage in Stage::ALL {
        let (stub, context) = (Stub::new(), SendContext::default());
        let faulty = Faulty::new(stub.clone());
        faulty.then(Fault::Drop(stage));
        let receipt = faulty.send(&message(), &context).await;
        let word = if stage.is_committed() { "unknown" } else { "failed" };
        assert!(told(&receipt).starts_with(&format!("{word} network smtp.")), "{stage:?}");
        assert!(told(&receipt).ends_with(stage.as_str()), "{stage:?}");
        assert_eq!(
            (context.is_committed(), stub.sent().len()),
            (stage.is_committed(), usize::from(stage == Stage::Reply))
        );
        // And then no more.
        assert!(faulty.send(&message(), &SendContext::default()).await.is_accepted());
    }
}

#[tokio::test(start_paused = true)]
async fn a_send_that_hangs_ends_with_its_deadline() {
    for stage in [Stage::Mail, Stage::Dot, Stage::Reply] {
        let faulty = Faulty::new(Stub::new());
        faulty.always(Fault::Hang(stage));
        let deadline = Instant::now() + Duration::from_secs(3);
        let receipt = faulty.send(&message(), &SendContext::default().with_deadline(deadline)).await;
        assert_eq!(
            (receipt.code(), receipt.is_unknown()),
            (Some("mail.timeout"), stage.is_committed()),
            "{stage:?}"
        );
        assert_eq!(Instant::now(), deadline);
    }
}

#[tokio::test]
async fn what_is_dropped_behind_its_delivery_is_not_sent_again() {
    let kit = Kit::new();
    let faulty = Faulty::new(kit.stub.clone());
    let transport = IdempotencyTransport::new(faulty).with_idempotency(&kit.idem);
    transport.get_ref().then(Fault::Drop(Stage::Mail)).then(Fault::Drop(Stage::Reply));
    let message = plain().idempotency_key("k").build().unwrap();
    assert!(!transport.send(&message).await.is_unknown());
    assert!(transport.send(&message).await.is_unknown());
    assert!(transport.send(&message).await.replayed);
    assert_eq!(kit.stub.sent().len(), 1);
}

#[tokio::test]
async fn a_panic_frees_or_keeps_the_key_as_its_stage_says() {
    for (stage, is_kept) in [(Stage::Data, false), (Stage::Dot, true), (Stage::Reply, true)] {
        let kit = Kit::new();
        let transport = IdempotencyTransport::new(Faulty::new(kit.stub.clone())).with_idempotency(&kit.idem);
        transport.get_ref().then(Fault::Panic(stage));
        let (sender, message) = (transport.clone(), plain().idempotency_key("k").build().unwrap());
        let first = message.clone();
        // One that may have sent is answered for, with the receipt.
        let ended = tokio::spawn(async move { sender.send(&first).await }).await;
        assert_eq!(ended.is_err(), !is_kept, "{stage:?}");
        assert!(kit.keeper.close(Duration::from_secs(5)).await.is_clean());
        let again = transport.send(&message).await;
        assert_eq!(again.is_unknown(), is_kept, "{stage:?}");
    }
}
