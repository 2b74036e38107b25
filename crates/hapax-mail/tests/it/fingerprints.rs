//! What makes another message of it, and what does not.

use crate::support::{AT, plain};
use hapax_core::{Fingerprint, Timestamp};
use hapax_mail::{
    Attachment, Message, MessageBuilder, RawMessage, fingerprint, fingerprint_raw, fingerprint_strict,
};

fn print(builder: MessageBuilder) -> Fingerprint {
    fingerprint(&builder.build().unwrap())
}

/// A message with every field.
fn full() -> MessageBuilder {
    plain()
        .sender("post@example.com")
        .cc("c@example.com")
        .bcc("b@example.com")
        .reply_to("r@example.com")
        .html("<p>")
        .header("X-A", "1")
        .attach("a.pdf", "application/pdf", &b"one"[..])
        .in_reply_to("1@x")
        .reference("0@x")
        .metadata("m", "1")
        .tag("t")
        .send_at(AT)
        .track_opens(true)
        .track_clicks(false)
        .unsubscribe_url("https://example.com/u")
        .unsubscribe_mailto("u@example.com")
}

#[test]
fn each_field_counts_and_absent_differs_from_empty() {
    let variants = vec![
        ("nothing else", plain()),
        (
            "another author",
            Message::builder()
                .from("Shop <shop@example.com>")
                .to("ada@example.com")
                .subject("Welcome")
                .text("Welcome aboard.\n"),
        ),
        (
            "no subject",
            Message::builder().from("shop@example.com").to("ada@example.com").text("Welcome aboard.\n"),
        ),
        ("empty subject", plain().subject("")),
        ("another subject", plain().subject("x")),
        ("another text", plain().text("x")),
        ("empty text", plain().text("")),
        ("html", plain().html("Welcome aboard.\n")),
        ("empty html", plain().html("")),
        ("sender", plain().sender("c@example.com")),
        ("to", plain().to("c@example.com")),
        ("cc", plain().cc("c@example.com")),
        ("bcc", plain().bcc("c@example.com")),
        ("reply_to", plain().reply_to("c@example.com")),
        ("name", plain().cc("C <c@example.com>")),
        ("local part in upper case", plain().cc("C@example.com")),
        ("header", plain().header("X-A", "1")),
        ("header value", plain().header("X-A", "2")),
        ("empty header", plain().header("X-A", "")),
        ("header name", plain().header("X-B", "1")),
        ("two headers", plain().header("X-A", "1").header("X-B", "1")),
        ("two headers the other way round", plain().header("X-B", "1").header("X-A", "1")),
        ("attachment", plain().attach("a", "a/b", "")),
        ("name of attachment", plain().attach("b", "a/b", "")),
        ("type of attachment", plain().attach("a", "a/c", "")),
        ("inline", plain().html("").attachment(Attachment::inline("a", "a/b", ""))),
        (
            "inline with name",
            plain().html("").attachment(Attachment::inline("a", "a/b", "").with_filename("a")),
        ),
        ("in_reply_to", plain().in_reply_to("a@b")),
        ("references", plain().reference("a@b")),
        ("two references", plain().reference("a@b").reference("c@d")),
        ("metadata", plain().metadata("a", "b")),
        ("metadata, cut elsewhere", plain().metadata("ab", "")),
        ("tag", plain().tag("a")),
        ("two tags", plain().tag("a").tag("b")),
        ("one tag of two", plain().tag("ab")),
        ("send_at", plain().send_at(AT)),
        ("another send_at", plain().send_at(Timestamp::from_millis(AT.as_millis() + 1))),
        ("opens", plain().track_opens(true)),
        ("no opens", plain().track_opens(false)),
        ("clicks", plain().track_clicks(true)),
        ("unsubscribe url", plain().unsubscribe_url("https://example.com")),
        ("unsubscribe mail", plain().unsubscribe_mailto("u@example.com")),
        ("everything", full()),
    ];
    let prints: Vec<_> = variants.into_iter().map(|(what, builder)| (what, print(builder))).collect();
    for (i, (what, print)) in prints.iter().enumerate() {
        for (other, known) in &prints[..i] {
            assert_ne!(print, known, "{what} and {other}");
        }
    }
}

