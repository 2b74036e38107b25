//! Providers over HTTP, against a peer that is scripted byte by byte.

mod batches;
mod chances;
mod cuts;
mod formats;
mod lookups;
mod peer;
#[cfg(feature = "ses")]
mod ses;
mod tables;

use hapax_mail::{Message, SendContext, Transport, provider::Resend};
use peer::{Peer, Play, json};
use std::time::Duration;

pub(crate) const KEY: &str = "welcome-1";

/// A message that has everything that most providers take.
pub(crate) fn rich() -> Message {
    Message::builder()
        .from("\"Shop, \\\"Inc.\\\"\" <shop@bücher.example>")
        .to("Ada <ada@example.com>")
        .to("\"Lovelace, B.\" <b@example.com>")
        .cc("ada@example.com")
        .bcc("Cy <cy@example.com>")
        .reply_to("help@example.com")
        .subject("Größe")
        .text("Hello")
        .html("<p>Hello</p>")
        .header("X-Campaign", "spring")
        .in_reply_to("<first@example.com>")
        .unsubscribe_url("https://example.com/u")
        .attach("terms, 1.txt", "text/plain", "terms")
        .build()
        .unwrap()
}

pub(crate) fn mail() -> Message {
    crate::support::plain().build().unwrap()
}

pub(crate) fn context() -> SendContext {
    SendContext::default().with_provider_key(KEY).with_frozen(crate::support::frozen())
}

pub(crate) fn resend(peer: &Peer) -> Resend {
    Resend::new("re_secret").unwrap().with_endpoint(&peer.url()).unwrap()
}

#[tokio::test]
async fn keys_of_providers_are_in_no_debug_and_no_receipt() {
    let peer = Peer::start([Play::answer(401, &json("{\"name\":\"missing_api_key\"}"))]);
    let resend = resend(&peer);
    assert!(!format!("{resend:?}").contains("re_secret"));
    let receipt = resend.send(&mail(), &context()).await;
    assert!(!format!("{receipt:?} {:?}", receipt.response).contains("re_secret"));
    let bad = Resend::new("re_\nsecret").unwrap().with_endpoint(&peer.url()).unwrap();
    let receipt = bad.send(&mail(), &context()).await;
    assert_eq!(receipt.code(), Some("http.request"));
    assert!(!format!("{receipt:?}").contains("secret"));
    // Nor do they leave this machine unencrypted.
    let error = Resend::new("re_secret").unwrap().with_endpoint("http://example.com").unwrap_err();
    assert!(error.to_string().contains("https:"), "{error}");
}

#[tokio::test]
async fn times_bound_a_send() {
    let resend = Resend::new("x").unwrap().with_times(Duration::from_secs(5), Duration::from_secs(10));
    assert_eq!(resend.stack().longest, Some(Duration::from_secs(25)));
}
