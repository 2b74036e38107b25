//! The bytes themselves.

use crate::support::{AT, bytes, frozen, plain, text};
use hapax_core::{Coded as _, Fingerprint};
use hapax_mail::{
    Attachment, Frozen, Identity, Message, MessageBuilder, RenderError, derive_message_id, envelope,
    fingerprint, render,
};

fn header(message: &Message) -> String {
    text(message).split_once("\r\n\r\n").unwrap().0.to_owned()
}

/// Every rule that holds for any mail.
fn assert_sound(message: &Message) {
    let bytes = bytes(message);
    assert!(bytes.ends_with(b"\r\n"));
    let text = String::from_utf8(bytes).unwrap();
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
    assert_eq!(text.matches('\r').count(), text.matches("\r\n").count());
    assert!(text.lines().all(|line| line.len() <= 998));
    assert!(text.is_ascii() || message.needs_smtputf8());
    assert!(!text.to_ascii_lowercase().contains("\r\nbcc"));
}

#[test]
fn plain_mail_is_this() {
    let expected = "Date: Thu, 31 Jan 2030 09:00:00 +0000\r\n\
        From: <shop@example.com>\r\n\
        To: <ada@example.com>\r\n\
        Subject: Welcome\r\n\
        Message-ID: <abcdefghijklmnopqrstuvwxyz@example.com>\r\n\
        MIME-Version: 1.0\r\n\
        Content-Type: text/plain; charset=\"utf-8\"\r\n\
        Content-Transfer-Encoding: 7bit\r\n\
        \r\n\
        Welcome aboard.\r\n";
    assert_eq!(text(&plain().build().unwrap()), expected);
}

#[test]
fn parts_are_nested_with_boundaries_from_the_seed() {
    let message = plain()
        .html("<img src=\"cid:l\">")
        .attachment(Attachment::inline("l", "image/png", &b"x"[..]))
        .attach("a.txt", "text/plain", &b"a\n"[..])
        .build()
        .unwrap();
    let text = text(&message);
    let types: Vec<&str> = text
        .lines()
        .filter(|l| l.starts_with("Content-Type") || l.starts_with("--"))
        .map(|l| l.trim_start_matches("Content-Type: "))
        .collect();
    let seed = "abcdefghijklmnopqrstuvwxyz";
    assert_eq!(
        types,
        [
            &format!("multipart/mixed; boundary=\"=_{seed}_3\""),
            &format!("--=_{seed}_3"),
            &format!("multipart/alternative; boundary=\"=_{seed}_2\""),
            &format!("--=_{seed}_2"),
            "text/plain; charset=\"utf-8\"",
            &format!("--=_{seed}_2"),
            &format!("multipart/related; boundary=\"=_{seed}_1\""),
            &format!("--=_{seed}_1"),
            "text/html; charset=\"utf-8\"",
            &format!("--=_{seed}_1"),
            "image/png",
            &format!("--=_{seed}_1--"),
            &format!("--=_{seed}_2--"),
            &format!("--=_{seed}_3"),
            "text/plain",
            &format!("--=_{seed}_3--"),
        ]
    );
    assert_sound(&message);
}

#[test]
fn same_input_gives_the_same_bytes() {
    let message =
        || plain().html("<p>ü</p>").attach("ü.pdf", "application/pdf", vec![1_u8; 5000]).build().unwrap();
    assert_eq!(bytes(&message()), bytes(&message()));
    let other = render(&message(), &Frozen::new("<other@example.com>", AT, "other")).unwrap();
    assert_ne!(bytes(&message()), other);
}

#[test]
fn hidden_recipients_are_in_the_envelope_alone() {
    let message = plain().bcc("Hidden <hidden@example.com>").build().unwrap();
    assert_eq!(envelope(&message).to, ["ada@example.com", "hidden@example.com"]);
    assert!(!text(&message).to_lowercase().contains("hidden"));
    let message =
        Message::builder().from("a@example.com").bcc("hidden@example.com").text("x").build().unwrap();
    assert!(header(&message).contains("\r\nTo: undisclosed-recipients:;\r\n"));
    assert!(!text(&message).contains("hidden@"));
}

