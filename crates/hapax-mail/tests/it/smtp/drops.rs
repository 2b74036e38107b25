//! A key and a server, whatever happens to the sends between them.
//!
//! Sends of one key are cut off by the server at any step, time out, and are dropped or stopped at any moment, in any order.
//! The server has the message once at most, and nobody was told that it was accepted while the server had none.

use super::{hurried, options};
use crate::{kit::handle, support::plain};
use hapax_core::{ManualClock, memory::MemoryStore};
use hapax_mail::{IdempotencyTransport, Message, Receipt, SendContext, Smtp};
use hapax_testkit::smtp::{Act, Sink, Step};
use proptest::prelude::*;
use std::{pin::pin, sync::Arc, time::Duration};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How a send is ended from outside, after so many turns.
#[derive(Clone, Copy, Debug)]
enum Stop {
    Never,
    Dropped(usize),
    Cancelled(usize),
    Deadline(u64),
}

#[derive(Clone, Debug)]
struct Try {
    fault: Option<(Step, Act)>,
    stop: Stop,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        Just(Act::Close),
        Just(Act::Stall),
        Just(Act::Deaf),
        Just(Act::say("451 4.3.0 later")),
        Just(Act::say("550 5.7.1 no")),
        Just(Act::SayAndClose("421 4.3.2 closing".to_owned())),
        Just(Act::say("what?")),
        Just(Act::Drip),
        Just(Act::Late(Duration::from_millis(5))),
        Just(Act::And("250 2.0.0 ok\r\n".to_owned())),
    ]
}

fn tries() -> impl Strategy<Value = Vec<Try>> {
    let stop = prop_oneof![
        2 => Just(Stop::Never),
        3 => (0..40_usize).prop_map(Stop::Dropped),
        2 => (0..40_usize).prop_map(Stop::Cancelled),
        1 => (0..30_u64).prop_map(Stop::Deadline),
    ];
    let fault = prop::option::of((prop::sample::select(&Step::OF_A_MESSAGE[..]), act()));
    proptest::collection::vec((fault, stop).prop_map(|(fault, stop)| Try { fault, stop }), 1..5)
}

async fn one(transport: &IdempotencyTransport<Smtp>, message: &Message, stop: Stop) -> Option<Receipt> {
    let cancel = CancellationToken::new();
    let mut context = SendContext::default().with_cancel(cancel.clone());
    if let Stop::Deadline(ms) = stop {
        context = context.with_deadline(Instant::now() + Duration::from_millis(ms));
    }
    let mut sending = pin!(transport.send_with(message, &context));
    let turns = match stop {
        Stop::Dropped(turns) | Stop::Cancelled(turns) => turns,
        Stop::Never | Stop::Deadline(_) => return Some(sending.await),
    };
    for _ in 0..turns {
        if let std::task::Poll::Ready(receipt) = futures_util::poll!(&mut sending) {
            return Some(receipt);
        }
        tokio::task::yield_now().await;
    }
    if matches!(stop, Stop::Dropped(_)) {
        return None;
    }
    cancel.cancel();
    Some(sending.await)
}

async fn holds(tries: Vec<Try>, pipelining: bool, lmtp: bool, large: bool) -> Result<(), TestCaseError> {
    let sink = if lmtp { Sink::new().lmtp() } else { Sink::new() };
    // A large one does not fit into what lies between.
    let text = "A line.\n".repeat(if large { 15_000 } else { 1 });
    let (clock, message) = (ManualClock::new(), plain().text(text).idempotency_key("k").build().unwrap());
    let (keeper, idem) = handle(Arc::new(MemoryStore::new(Arc::new(clock.clone()))), &clock);
    let mut settings = options(&sink);
    if lmtp {
        settings = hapax_mail::SmtpOptions::lmtp("localhost").dial(super::Within(sink.clone()));
    }
    let smtp = Smtp::with_options(settings.timeouts(hurried()).pipelining(pipelining)).unwrap();
    let transport = IdempotencyTransport::new(smtp).with_idempotency(&idem);
    for Try { fault, stop } in &tries {
        if let Some((step, act)) = fault {
            sink.then(*step, act.clone());
        }
        let receipt = one(&transport, &message, *stop).await;
        if let Some(receipt) = receipt {
            prop_assert!(!receipt.is_accepted() || sink.deliveries().len() == 1, "accepted, not delivered");
        }
        // What a dropped send left to the keeper is done before the next comes.
        let _ = keeper.close(Duration::from_secs(5)).await;
    }
    let last = transport.send(&message).await;
    prop_assert!(!last.is_accepted() || sink.deliveries().len() == 1);
    prop_assert!(sink.deliveries().len() <= 1, "delivered {} times", sink.deliveries().len());
    Ok(())
}

fn cases() -> u32 {
    if hapax_testkit::is_long() { 4_000 } else { 96 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_key_has_one_delivery_at_most_whatever_happens(tries in tries(), pipelining in any::<bool>(), lmtp in any::<bool>(), large in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(holds(tries, pipelining, lmtp, large))?;
    }
}
