//! The ways in which servers have been seen to misbehave, each by its name.

use super::{Within, large, message, options, send, smtp, told};
use crate::support::plain;
use hapax_mail::{Receipt, Smtp, SmtpOptions};
use hapax_testkit::smtp::{Act, Sink, Step, authority};
use std::time::Duration;

async fn at(step: Step, act: Act) -> (String, usize) {
    let sink = Sink::new();
    sink.then(step, act);
    let message = if step == Step::Body { large() } else { message() };
    (told(&send(&smtp(&sink), &message).await), sink.deliveries().len())
}

#[track_caller]
fn is((found, deliveries): (String, usize), told: &str, delivered: usize) {
    assert_eq!((found.as_str(), deliveries), (told, delivered));
}

#[tokio::test(start_paused = true)]
async fn ok() {
    let sink = Sink::new();
    let receipt: Receipt = send(&smtp(&sink), &message()).await;
    assert_eq!(receipt.response.as_deref(), Some("250 2.0.0 Ok: queued as 4SINK"));
    assert_eq!((receipt.provider.as_str(), receipt.provider_id.as_deref()), ("smtp", Some("4SINK")));
    assert_eq!(
        (receipt.accepted.as_slice(), receipt.attempts.len()),
        (&["ada@example.com".to_owned()][..], 1)
    );
    assert_eq!(sink.deliveries()[0].field("Message-ID"), Some(receipt.message_id));
}

#[tokio::test(start_paused = true)]
async fn stall_greeting() {
    is(at(Step::Greeting, Act::Stall).await, "failed timeout smtp.greeting greeting", 0);
}

#[tokio::test(start_paused = true)]
async fn no_utf8() {
    let sink = Sink::new().without("SMTPUTF8");
    let message = plain().cc("jørgen@example.com").build().unwrap();
    assert_eq!(told(&send(&smtp(&sink), &message).await), "failed validation smtp.utf8_required preflight");
}

#[tokio::test(start_paused = true)]
async fn close_after_mail() {
    is(at(Step::Mail, Act::Close).await, "failed network smtp.connection_lost mail", 0);
}

#[tokio::test(start_paused = true)]
async fn partial_rcpt() {
    let sink = Sink::new();
    sink.recipient("ada@example.com", "550 5.1.1 no");
    let message = plain().cc("b@example.com").build().unwrap();
    let receipt = send(&smtp(&sink), &message).await;
    assert_eq!((told(&receipt).as_str(), receipt.rejected.len()), ("accepted", 1));
}

#[tokio::test(start_paused = true)]
async fn close_in_body() {
    is(at(Step::Body, Act::Close).await, "failed network smtp.connection_lost body", 0);
}

#[tokio::test(start_paused = true)]
async fn close_after_dot() {
    is(at(Step::Dot, Act::Close).await, "unknown network smtp.reply_lost reply", 1);
}

#[tokio::test]
async fn reset_after_dot() {
    let sink = Sink::new();
    sink.then(Step::Dot, Act::Break);
    let server = sink.listen();
    let transport = Smtp::new(&format!("smtp://127.0.0.1:{}?tls=none", server.port())).unwrap();
    let told = told(&send(&transport, &message()).await);
    is((told, sink.deliveries().len()), "unknown network smtp.reply_lost reply", 1);
}

#[tokio::test(start_paused = true)]
async fn late_reply() {
    is(at(Step::Dot, Act::Late(Duration::from_mins(9))).await, "accepted", 1);
}

#[tokio::test(start_paused = true)]
async fn reply_421_to_the_dot() {
    is(
        at(Step::Dot, Act::SayAndClose("421 4.3.2 closing".to_owned())).await,
        "failed service smtp.busy reply",
        0,
    );
}

#[tokio::test(start_paused = true)]
async fn reply_451_to_the_dot() {
    is(at(Step::Dot, Act::say("451 4.3.0 later")).await, "failed service smtp.busy reply", 0);
}

#[tokio::test(start_paused = true)]
async fn stall_at_the_dot() {
    is(at(Step::Dot, Act::Stall).await, "unknown timeout smtp.reply_timeout reply", 1);
}

