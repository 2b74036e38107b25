//! Asking a provider whether it has a message.

use super::{Peer, Play, json};
use crate::kit::{Kit, keyed};
use hapax_core::Timestamp;
use hapax_mail::{
    Mailer, Mailgun, Postmark, Receipt, fingerprint,
    provider::{Found, Lookup, Sought},
};

fn sought(kit: &Kit, key: &str, receipt: Option<&Receipt>) -> Sought {
    Sought::new(&kit.name(key), &fingerprint(&keyed(key)), receipt, Timestamp::from_millis(0))
}

#[tokio::test]
async fn postmark_finds_a_message_by_what_was_sent_along_with_it() {
    let kit = Kit::new();
    let answers = [
        Play::answer(200, &json("{\"ErrorCode\":0,\"MessageID\":\"a\"}")),
        Play::answer(200, &json("{\"TotalCount\":1,\"Messages\":[{\"MessageID\":\"a\"}]}")),
        Play::answer(200, &json("{\"TotalCount\":0,\"Messages\":[]}")),
        Play::answer(401, &json("{\"ErrorCode\":10}")),
        // A question may be asked again: first on the connection that is there, then on a new one.
        Play::CloseUnanswered,
        Play::CloseUnanswered,
    ];
    let peer = Peer::start(answers);
    let postmark = || Postmark::new("x").unwrap().with_endpoint(&peer.url()).unwrap();
    let mailer = Mailer::via(postmark()).idempotent(&kit.idem).scope("mail:stub").build().unwrap();
    assert!(mailer.send(&keyed("k")).await.is_accepted());
    let sought = sought(&kit, "k", None);
    assert!(peer.bodies()[0].contains(&format!("\"hapax-mail\":\"{}\"", sought.digest)));
    let postmark = postmark();
    let yes = Found::Yes { provider_id: Some("a".to_owned()) };
    assert_eq!(postmark.find(&sought).await.unwrap(), yes);
    let asked =
        format!("GET /messages/outbound?count=1&offset=0&metadata_hapax-mail={} HTTP/1.1\r\n", sought.digest);
    assert!(peer.requests()[1].starts_with(&asked));
    assert_eq!(postmark.find(&sought).await.unwrap(), Found::No);
    assert_eq!(postmark.find(&sought).await.unwrap_err().code, "provider.auth");
    assert_eq!(postmark.find(&sought).await.unwrap_err().code, "http.write");
}

#[tokio::test]
async fn mailgun_finds_a_message_by_its_id() {
    let kit = Kit::new();
    let answers = [
        Play::answer(200, &json("{\"items\":[{\"event\":\"accepted\"}]}")),
        Play::answer(200, &json("{\"items\":[]}")),
    ];
    let peer = Peer::start(answers);
    let mailgun = Mailgun::new("mg.example.com", "x").unwrap().with_endpoint(&peer.url()).unwrap();
    let receipt = Receipt::unknown("http.reply_lost").with_message_id("<a+b@example.com>");
    let known = sought(&kit, "k", Some(&receipt));
    let yes = Found::Yes { provider_id: Some("<a+b@example.com>".to_owned()) };
    assert_eq!(mailgun.find(&known).await.unwrap(), yes);
    let asked =
        "GET /v3/mg.example.com/events?event=accepted&limit=1&message-id=a%2Bb%40example.com HTTP/1.1\r\n";
    assert!(peer.requests()[0].starts_with(asked), "{}", peer.requests()[0]);
    assert_eq!(mailgun.find(&known).await.unwrap(), Found::No);
    // Without an id there is nothing to ask for.
    assert_eq!(mailgun.find(&sought(&kit, "k", None)).await.unwrap(), Found::CannotTell);
    assert_eq!(peer.requests().len(), 2);
}
