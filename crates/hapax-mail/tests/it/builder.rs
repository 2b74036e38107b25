//! What a message has to have.

use crate::support::{AT, faults, plain};
use hapax_core::{Category, Coded, Retry, Timestamp};
use hapax_mail::{Address, Attachment, MESSAGE_CODES, Message};

#[test]
fn everything_given_is_there() {
    let message = plain()
        .sender("Post <post@example.com>")
        .cc("c@example.com")
        .bcc("d@example.com")
        .reply_to("r1@example.com")
        .reply_to("r2@example.com")
        .html("<p>hi</p>")
        .header("X-Campaign", "spring")
        .attach("a.pdf", "Application/PDF", &b"%PDF"[..])
        .attachment(Attachment::inline("logo", "image/png", &b"png"[..]).with_filename("logo.png"))
        .in_reply_to("a@b")
        .reference("<1@b>")
        .reference("2@b")
        .metadata("order", "7")
        .tag("welcome")
        .send_at(AT)
        .track_opens(false)
        .unsubscribe_url("https://example.com/u")
        .unsubscribe_mailto("leave@example.com")
        .idempotency_key("welcome:1")
        .message_id("own@example.com")
        .build()
        .unwrap();
    assert_eq!(message.from()[0].to_string(), "shop@example.com");
    assert_eq!(message.sender().unwrap().name(), Some("Post"));
    assert_eq!(message.recipients().count(), 3);
    assert_eq!(message.reply_to().len(), 2);
    assert_eq!(message.subject(), Some("Welcome"));
    assert_eq!(message.headers().collect::<Vec<_>>(), [("X-Campaign", "spring")]);
    assert_eq!(message.attachments()[0].content_type(), "application/pdf");
    assert_eq!(message.attachments()[1].cid(), Some("logo"));
    assert_eq!(message.in_reply_to(), Some("<a@b>"));
    assert_eq!(message.references(), ["<1@b>", "<2@b>"]);
    assert_eq!(message.metadata()["order"], "7");
    assert_eq!(message.tags(), ["welcome"]);
    assert_eq!(message.send_at(), Some(AT));
    assert_eq!((message.tracking().opens, message.tracking().clicks), (Some(false), None));
    assert!(message.unsubscribe().unwrap().one_click());
    assert_eq!(message.idempotency_key().unwrap().as_str(), "welcome:1");
    assert_eq!(message.message_id(), Some("<own@example.com>"));
}

#[test]
fn every_fault_is_reported_at_once() {
    let result = Message::builder()
        .from("shop")
        .to("ada@example.com")
        .to("b\r\nc@example.com")
        .subject("a\nb")
        .header("Bcc", "x@example.com")
        .header("X-A", "a\r\nb")
        .attach("", "text", "")
        .idempotency_key("")
        .build();
    assert_eq!(
        faults(result),
        [
            "from message.address",
            "to[1] message.header_injection",
            "subject message.header_injection",
            "text message.no_content",
            "headers.Bcc message.header",
            "headers.X-A message.header_injection",
            "attachments[0].filename message.attachment",
            "attachments[0].content_type message.attachment",
            "idempotency_key message.idempotency_key",
        ]
    );
}

#[test]
fn author_recipient_and_content_are_needed() {
    assert_eq!(
        faults(Message::builder().build()),
        ["from message.no_sender", "to message.no_recipient", "text message.no_content"]
    );
    assert!(Message::builder().from("a@example.com").bcc("b@example.com").html("").build().is_ok());
}

#[test]
fn several_authors_need_a_sender() {
    let two = || plain().from("second@example.com");
    assert_eq!(faults(two().build()), ["sender message.no_sender"]);
    assert!(two().sender("post@example.com").build().is_ok());
}

#[test]
fn one_string_is_one_address() {
    assert_eq!(faults(plain().bcc("a@example.com, b@example.com").build()), ["bcc message.address"]);
}

#[test]
fn reasons_repeat_nothing_that_was_given() {
    let error = Message::builder()
        .from("secret-name@exa_mple.com")
        .to("Secret, Name <secret-name@example.com>")
        .subject("secret-name\n")
        .text("x")
        .header("X-A", "secret-name\n")
        .build()
        .unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(!shown.to_lowercase().contains("secret"), "{shown}");
}