#[tokio::test(start_paused = true)]
async fn starttls_inject() {
    let sink = Sink::new().starttls();
    sink.then(Step::StartTls, Act::And("250-x\r\n250 AUTH PLAIN\r\n".to_owned()));
    let options = SmtpOptions::new("mail.example").tls_ca(authority()).dial(Within(sink.clone()));
    let told = told(&send(&Smtp::with_options(options).unwrap(), &message()).await);
    is((told, sink.deliveries().len()), "failed configuration smtp.starttls_injected starttls", 0);
}

#[tokio::test(start_paused = true)]
async fn early_552_in_the_body() {
    for act in [Act::say("552 5.3.4 too large"), Act::SayAndClose("552 5.3.4 too large".to_owned())] {
        is(at(Step::Body, act).await, "failed validation smtp.size body", 0);
    }
}

#[tokio::test]
async fn early_552_in_the_body_before_a_reset() {
    let sink = Sink::new();
    sink.then(Step::Body, Act::SayAndClose("552 5.3.4 too large".to_owned()));
    let server = sink.listen();
    let transport = Smtp::new(&format!("smtp://127.0.0.1:{}?tls=none", server.port())).unwrap();
    let told = told(&send(&transport, &large()).await);
    // What lies between the two may take all of it before the refusal is here.
    let seen = ["failed validation smtp.size body", "failed validation smtp.size reply"];
    assert!(seen.contains(&told.as_str()), "{told}");
}

#[tokio::test(start_paused = true)]
async fn reply_251() {
    is(at(Step::Rcpt, Act::say("251 2.1.5 will forward")).await, "accepted", 1);
}

#[tokio::test(start_paused = true)]
async fn reply_354_twice() {
    is(at(Step::Data, Act::And("354 go\r\n".to_owned())).await, "failed network smtp.protocol body", 0);
    // As the answer to the dot it is none.
    is(at(Step::Dot, Act::say("354 go")).await, "unknown unknown smtp.reply_garbled reply", 1);
}

#[tokio::test(start_paused = true)]
async fn several_lines_over_segments() {
    for step in [Step::Greeting, Step::Hello, Step::Mail, Step::Rcpt, Step::Data, Step::Dot] {
        is(at(step, Act::Split).await, "accepted", 1);
    }
}

#[tokio::test(start_paused = true)]
async fn reply_of_more_than_a_kib() {
    let sink = Sink::new();
    sink.then(Step::Dot, Act::Long);
    let receipt = send(&smtp(&sink), &message()).await;
    assert!(receipt.is_accepted() && receipt.response.unwrap().len() <= 1000);
}

#[tokio::test(start_paused = true)]
async fn two_replies_in_one_segment() {
    let transport = |sink: &Sink| Smtp::with_options(options(sink).pipelining(false)).unwrap();
    let sink = Sink::new();
    sink.then(Step::Mail, Act::And("250 2.1.5 ok\r\n".to_owned()));
    assert_eq!(told(&send(&transport(&sink), &message()).await), "failed network smtp.protocol rcpt");
    assert_eq!(sink.deliveries().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn idle_421() {
    let sink = Sink::new();
    let transport = smtp(&sink);
    assert!(send(&transport, &message()).await.is_accepted());
    sink.dismiss("421 4.4.2 idle");
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(send(&transport, &message()).await.is_accepted());
    assert_eq!((sink.connections(), sink.deliveries().len()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn pipelined_garbage() {
    is(at(Step::Mail, Act::And("what?\r\n".to_owned())).await, "failed network smtp.protocol rcpt", 0);
}

#[tokio::test(start_paused = true)]
async fn quit_reset() {
    let sink = Sink::new();
    sink.always(Step::Quit, Act::Break);
    let transport = Smtp::with_options(options(&sink).messages_per_connection(1)).unwrap();
    for _ in 0..3 {
        assert!(send(&transport, &message()).await.is_accepted());
    }
    assert_eq!(sink.deliveries().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn slow_drip_reply() {
    is(at(Step::Dot, Act::Drip).await, "accepted", 1);
    // Each byte does not buy more time.
    let sink = Sink::new();
    let mut times = hapax_mail::smtp::Timeouts::default();
    times.mail = Duration::from_millis(3);
    sink.then(Step::Mail, Act::Drip);
    let transport = Smtp::with_options(options(&sink).timeouts(times)).unwrap();
    assert_eq!(told(&send(&transport, &message()).await), "failed timeout smtp.timeout mail");
}
