//! No text from outside can add a header field, a recipient or a part.

use crate::support::frozen;
use hapax_mail::{Attachment, Message, MessageBuilder, RawMessage, RenderError, envelope, render};
use mail_parser::MessageParser;
use proptest::prelude::*;

/// The names of the fields that this message has to have, in order.
const FIELDS: &[&str] = &[
    "Date",
    "From",
    "Reply-To",
    "To",
    "Subject",
    "Message-ID",
    "In-Reply-To",
    "List-Unsubscribe",
    "X-Own",
    "MIME-Version",
    "Content-Type",
];

/// The text in each place where a message takes one, in a message that is fine but for it.
fn everywhere(text: &str) -> Vec<(&'static str, MessageBuilder)> {
    let base = || {
        Message::builder()
            .subject("s")
            .in_reply_to("a@b")
            .unsubscribe_mailto("u@example.com")
            .text("t")
            .html("h")
    };
    let own = || base().header("X-Own", "v");
    let whole = || own().from("shop@example.com").to("ada@example.com").reply_to("r@example.com");
    let named = format!("\"{}\" <ada@example.com>", text.replace('\\', "\\\\").replace('"', "\\\""));
    vec![
        ("name", own().from("shop@example.com").to(&*named).reply_to("r@example.com")),
        (
            "name unquoted",
            own().from("shop@example.com").to(format!("{text} <ada@example.com>")).reply_to("r@example.com"),
        ),
        ("to", own().from("shop@example.com").to(text).reply_to("r@example.com")),
        ("from", own().from(text).to("ada@example.com").reply_to("r@example.com")),
        (
            "local part",
            own().from("shop@example.com").to(format!("{text}@example.com")).reply_to("r@example.com"),
        ),
        ("domain", own().from("shop@example.com").to(format!("ada@{text}")).reply_to("r@example.com")),
        ("reply_to", own().from("shop@example.com").to("ada@example.com").reply_to(&*named)),
        ("subject", whole().subject(text)),
        (
            "header",
            base()
                .header("X-Own", text)
                .from("shop@example.com")
                .to("ada@example.com")
                .reply_to("r@example.com"),
        ),
        ("in_reply_to", whole().in_reply_to(text)),
        ("unsubscribe", whole().unsubscribe_mailto(text)),
        ("unsubscribe url", whole().unsubscribe_url(format!("http://example.com/{text}"))),
        ("text", whole().text(text)),
        ("html", whole().html(text)),
        ("filename", whole().attach(text, "application/pdf", "x")),
        ("content_type", whole().attach("a", text, "x")),
        ("parameter", whole().attach("a", format!("text/plain; charset=\"{text}\""), "x")),
        ("bytes", whole().attach("a", "text/plain", text.to_owned())),
        ("attached mail", whole().attach("a", "message/rfc822", text.to_owned())),
        ("cid", whole().attachment(Attachment::inline(text, "image/png", "x"))),
        ("message_id", whole().message_id(text)),
        ("message_id, local part", whole().message_id(format!("{text}@example.com"))),
        ("metadata", whole().metadata("a", text).metadata(text, "b")),
        ("tag", whole().tag(text)),
        ("idempotency_key", whole().idempotency_key(text)),
    ]
}

/// Text that is harmless anywhere shows that the messages are fine but for it.
#[test]
fn harmless_text_is_taken_in_most_places() {
    let taken =
        everywhere("ok@example.com").into_iter().filter(|(_, builder)| builder.clone().build().is_ok());
    let taken: Vec<_> = taken.map(|(place, _)| place).collect();
    for place in [
        "name",
        "to",
        "from",
        "subject",
        "header",
        "in_reply_to",
        "unsubscribe",
        "text",
        "html",
        "filename",
        "cid",
        "message_id",
        "metadata",
        "tag",
    ] {
        assert!(taken.contains(&place), "{place}");
    }
}

/// Text that is likely to break something: line ends, bits of header syntax, text of all kinds.
fn hostile() -> impl Strategy<Value = String> {
    let bits = prop::sample::select(vec![
        "\r\n",
        "\n",
        "\r",
        "\0",
        "\u{85}",
        "\u{2028}",
        "Bcc: x@example.com",
        "\r\nBcc: x@example.com\r\n",
        "\r\n\r\n",
        " ",
        "\t",
        "=?utf-8?q?=0D=0ABcc:_x?=",
        "\"",
        "\\",
        "<",
        ">",
        ",",
        ";",
        ":",
        "@",
        "(",
        ")",
        "a",
        "ü",
        "🦀",
        "--=_abcdefghijklmnopqrstuvwxyz_1",
        "%0d%0a",
        "ada@example.com",
        "\u{200b}",
        "\u{feff}",
        "=",
        "?",
        "'",
        "*0*=",
        "https://example.com/",
    ]);
    prop_oneof![
        prop::collection::vec(bits, 0..12).prop_map(|bits| bits.concat()),
        any::<String>(),
        "[ -~]{0,200}",
        "\\PC{0,60}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn hostile_text_adds_no_field_and_no_recipient(text in hostile()) {
        for (place, builder) in everywhere(&text) {
            let Ok(message) = builder.build() else { continue };
            let sent = match render(&message, &frozen()) {
                Ok(sent) => sent,
                // The one text that is refused this late: the boundary, which nobody can know beforehand.
                Err(e) => {
                    prop_assert!(e == RenderError::Boundary && text.contains("--=_abc"), "{place}: {e}");
                    continue;
                }
            };
            let parsed = MessageParser::default().parse(&sent[..]).unwrap();
            let names: Vec<&str> = parsed.parts[0].headers.iter().map(mail_parser::Header::name).collect();
            prop_assert_eq!(names, FIELDS, "{}: {}", place, String::from_utf8_lossy(&sent));
            prop_assert_eq!(envelope(&message).to.len(), 1, "{}", place);
            prop_assert_eq!(parsed.to().unwrap().iter().count(), 1, "{}", place);
            prop_assert_eq!(parsed.attachments().count(), message.attachments().len(), "{}", place);
        }
    }

    #[test]
    fn hostile_header_is_refused_or_kept(name in hostile(), value in hostile()) {
        let built = Message::builder().from("a@example.com").to("b@example.com").text("x").header(&*name, &*value).build();
        if let Ok(message) = built {
            let sent = render(&message, &frozen()).unwrap();
            let parsed = MessageParser::default().parse(&sent[..]).unwrap();
            prop_assert_eq!(parsed.parts[0].headers.len(), 8, "{}", String::from_utf8_lossy(&sent));
        }
    }

    #[test]
    fn any_line_is_read_or_refused(line in prop_oneof![hostile(), "\\{\"(from|to|text|attachments)\":[\\[\\]{}\":,a0 ]{0,20}\\}"]) {
        _ = Message::from_json_line(&line);
    }

    #[test]
    fn any_bytes_are_a_mail_or_refused(bytes in prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        prop::collection::vec(prop::sample::select(vec!["From: a@example.com", "To: b@example.com", "Bcc: c@example.com", "bcc : c@example.com", "\n", "\r\n", "\r", " ", "\t", "x", ":", "\0"]), 0..20)
            .prop_map(|bits| bits.concat().into_bytes()),
    ]) {
        if let Ok(raw) = RawMessage::from_eml(&bytes) {
            raw.check().unwrap();
            let sent = raw.render(&frozen()).unwrap();
            let parsed = MessageParser::default().parse(&sent[..]).unwrap();
            prop_assert!(parsed.bcc().is_none());
        }
    }
}
