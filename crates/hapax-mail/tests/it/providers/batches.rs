//! Many messages in one request.

use super::{Peer, Play, json, mail, resend};
use crate::{
    kit::{Kit, code, keyed},
    support::plain,
};
use futures_util::{StreamExt, stream};
use hapax_mail::{MailCategory, Mailer, Message, Postmark, Receipt, SendContext, Transport};
use serde_json::Value;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn postmark(peer: &Peer) -> Postmark {
    let postmark = Postmark::new("x").unwrap().with_endpoint(&peer.url()).unwrap();
    postmark.with_times(Duration::from_secs(5), Duration::from_millis(500))
}

fn numbered(n: usize) -> Message {
    plain().subject(format!("{n}")).build().unwrap()
}

async fn send(transport: &impl Transport, messages: Vec<(Message, SendContext)>) -> Vec<Receipt> {
    transport.send_many(Box::pin(stream::iter(messages))).collect().await
}

fn plain_contexts(n: usize) -> Vec<(Message, SendContext)> {
    (0..n).map(|n| (numbered(n), SendContext::default())).collect()
}

fn subjects(body: &str, name: &str) -> Vec<String> {
    let list: Vec<Value> = serde_json::from_str(body).unwrap();
    list.iter().map(|message| message[name].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn postmark_takes_five_hundred_at_a_time_and_answers_each() {
    let ok = |n: usize| vec!["{\"ErrorCode\":0,\"MessageID\":\"m\"}".to_owned(); n].join(",");
    let answer = |n: usize| Play::answer(200, &json(&format!("[{}]", ok(n))));
    let peer = Peer::start([answer(500), answer(1)]);
    let receipts = send(&postmark(&peer), plain_contexts(501)).await;
    assert_eq!(receipts.len(), 501);
    assert!(receipts.iter().all(Receipt::is_accepted));
    let bodies = peer.bodies();
    assert_eq!(subjects(&bodies[0], "Subject").len(), 500);
    assert_eq!(subjects(&bodies[1], "Subject"), ["500"]);
    assert!(peer.requests()[0].starts_with("POST /email/batch HTTP/1.1\r\n"));
}

/// A driver that makes one error of a batch that went in part loses the ids of those that went.
#[tokio::test]
async fn a_batch_that_goes_in_part_has_a_receipt_for_each() {
    let answer = "[{\"ErrorCode\":0,\"MessageID\":\"a\"},{\"ErrorCode\":406},{\"ErrorCode\":0,\"MessageID\":\"c\"},{}]";
    let peer = Peer::start([Play::answer(200, &json(answer))]);
    let receipts = send(&postmark(&peer), plain_contexts(4)).await;
    let shown: Vec<_> =
        receipts.iter().map(|receipt| (code(receipt), receipt.provider_id.as_deref())).collect();
    assert_eq!(
        shown,
        [
            ("none", Some("a")),
            ("provider.inactive_recipient", None),
            ("none", Some("c")),
            ("provider.answer", None)
        ]
    );
    assert!(receipts[3].is_unknown());
}

#[tokio::test]
async fn what_becomes_of_a_batch_becomes_of_each() {
    for (play, unknown, expected) in [
        (Play::CloseUnanswered, true, "http.reply_lost"),
        (Play::Stall, true, "http.reply_timeout"),
        (Play::answer(500, &json("{}")), true, "provider.failed"),
        // Not one for each.
        (Play::answer(200, &json("[{\"ErrorCode\":0}]")), true, "provider.answer"),
        (Play::answer(200, &json("\"OK\"")), true, "provider.answer"),
        (Play::answer(401, &json("{\"ErrorCode\":10}")), false, "provider.auth"),
        (Play::answer(429, &json("{\"ErrorCode\":429}")), false, "provider.rate_limited"),
    ] {
        let peer = Peer::start([play.clone()]);
        let messages = plain_contexts(3);
        let contexts: Vec<_> = messages.iter().map(|(_, context)| context.clone()).collect();
        let receipts = send(&postmark(&peer), messages).await;
        assert_eq!(receipts.len(), 3);
        for (receipt, context) in receipts.iter().zip(contexts) {
            assert_eq!((receipt.is_unknown(), code(receipt)), (unknown, expected), "{play:?}");
            assert!(context.is_committed());
            assert_eq!(receipt.attempts.len(), 1);
        }
    }
}

#[tokio::test]
async fn one_message_that_cannot_go_does_not_keep_the_others() {
    let ok = "{\"ErrorCode\":0,\"MessageID\":\"m\"}";
    let peer = Peer::start([1, 2].map(|n| Play::answer(200, &json(&format!("[{}]", vec![ok; n].join(","))))));
    let bad = plain().tag("a").tag("b").build().unwrap();
    let messages =
        [numbered(0), bad, numbered(2), numbered(3)].map(|message| (message, SendContext::default()));
    let receipts = send(&postmark(&peer), messages.to_vec()).await;
    let shown: Vec<_> = receipts.iter().map(code).collect();
    assert_eq!(shown, ["none", "message.unsupported", "none", "none"]);
    assert_eq!(receipts[1].failure().unwrap().category, MailCategory::Validation);
}

#[tokio::test]
async fn a_batch_that_is_stopped_was_not_sent_or_may_have_been() {
    let peer = Peer::start([Play::Stall]);
    let cancel = CancellationToken::new();
    let messages: Vec<_> =
        (0..2).map(|n| (numbered(n), SendContext::default().with_cancel(cancel.clone()))).collect();
    cancel.cancel();
    let stopped = send(&postmark(&peer), messages).await;
    assert!(stopped.iter().all(|receipt| code(receipt) == "mail.cancelled" && !receipt.is_unknown()));
    assert!(peer.requests().is_empty());

    let peer = Peer::start([Play::Stall]);
    let deadline = tokio::time::Instant::now() + Duration::from_millis(200);
    let messages = (0..2).map(|n| (numbered(n), SendContext::default().with_deadline(deadline))).collect();
    let late =
        send(&postmark(&peer).with_times(Duration::from_secs(5), Duration::from_mins(1)), messages).await;
    assert!(late.iter().all(|receipt| code(receipt) == "mail.timeout" && receipt.is_unknown()));
}

#[tokio::test]
async fn resend_sends_messages_with_keys_alone_and_the_others_together() {
    let one = || Play::answer(200, &json("{\"id\":\"one\"}"));
    let two = Play::answer(200, &json("{\"data\":[{\"id\":\"a\"},{\"id\":\"b\"}]}"));
    let peer = Peer::start([two, one(), one()]);
    let with_key = |key: &str| (mail(), SendContext::default().with_provider_key(key));
    let without = |n| (numbered(n), SendContext::default());
    let attached = plain().attach("a.txt", "text/plain", "a").build().unwrap();
    let messages = vec![without(0), without(1), with_key("k1"), (attached, SendContext::default())];
    let resend = resend(&peer);
    assert_eq!(resend.dedupes_for(), Some(Duration::from_hours(24)));
    let receipts = send(&resend, messages).await;
    let ids: Vec<_> = receipts.iter().map(|receipt| receipt.provider_id.as_deref().unwrap()).collect();
    assert_eq!(ids, ["a", "b", "one", "one"]);
    let requests = peer.requests();
    assert!(requests[0].starts_with("POST /emails/batch ") && !requests[0].contains("idempotency-key"));
    assert!(requests[1].starts_with("POST /emails ") && requests[1].contains("\r\nidempotency-key: k1\r\n"));
    assert!(requests[2].starts_with("POST /emails "));
}

/// unemail#119: the batch path dropped the keys, and a batch that was tried again went out twice.
#[tokio::test]
async fn a_batch_of_keyed_messages_has_a_key_made_of_theirs() {
    let two = || Play::answer(200, &json("{\"data\":[{\"id\":\"a\"},{\"id\":\"b\"}]}"));
    let peer = Peer::start([two(), two(), two()]);
    let resend = resend(&peer).batch_keyed();
    // A message alone would not be recognised any more.
    assert_eq!(resend.dedupes_for(), None);
    for keys in [["k1", "k2"], ["k1", "k2"], ["k2", "k1"]] {
        let messages = keys.map(|key| (mail(), SendContext::default().with_provider_key(key)));
        assert!(send(&resend, messages.to_vec()).await.iter().all(Receipt::is_accepted));
    }
    let key = |request: &String| {
        request.lines().find_map(|line| line.strip_prefix("idempotency-key: ")).unwrap().to_owned()
    };
    let keys: Vec<_> = peer.requests().iter().map(key).collect();
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[0], keys[2]);
    assert!(keys[0].len() == 64 && !keys[0].contains("k1"));
}

#[tokio::test]
async fn an_idempotent_batch_goes_through_the_batch_of_the_provider() {
    let kit = Kit::new();
    let two = Play::answer(
        200,
        &json("[{\"ErrorCode\":0,\"MessageID\":\"a\"},{\"ErrorCode\":0,\"MessageID\":\"b\"}]"),
    );
    let peer = Peer::start([two]);
    let mailer = Mailer::via(postmark(&peer)).idempotent(&kit.idem).build().unwrap();
    let messages = || [keyed("k1"), keyed("k2"), keyed("k1")];
    let receipts = mailer.send_many(messages()).collect().await;
    let shown: Vec<_> = receipts.iter().map(|r| (r.provider_id.as_deref().unwrap(), r.copied)).collect();
    assert_eq!(shown, [("a", false), ("b", false), ("a", true)]);
    assert!(mailer.send_many(messages()).collect().await.iter().all(|receipt| receipt.replayed));
    assert_eq!(peer.requests().len(), 1);
}