#[test]
fn order_of_recipients_counts() {
    assert_ne!(
        print(plain().to("b@example.com").to("c@example.com")),
        print(plain().to("c@example.com").to("b@example.com"))
    );
}

#[test]
fn spelling_does_not_count() {
    assert_eq!(print(plain()), print(plain().text("Welcome aboard.\r\n")));
    assert_eq!(print(plain().cc("a@bücher.example")), print(plain().cc("<a@XN--bcher-kva.EXAMPLE>")));
    assert_eq!(print(plain().header("X-A", "b")), print(plain().header("x-a", "b")));
    assert_eq!(
        print(plain().metadata("a", "1").metadata("b", "2")),
        print(plain().metadata("b", "2").metadata("a", "1"))
    );
    assert_eq!(print(plain().in_reply_to("a@b")), print(plain().in_reply_to("<a@b>")));
    assert_eq!(print(plain().attach("a", "Image/PNG", "")), print(plain().attach("a", "image/png", "")));
}

#[test]
fn key_and_id_do_not_count() {
    assert_eq!(print(plain()), print(plain().idempotency_key("k").message_id("m@example.com")));
}

#[test]
fn bytes_of_attachments_count_only_when_strict() {
    let with = |bytes: &'static [u8]| plain().attach("a", "a/b", bytes).build().unwrap();
    assert_eq!(fingerprint(&with(b"1")), fingerprint(&with(b"2")));
    assert_ne!(fingerprint_strict(&with(b"1")), fingerprint_strict(&with(b"2")));
    assert_eq!(fingerprint_strict(&with(b"1")), fingerprint_strict(&with(b"1")));
    let none = plain().build().unwrap();
    assert_eq!(fingerprint(&none), fingerprint_strict(&none));
}

#[test]
fn raw_fingerprint_is_that_of_the_envelope() {
    let raw = |from: &str, to: &[&str], bytes: &'static str| {
        fingerprint_raw(&RawMessage::new(from, to.to_vec(), bytes))
    };
    let base = raw("a@example.com", &["b@example.com", "c@example.com"], "x");
    assert_eq!(base, raw("a@EXAMPLE.com", &["b@example.com", "c@example.com"], "y"));
    assert_ne!(base, raw("a@example.com", &["c@example.com", "b@example.com"], "x"));
    assert_ne!(base, raw("x@example.com", &["b@example.com", "c@example.com"], "x"));
    assert_ne!(base, raw("a@example.com", &["b@example.com"], "x"));
    assert_ne!(raw("a", &["b"], ""), raw("", &["a", "b"], ""));
}

#[test]
fn fingerprints_of_earlier_releases_stay() {
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("../vectors/fingerprint-v1.json")).unwrap();
    let messages = vectors["messages"].as_array().unwrap();
    assert!(messages.len() >= 5);
    for v in messages {
        let message = Message::from_json_line(&v["line"].to_string()).unwrap().message().clone();
        assert_eq!(fingerprint(&message).to_string(), v["fingerprint"], "{}", v["line"]);
        assert_eq!(fingerprint_strict(&message).to_string(), v["strict"], "{}", v["line"]);
    }
    let raw = vectors["raw"].as_array().unwrap();
    assert!(!raw.is_empty());
    for v in raw {
        let to = v["to"].as_array().unwrap().iter().map(|to| to.as_str().unwrap());
        let raw = RawMessage::new(v["from"].as_str().unwrap(), to, "");
        assert_eq!(fingerprint_raw(&raw).to_string(), v["fingerprint"], "{v}");
    }
}