#[test]
fn envelope_has_each_mailbox_once_and_the_sender_first() {
    let message = plain()
        .sender("post@example.com")
        .cc("Ada <ada@EXAMPLE.com>")
        .bcc("Ada@example.com")
        .bcc("x@bücher.example")
        .build()
        .unwrap();
    let envelope = envelope(&message);
    assert_eq!(envelope.from, "post@example.com");
    assert_eq!(envelope.to, ["ada@example.com", "Ada@example.com", "x@xn--bcher-kva.example"]);
    assert!(!envelope.smtputf8);
    assert!(!format!("{envelope:?}").contains("ada"));
    let utf8 = plain().cc("jørgen@bücher.example").build().unwrap();
    assert!(hapax_mail::envelope(&utf8).smtputf8);
    assert_eq!(hapax_mail::envelope(&utf8).to[1], "jørgen@bücher.example");
    assert_sound(&utf8);
}

#[test]
fn one_click_field_goes_with_https_alone() {
    let with = |builder: MessageBuilder| header(&builder.build().unwrap());
    let both = with(plain().unsubscribe_url("https://example.com/u").unsubscribe_mailto("leave@example.com"));
    assert!(
        both.contains("List-Unsubscribe: <https://example.com/u>, <mailto:leave@example.com>\r\n"),
        "{both}"
    );
    assert!(both.contains("List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"), "{both}");
    assert!(!with(plain().unsubscribe_url("http://example.com/u")).contains("One-Click"));
    assert!(!with(plain().unsubscribe_mailto("leave@example.com")).contains("One-Click"));
    assert!(!with(plain()).contains("List-"));
}

#[test]
fn long_url_to_unsubscribe_fits_one_line() {
    let url = format!("https://example.com/{}", "u".repeat(880));
    let message = plain()
        .unsubscribe_url(&url)
        .unsubscribe_mailto(format!("a@example.com?subject={}", "s".repeat(870)))
        .build()
        .unwrap();
    assert!(text(&message).contains(&url));
    assert_sound(&message);
}

#[test]
fn own_ascii_fields_are_folded_and_not_encoded() {
    let value = "{\"unique_args\": {\"order\": \"7\"}, ".repeat(20);
    let message = plain().header("X-SMTPAPI", value.trim_end()).build().unwrap();
    let header = header(&message);
    assert!(!header.contains("=?"), "{header}");
    assert!(header.replace("\r\n ", " ").contains(value.trim_end()), "{header}");
    assert_sound(&message);
}

#[test]
fn awkward_text_is_sound() {
    for text in [
        "",
        ".",
        "a\rb\nc\r\nd",
        "\u{7f}",
        "a ".repeat(2000).as_str(),
        "ü".repeat(5000).as_str(),
        "x".repeat(998).as_str(),
        "\n\n\n",
    ] {
        assert_sound(&plain().text(text).html(text).build().unwrap());
        assert_sound(&plain().text(text).build().unwrap());
    }
}

#[test]
fn text_that_holds_the_boundary_is_an_error() {
    let message = plain()
        .text("--=_abcdefghijklmnopqrstuvwxyz_1\nContent-Type: text/html\n\nevil\n")
        .html("x")
        .build()
        .unwrap();
    let error = render(&message, &frozen()).unwrap_err();
    assert_eq!((error.clone(), error.code()), (RenderError::Boundary, "message.render"));
    assert!(render(&message, &Frozen::new("<a@b>", AT, "another")).is_ok());
}

#[test]
fn bad_frozen_values_are_errors() {
    let message = plain().build().unwrap();
    assert_eq!(render(&message, &Frozen::new("<a@b>\r\nBcc: x", AT, "s")), Err(RenderError::BadMessageId));
    assert_eq!(render(&message, &Frozen::new("<a@b>", AT, "s\r\n")), Err(RenderError::BadSeed));
}

