//! What goes over the wire.

use super::{Within, message, options, send, smtp, told};
use crate::support::{AT, plain};
use hapax_mail::{Frozen, Message, RawMessage, SendContext, Smtp, Transport, render};
use hapax_testkit::smtp::{Delivery, Sink};

async fn delivered(message: &Message) -> Delivery {
    let sink = Sink::new();
    assert_eq!(told(&send(&smtp(&sink), message).await), "accepted");
    sink.deliveries().remove(0)
}

async fn raw(sink: &Sink, from: &str, to: &str, bytes: &[u8]) -> hapax_mail::Receipt {
    let raw = RawMessage::new(from, [to], bytes.to_vec());
    smtp(sink).send_raw(&raw, &SendContext::default()).await
}

#[tokio::test(start_paused = true)]
async fn the_bytes_that_arrive_are_those_that_were_made() {
    let dots = plain().text(".\n..\n.x\nFrom ada\n\n.\n").build().unwrap();
    let long = plain().text(".dots\n".repeat(60_000)).build().unwrap();
    for message in [message(), dots, long] {
        let frozen = Frozen::new("<a@example.com>", AT, "seed");
        let sink = Sink::new();
        let context = SendContext::default().with_frozen(frozen.clone());
        assert!(smtp(&sink).send(&message, &context).await.is_accepted());
        let made = render(&message, &frozen).unwrap();
        let Delivery { raw, bytes, .. } = sink.deliveries().remove(0);
        assert!(bytes == made, "the bytes differ");
        assert!(!raw.starts_with(b".\r\n") && !raw.windows(5).any(|five| five == b"\r\n.\r\n"));
    }
}

#[tokio::test(start_paused = true)]
async fn hidden_recipients_are_in_the_envelope_alone() {
    let message = plain().bcc("hidden@example.com").build().unwrap();
    let delivery = delivered(&message).await;
    assert_eq!(delivery.to, ["ada@example.com", "hidden@example.com"]);
    assert!(!String::from_utf8(delivery.bytes).unwrap().contains("hidden"));
}

#[tokio::test(start_paused = true)]
async fn what_a_message_needs_is_said_with_its_sender() {
    let delivery = delivered(&message()).await;
    assert_eq!(delivery.from, format!("<shop@example.com> SIZE={}", delivery.bytes.len()));
    let utf8 = delivered(&plain().to("jørgen@bücher.example").build().unwrap()).await;
    assert!(utf8.from.ends_with(" SMTPUTF8 BODY=8BITMIME"), "{}", utf8.from);
    assert_eq!(utf8.to, ["ada@example.com", "jørgen@bücher.example"]);
    let sink = Sink::new();
    let eight = "Subject: x\r\nFrom: a@example.com\r\nMessage-ID: <a@b>\r\nDate: x\r\n\r\nü\r\n";
    assert!(raw(&sink, "a@example.com", "b@example.com", eight.as_bytes()).await.is_accepted());
    assert!(sink.deliveries()[0].from.ends_with(" BODY=8BITMIME"));
    let sink = Sink::new().without("SIZE");
    assert!(send(&smtp(&sink), &message()).await.is_accepted());
    assert_eq!(sink.deliveries()[0].from, "<shop@example.com>");
}

#[tokio::test(start_paused = true)]
async fn what_a_server_cannot_take_is_not_begun() {
    let utf8 = plain().to("jørgen@example.com").build().unwrap();
    let sink = Sink::new().without("SMTPUTF8");
    assert_eq!(told(&send(&smtp(&sink), &utf8).await), "failed validation smtp.utf8_required preflight");
    let sink = Sink::new().without("SIZE").with("SIZE 100");
    let receipt = send(&smtp(&sink), &message()).await;
    assert_eq!(told(&receipt), "failed validation smtp.size preflight");
    assert_eq!(receipt.failure().unwrap().scope, hapax_mail::receipt::FailureScope::Provider);
    let sink = Sink::new().without("8BITMIME").without("SMTPUTF8");
    let eight = "Subject: x\r\nFrom: a@example.com\r\nMessage-ID: <a@b>\r\nDate: x\r\n\r\nü\r\n";
    let receipt = raw(&sink, "a@example.com", "b@example.com", eight.as_bytes()).await;
    assert_eq!(told(&receipt), "failed validation smtp.eight_bit_required preflight");
    assert!(!sink.commands().iter().any(|line| line.starts_with("MAIL")));
}

#[tokio::test(start_paused = true)]
async fn international_domains_go_to_every_server() {
    let sink = Sink::new().without("SMTPUTF8");
    let message = plain().to("ada@bücher.example").build().unwrap();
    assert_eq!(told(&send(&smtp(&sink), &message).await), "accepted");
    assert_eq!(sink.deliveries()[0].to, ["ada@example.com", "ada@xn--bcher-kva.example"]);
}

#[tokio::test(start_paused = true)]
async fn addresses_cannot_become_commands() {
    let sink = Sink::new();
    let body = b"Subject: x\r\nFrom: a@example.com\r\n\r\nx\r\n";
    for bad in ["a@example.com>\r\nRCPT TO:<evil@example.com", "a@example.com\nDATA", "a@example.com> SIZE=1"]
    {
        for (from, to) in [(bad, "b@example.com"), ("b@example.com", bad)] {
            let receipt = raw(&sink, from, to, body).await;
            assert_eq!(receipt.failure().unwrap().category.as_str(), "validation", "{bad:?}");
        }
    }
    assert_eq!(sink.connections(), 0);
    assert!(raw(&sink, "", "b@example.com", body).await.is_accepted());
    assert!(sink.deliveries()[0].from.starts_with("<> "));
}

#[tokio::test(start_paused = true)]
async fn lone_line_ends_are_refused_before_anything_is_sent() {
    let sink = Sink::new();
    for body in ["a\n.\nb\r\n", "a\r\n.\nMAIL FROM:<x@y>\r\n", "a\n.\r\nb\r\n", "a\r.\r\n"] {
        let bytes = format!("Subject: x\r\nFrom: a@example.com\r\n\r\n{body}");
        let receipt = raw(&sink, "a@example.com", "b@example.com", bytes.as_bytes()).await;
        assert_eq!(receipt.code(), Some("message.encoding"), "{body:?}");
    }
    assert_eq!(sink.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_name_in_ehlo_is_ours_or_as_given() {
    let sink = Sink::new();
    let transport = Smtp::with_options(options(&sink).hello_name("me.example")).unwrap();
    assert!(send(&transport, &message()).await.is_accepted());
    assert_eq!(sink.commands()[0], "EHLO me.example");
    assert!(send(&smtp(&sink), &message()).await.is_accepted());
    assert!(sink.commands().contains(&"EHLO localhost".to_owned()));
    let _ = Within(sink);
}

#[tokio::test]
async fn over_tcp_the_name_in_ehlo_is_the_address() {
    let sink = Sink::new();
    let server = sink.listen();
    let transport = Smtp::new(&format!("smtp://127.0.0.1:{}?tls=none", server.port())).unwrap();
    assert!(send(&transport, &message()).await.is_accepted());
    assert_eq!(sink.commands()[0], "EHLO [127.0.0.1]");
}

#[tokio::test(start_paused = true)]
async fn what_should_go_later_is_refused() {
    let sink = Sink::new();
    let later = plain().send_at(hapax_core::Timestamp::from_millis(i64::MAX / 1_000_000)).build().unwrap();
    assert_eq!(send(&smtp(&sink), &later).await.code(), Some("message.unsupported"));
    assert_eq!(sink.connections(), 0);
}