#[test]
fn sizes_are_bounded() {
    assert_eq!(faults(plain().subject("s".repeat(4097)).build()), ["subject message.size"]);
    assert!(plain().subject("s".repeat(4096)).build().is_ok());
    let mut many = plain();
    for i in 0..1000 {
        many = many.bcc(format!("a{i}@example.com"));
    }
    assert_eq!(faults(many.build()), ["to message.size"]);
    let big = vec![0_u8; 21 * 1024 * 1024];
    let result = plain()
        .attach("a.bin", "application/octet-stream", big.clone())
        .attach("b.bin", "application/octet-stream", big)
        .build();
    assert_eq!(faults(result), ["attachments message.size"]);
}

#[test]
fn text_may_hold_all_but_nul() {
    assert!(plain().text("\u{1}\u{7f}\r \u{85} ü").build().is_ok());
    assert_eq!(faults(plain().text("a\0b").build()), ["text message.encoding"]);
}

#[test]
fn encoded_words_are_to_be_given_as_plain_text() {
    assert_eq!(faults(plain().subject("=?utf-8?q?hi?=").build()), ["subject message.encoding"]);
}

#[test]
fn inline_attachments_need_html_and_ids_of_their_own() {
    let logo = || Attachment::inline("logo", "image/png", &b"x"[..]);
    assert_eq!(faults(plain().attachment(logo()).build()), ["attachments[0].cid message.attachment"]);
    assert_eq!(
        faults(plain().html("").attachment(logo()).attachment(logo()).build()),
        ["attachments[1].cid message.attachment"]
    );
}

#[test]
fn metadata_and_tags_are_plain() {
    let result =
        plain().metadata("", "x").metadata("a", "b\nc").metadata("a", "d").tag("").tag("a\tb").build();
    assert_eq!(
        faults(result),
        [
            "metadata. message.metadata",
            "metadata.a message.metadata",
            "metadata.a message.duplicate_field",
            "tags[0] message.metadata",
            "tags[1] message.metadata",
        ]
    );
}

#[test]
fn schedule_has_to_be_a_time_of_our_days() {
    assert_eq!(faults(plain().send_at(Timestamp::from_millis(-1)).build()), ["send_at message.send_at"]);
    assert_eq!(
        faults(plain().send_at(Timestamp::from_millis(i64::MAX)).build()),
        ["send_at message.send_at"]
    );
}

#[test]
fn key_can_be_given_later() {
    let message = plain().build().unwrap();
    assert!(message.idempotency_key().is_none());
    assert_eq!(
        message.with_idempotency_key("k:\0{}🦀").unwrap().idempotency_key().unwrap().as_str(),
        "k:\0{}🦀"
    );
    assert_eq!(faults(message.with_idempotency_key("")), ["idempotency_key message.idempotency_key"]);
    assert_eq!(
        faults(message.with_idempotency_key(&"k".repeat(65_537))),
        ["idempotency_key message.idempotency_key"]
    );
}

#[test]
fn addresses_can_be_given_as_such() {
    let ada = Address::new(Some("Lovelace, Ada"), "ada@example.com").unwrap();
    assert_eq!(plain().cc(&ada).build().unwrap().cc(), [ada]);
}

#[test]
fn debug_shows_no_address_and_no_text() {
    let message = plain()
        .html("aboard")
        .metadata("aboard", "aboard")
        .idempotency_key("welcome:aboard")
        .attach("aboard.pdf", "a/b", "aboard")
        .build()
        .unwrap();
    let shown = format!("{message:?} {:?} {:?}", message.from(), message.attachments());
    for hidden in ["ada", "shop", "example", "Welcome", "aboard"] {
        assert!(!shown.contains(hidden), "{shown}");
    }
}

#[test]
fn errors_are_coded() {
    let error = Message::builder().build().unwrap_err();
    assert_eq!(
        (error.code(), error.category(), error.retry()),
        ("message.no_sender", Category::Validation, Retry::Never)
    );
    assert_eq!(
        error.to_string(),
        "the message is not valid: from: it is missing; to: the message has no recipient in `to`, `cc` or `bcc`; \
         text: the message has neither `text` nor `html`"
    );
}

#[test]
fn codes_are_listed_once_and_sorted() {
    let codes: Vec<&str> = MESSAGE_CODES.iter().map(|info| info.code).collect();
    assert!(codes.is_sorted() && codes.iter().all(|code| code.starts_with("message.")));
    let mut unique = codes.clone();
    unique.dedup();
    assert_eq!(unique, codes);
}
