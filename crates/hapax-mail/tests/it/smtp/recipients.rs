//! Several recipients: each has its own answer.

use super::{message, options, send, smtp, told};
use crate::support::plain;
use hapax_mail::{Message, Smtp};
use hapax_testkit::smtp::{Act, Sink, Step};
use std::time::Duration;

fn to(recipients: &[&str]) -> Message {
    let builder = recipients.iter().fold(Message::builder().from("shop@example.com"), |b, to| b.bcc(*to));
    builder.subject("Hello").text("Hello.\n").build().unwrap()
}

fn rejected(receipt: &hapax_mail::Receipt) -> Vec<(&str, bool)> {
    receipt.rejected.iter().map(|one| (one.address.as_str(), one.retryable)).collect()
}

#[tokio::test(start_paused = true)]
async fn one_bad_recipient_stops_no_other() {
    for pipelining in [true, false] {
        let sink = Sink::new();
        sink.recipient("b@example.com", "550 5.1.1 no such user")
            .recipient("d@example.com", "451 4.2.0 later");
        let transport = Smtp::with_options(options(&sink).pipelining(pipelining)).unwrap();
        let mail = to(&["a@example.com", "b@example.com", "c@example.com", "d@example.com"]);
        let receipt = send(&transport, &mail).await;
        assert_eq!(told(&receipt), "accepted");
        assert_eq!(receipt.accepted, ["a@example.com", "c@example.com"]);
        assert_eq!(rejected(&receipt), [("b@example.com", false), ("d@example.com", true)]);
        assert_eq!(receipt.rejected[0].response, "550 5.1.1 no such user");
        assert_eq!(sink.deliveries()[0].to, ["a@example.com", "c@example.com"]);
        assert_eq!(receipt.provider_id.as_deref(), Some("4SINK"));
    }
}

#[tokio::test(start_paused = true)]
async fn recipients_that_are_all_refused_get_nothing() {
    for pipelining in [true, false] {
        for (first, second, expected) in [
            ("550 5.1.1 no", "550 5.1.1 no", "failed rejected smtp.rejected rcpt"),
            ("550 5.1.1 no", "450 4.2.1 later", "failed service smtp.busy rcpt"),
            ("450 4.7.1 greylisted", "550 5.1.1 no", "failed service smtp.greylisted rcpt"),
        ] {
            let sink = Sink::new();
            sink.recipient("a@example.com", first).recipient("b@example.com", second);
            let transport = Smtp::with_options(options(&sink).pipelining(pipelining)).unwrap();
            let receipt = send(&transport, &to(&["a@example.com", "b@example.com"])).await;
            assert_eq!(told(&receipt), expected, "{first} {second}");
            assert_eq!((receipt.rejected.len(), sink.deliveries().len()), (2, 0));
            let grey = receipt.failure().unwrap().retry_after;
            assert_eq!(grey, first.contains("grey").then_some(Duration::from_mins(5)));
        }
    }
}

/// Servers may say yes to DATA after they refused everybody (RFC 2920 §3.1): no dot is sent for it.
#[tokio::test(start_paused = true)]
async fn a_server_that_wants_a_message_for_nobody_is_left() {
    let sink = Sink::new();
    sink.then(Step::Rcpt, Act::say("550 5.1.1 no\r\n354 go"));
    let transport = smtp(&sink);
    let receipt = send(&transport, &message()).await;
    assert_eq!(told(&receipt), "failed rejected smtp.rejected rcpt");
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!((sink.open(), sink.deliveries().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_limits_recipients_gets_the_message_several_times() {
    for pipelining in [true, false] {
        let sink = Sink::new().max_recipients(2);
        let transport = Smtp::with_options(options(&sink).pipelining(pipelining)).unwrap();
        let names: Vec<String> = (0..5).map(|n| format!("r{n}@example.com")).collect();
        let mail = to(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let receipt = send(&transport, &mail).await;
        assert_eq!(told(&receipt), "accepted");
        assert_eq!(receipt.accepted, names);
        assert!(receipt.rejected.is_empty());
        let sizes: Vec<usize> = sink.deliveries().iter().map(|one| one.to.len()).collect();
        assert_eq!((sizes, sink.connections()), (vec![2, 2, 1], 1));
        let ids: Vec<_> = sink.deliveries().iter().map(|one| one.field("Message-ID").unwrap()).collect();
        assert!(ids.iter().all(|id| *id == receipt.message_id));
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_behind_a_limit_leaves_the_first_recipients_theirs() {
    let names = ["a@example.com", "b@example.com"];
    // Not sent to the second, for certain.
    let sink = Sink::new().max_recipients(1);
    sink.then(Step::Dot, Act::Usual).then(Step::Dot, Act::say("451 4.3.0 later"));
    let receipt = send(&smtp(&sink), &to(&names)).await;
    assert_eq!(
        (told(&receipt).as_str(), receipt.accepted.as_slice()),
        ("accepted", &["a@example.com".to_owned()][..])
    );
    assert_eq!(rejected(&receipt), [("b@example.com", true)]);
    // Perhaps sent to the second: nobody may send it again.
    let sink = Sink::new().max_recipients(1);
    sink.then(Step::Dot, Act::Usual).then(Step::Dot, Act::Close);
    let receipt = send(&smtp(&sink), &to(&names)).await;
    assert_eq!(told(&receipt), "unknown network smtp.reply_lost reply");
    assert_eq!(receipt.accepted, ["a@example.com"]);
    assert!(receipt.rejected.is_empty());
}

#[tokio::test(start_paused = true)]
async fn recipients_come_in_their_order_however_many() {
    let sink = Sink::new();
    let names: Vec<String> = (0..450).map(|n| format!("r{n}@example.com")).collect();
    let receipt = send(&smtp(&sink), &to(&names.iter().map(String::as_str).collect::<Vec<_>>())).await;
    assert_eq!((told(&receipt).as_str(), &receipt.accepted), ("accepted", &names));
    assert_eq!(sink.deliveries()[0].to, names);
}

#[tokio::test(start_paused = true)]
async fn replies_251_and_252_are_a_yes() {
    for reply in ["251 2.1.5 will forward", "252 2.0.0 cannot tell"] {
        let sink = Sink::new();
        sink.always(Step::Rcpt, Act::say(reply));
        assert_eq!(told(&send(&smtp(&sink), &plain().build().unwrap()).await), "accepted");
    }
}
