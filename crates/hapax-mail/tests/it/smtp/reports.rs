//! What users of other mailers have reported, as it is to be here. `docs/seeds.md` lists which test is about what.

use super::{hurried, message, options, send, told};
use crate::{kit::handle, support::plain};
use hapax_core::{ManualClock, memory::MemoryStore};
use hapax_mail::{IdempotencyTransport, Message, Smtp};
use hapax_testkit::smtp::{Act, Sink, Step};
use std::sync::Arc;

struct Scene {
    sink: Sink,
    transport: IdempotencyTransport<Smtp>,
    _keeper: hapax_engine::Keeper,
}

fn scene() -> Scene {
    let (sink, clock) = (Sink::new(), ManualClock::new());
    let (keeper, idem) = handle(Arc::new(MemoryStore::new(Arc::new(clock.clone()))), &clock);
    let smtp = Smtp::with_options(options(&sink).timeouts(hurried())).unwrap();
    let transport = IdempotencyTransport::new(smtp).with_idempotency(&idem);
    Scene { sink, transport, _keeper: keeper }
}

fn keyed() -> Message {
    plain().idempotency_key("k").build().unwrap()
}

#[tokio::test]
async fn a_connection_lost_behind_the_message_sends_no_second_one() {
    for act in [Act::Close, Act::Break, Act::Stall, Act::say("garbage")] {
        let Scene { sink, transport, _keeper } = scene();
        sink.then(Step::Dot, act.clone());
        let first = transport.send(&keyed()).await;
        assert!(first.is_unknown() && !first.failure().unwrap().retryable, "{act:?}");
        for _ in 0..3 {
            let again = transport.send(&keyed()).await;
            assert!(again.is_unknown() && again.replayed, "{act:?}");
        }
        assert_eq!(sink.deliveries().len(), 1, "{act:?}");
    }
}

#[tokio::test]
async fn a_failure_frees_the_key_and_the_next_send_goes_with_the_same_bytes_and_id() {
    let Scene { sink, transport, _keeper } = scene();
    let keyed = || plain().text("A long message.\n".repeat(20_000)).idempotency_key("k").build().unwrap();
    let faults = [
        (Step::Greeting, Act::Close),
        (Step::Mail, Act::Stall),
        (Step::Body, Act::Close),
        (Step::Dot, Act::say("451 later")),
    ];
    for (step, act) in faults {
        sink.then(step, act.clone());
        let receipt = transport.send(&keyed()).await;
        assert!(
            !receipt.is_accepted() && !receipt.is_unknown() && receipt.failure().unwrap().retryable,
            "{act:?}"
        );
    }
    let receipt = transport.send(&keyed()).await;
    assert!(receipt.is_accepted() && !receipt.replayed);
    assert_eq!(sink.deliveries().len(), 1);
    assert_eq!(sink.deliveries()[0].field("Message-ID"), Some(receipt.message_id));
}

#[tokio::test(start_paused = true)]
async fn attempts_of_one_key_have_one_id() {
    let ids = |sink: &Sink| {
        sink.deliveries().iter().map(|one| one.field("Message-ID").unwrap()).collect::<Vec<_>>()
    };
    let Scene { sink, transport, _keeper } = scene();
    let transport = transport.with_on_unknown(hapax_mail::OnUnknown::Retry);
    sink.then(Step::Dot, Act::Close);
    assert!(transport.send(&keyed()).await.is_unknown());
    assert!(transport.send(&keyed()).await.is_accepted());
    let ids = ids(&sink);
    assert_eq!((ids.len(), &ids[0]), (2, &ids[1]));
}

#[tokio::test(start_paused = true)]
async fn a_reply_4_4_to_the_message_is_a_failure_or_unknown_as_chosen() {
    for (chosen, expected) in
        [(false, "failed service smtp.busy reply"), (true, "unknown service smtp.maybe_relayed reply")]
    {
        let sink = Sink::new();
        sink.always(Step::Dot, Act::say("451 4.4.2 connection to the next server lost"));
        let transport = Smtp::with_options(options(&sink).unknown_when_relay_is_lost(chosen)).unwrap();
        assert_eq!(told(&send(&transport, &message()).await), expected);
        // Other replies are what they say.
        sink.always(Step::Dot, Act::say("451 4.3.0 later"));
        assert_eq!(told(&send(&transport, &message()).await), "failed service smtp.busy reply");
    }
}