fn digest(byte: u8) -> Fingerprint {
    Fingerprint::from_digest(1, [byte; 32])
}

#[test]
fn derived_id_depends_on_each_part() {
    let (a, b) = (digest(7), digest(8));
    let base = derive_message_id(b"secret", "default", "mail", "welcome:1", &a, "example.com");
    assert_eq!(base, derive_message_id(b"secret", "default", "mail", "welcome:1", &a, "example.com"));
    let (local, domain) = base.trim_matches(['<', '>']).split_once('@').unwrap();
    assert_eq!((local.len(), domain), (26, "example.com"));
    assert!(local.bytes().all(|b| b.is_ascii_lowercase() || (b'2'..=b'7').contains(&b)));
    let others = [
        derive_message_id(b"other", "default", "mail", "welcome:1", &a, "example.com"),
        derive_message_id(b"secret", "defaul", "tmail", "welcome:1", &a, "example.com"),
        derive_message_id(b"secret", "default", "mailw", "elcome:1", &a, "example.com"),
        derive_message_id(b"secret", "default", "mail", "welcome:2", &a, "example.com"),
        derive_message_id(b"secret", "default", "mail", "welcome:1", &b, "example.com"),
        derive_message_id(
            b"secret",
            "default",
            "mail",
            "welcome:1",
            &Fingerprint::from_digest(2, [7; 32]),
            "example.com",
        ),
    ];
    for (i, other) in others.iter().enumerate() {
        assert!(*other != base && !others[..i].contains(other), "{i}");
    }
}

#[test]
fn derived_ids_of_earlier_releases_stay() {
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("../vectors/message-id-v1.json")).unwrap();
    let vectors = vectors.as_array().unwrap();
    assert!(!vectors.is_empty());
    for v in vectors {
        let text = |name: &str| v[name].as_str().unwrap();
        let fingerprint = text("fingerprint").parse().unwrap();
        let id = derive_message_id(
            text("secret").as_bytes(),
            text("namespace"),
            text("scope"),
            text("key"),
            &fingerprint,
            text("from_domain"),
        );
        assert_eq!(id, text("message_id"), "{v}");
    }
}

#[test]
fn own_id_wins_over_derived_over_random() {
    let message = plain().idempotency_key("k").build().unwrap();
    let print = fingerprint(&message);
    let identity = Identity::new(b"secret", "default", "mail", "k", &print);
    let derived = Frozen::derived(&message, &identity, AT);
    assert_eq!(
        derived.message_id,
        derive_message_id(b"secret", "default", "mail", "k", &print, "example.com")
    );
    assert_eq!(derived.message_id, format!("<{}@example.com>", derived.boundary_seed));
    let own = plain().message_id("own@example.com").build().unwrap();
    assert_eq!(fingerprint(&own), print);
    let kept = Frozen::derived(&own, &identity, AT);
    assert_eq!(kept.message_id, "<own@example.com>");
    assert_eq!(kept.boundary_seed, derived.boundary_seed);
    let (a, b) = (Frozen::random(&message, AT).unwrap(), Frozen::random(&message, AT).unwrap());
    assert_ne!(a.message_id, b.message_id);
    render(&message, &a).unwrap();
    render(&message, &derived).unwrap();
}

#[test]
fn id_is_at_the_domain_of_the_author_as_dns_knows_it() {
    let message = Message::builder().from("a@Bücher.example").to("b@example.com").text("x").build().unwrap();
    let frozen = Frozen::random(&message, AT).unwrap();
    assert!(frozen.message_id.ends_with("@xn--bcher-kva.example>"), "{}", frozen.message_id);
    let message = Message::builder().from("a@[192.0.2.1]").to("b@example.com").text("x").build().unwrap();
    render(&message, &Frozen::random(&message, AT).unwrap()).unwrap();
}
