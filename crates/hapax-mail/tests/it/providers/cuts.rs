//! A connection that ends, or stalls, at any moment: what has gone, what has not, what nobody knows.

use super::{Peer, Play, context, json, mail, resend};
use crate::{kit::code, support::plain};
use hapax_engine::queue::Backoff;
use hapax_mail::{
    MailCategory, Mailer, Member, Outcome, Receipt, Retry, SendContext, Transport, provider::Resend,
};
use std::time::Duration;

fn ok() -> Play {
    Play::answer(200, &json("{\"id\":\"a\"}"))
}

fn hurried(peer: &Peer) -> Resend {
    resend(peer).with_times(Duration::from_secs(5), Duration::from_millis(300))
}

/// Far more than what the buffers on the way hold.
fn large() -> hapax_mail::Message {
    plain().attach("a.bin", "application/octet-stream", vec![0; 9 * 1024 * 1024]).build().unwrap()
}

#[track_caller]
fn is(receipt: &Receipt, unknown: bool, expected: &str) {
    assert_eq!((receipt.is_unknown(), code(receipt)), (unknown, expected), "{receipt:?}");
    let failure = receipt.failure().unwrap();
    assert!(failure.stage.is_some());
    // Who knows nothing must not try again.
    assert!(!(unknown && failure.retryable));
}

#[tokio::test]
async fn before_the_whole_request_has_left_nothing_was_sent() {
    for (play, message) in [
        (Play::ResetAfter(10), large()),
        (Play::ResetAfter(500_000), large()),
        (Play::StallAfter(10), large()),
        (Play::StallAfter(100_000), large()),
    ] {
        let peer = Peer::start([play.clone()]);
        let context = context();
        let receipt = hurried(&peer).send(&message, &context).await;
        is(&receipt, false, "http.write");
        assert!(receipt.failure().unwrap().retryable, "{play:?}");
        assert!(!context.is_committed(), "{play:?}");
        assert!(peer.requests().is_empty());
    }
}

#[tokio::test]
async fn from_the_last_piece_to_the_whole_answer_nobody_knows() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n";
    for (play, expected) in [
        (Play::CloseUnanswered, "http.reply_lost"),
        (Play::ResetUnanswered, "http.reply_lost"),
        (Play::AnswerAndClose(b"HTTP/1.1 20".to_vec()), "http.reply_lost"),
        (Play::AnswerAndClose(format!("{head}{{\"id\":").into_bytes()), "http.reply_lost"),
        (Play::Answer(b"220 mail.example.com ESMTP\r\n\r\n".to_vec()), "http.reply_garbled"),
        (Play::Stall, "http.reply_timeout"),
        (Play::Answer(format!("{head}{{").into_bytes()), "http.reply_timeout"),
    ] {
        let peer = Peer::start([play.clone()]);
        let context = context();
        let receipt = hurried(&peer).send(&mail(), &context).await;
        is(&receipt, true, expected);
        assert!(context.is_committed(), "{play:?}");
        assert_eq!((peer.requests().len(), peer.connections()), (1, 1), "{play:?}");
    }
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached_has_nothing() {
    let peer = Peer::start([]);
    let url = peer.url();
    drop(peer);
    // Its task is gone when the port refuses.
    let closed = async {
        let address = url.trim_start_matches("http://").to_owned();
        while tokio::net::TcpStream::connect(&address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), closed).await.unwrap();
    let resend = Resend::new("x").unwrap().with_endpoint(&url).unwrap();
    let receipt = resend.send(&mail(), &context()).await;
    is(&receipt, false, "http.connect");
    assert!(receipt.failure().unwrap().retryable);
    // A server that speaks no TLS.
    let peer = Peer::start([Play::ResetAfter(5)]);
    let secure = peer.url().replace("http:", "https:");
    let resend = Resend::new("x").unwrap().with_endpoint(&secure).unwrap();
    let receipt = resend.send(&mail(), &context()).await;
    assert!(matches!(code(&receipt), "http.tls" | "http.tls_cert"), "{receipt:?}");
    assert!(matches!(receipt.outcome, Outcome::Failed(_)));
    // A name that there is not: RFC 6761.
    let resend = Resend::new("x").unwrap().with_endpoint("https://mail.invalid").unwrap();
    let receipt = resend.send(&mail(), &context()).await;
    is(&receipt, false, "http.dns");
}

#[tokio::test]
async fn a_connection_is_used_again_and_one_that_was_closed_is_replaced() {
    let close =
        || Play::AnswerAndClose(format!("HTTP/1.1 200 OK\r\n{}", json("{\"id\":\"a\"}")).into_bytes());
    let peer = Peer::start([ok(), ok(), close(), ok()]);
    let resend = resend(&peer);
    for _ in 0..4 {
        assert!(resend.send(&mail(), &context()).await.is_accepted());
        // Lets the end of a connection arrive.
        tokio::time::timeout(Duration::from_millis(20), std::future::pending::<()>()).await.unwrap_err();
    }
    assert_eq!((peer.requests().len(), peer.connections()), (4, 2));
}

#[tokio::test]
async fn nothing_is_sent_twice_and_no_redirect_is_followed() {
    let elsewhere = Play::answer(307, "location: /elsewhere\r\ncontent-length: 0\r\n\r\n");
    let peer = Peer::start([elsewhere, Play::CloseUnanswered, ok()]);
    let resend = resend(&peer);
    let receipt = resend.send(&mail(), &context()).await;
    assert_eq!((code(&receipt), receipt.is_unknown()), ("provider.redirected", false));
    is(&resend.send(&mail(), &context()).await, true, "http.reply_lost");
    assert_eq!(peer.requests().len(), 2);
}

/// The provider recognises what it was given: the same bytes under the same key, at the same provider.
#[tokio::test]
async fn a_lost_answer_is_asked_for_again_under_the_same_key() {
    let peer = Peer::start([Play::CloseUnanswered, Play::Stall, ok()]);
    let retry = Retry::new(hurried(&peer)).with_backoff(Backoff::fixed(Duration::ZERO));
    let receipt = retry.send(&mail(), &SendContext::default()).await;
    assert!(receipt.is_accepted(), "{receipt:?}");
    let requests = peer.requests();
    assert_eq!(requests.len(), 3);
    assert!(requests[0].contains("idempotency-key: "));
    assert!(requests.iter().all(|request| *request == requests[0]));
    // Where the provider recognises nothing it is not.
    let peer = Peer::start([Play::CloseUnanswered, ok()]);
    let sendgrid = hapax_mail::SendGrid::new("x").unwrap().with_endpoint(&peer.url()).unwrap();
    let retry = Retry::new(sendgrid).with_backoff(Backoff::fixed(Duration::ZERO));
    assert!(retry.send(&mail(), &SendContext::default()).await.is_unknown());
    assert_eq!(peer.requests().len(), 1);
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_what_had_left() {
    let peer = Peer::start([Play::Stall]);
    let (resend, message, context) = (resend(&peer), mail(), context());
    let mut sending = Box::pin(resend.send(&message, &context));
    let arrived = async {
        while peer.requests().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        receipt = &mut sending => panic!("{receipt:?}"),
        () = arrived => {}
    }
    drop(sending);
    assert!(context.is_committed());
    // Through a stack, a deadline does the same.
    let peer = Peer::start([Play::Stall]);
    let member = Member::new(super::resend(&peer)).attempt_timeout(Duration::from_millis(200));
    let receipt = Mailer::via(member).build().unwrap().send(&mail()).await;
    assert!(receipt.is_unknown());
    assert_eq!(receipt.failure().unwrap().category, MailCategory::Timeout);
}
