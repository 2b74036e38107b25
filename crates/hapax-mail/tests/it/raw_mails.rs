//! Mails given as bytes.

use crate::support::{faults, frozen};
use hapax_mail::{RawMessage, RenderError};

const MAIL: &[u8] = b"From: Ada <ada@example.com>\r\nTo: b@example.com\r\nSubject: x\r\n\r\nhi\r\n";

fn raw(bytes: impl Into<bytes::Bytes>) -> RawMessage {
    RawMessage::new("ada@example.com", ["b@example.com"], bytes)
}

fn eml(text: &str) -> Result<RawMessage, hapax_mail::InvalidMessage> {
    RawMessage::from_eml(text.as_bytes())
}

#[test]
fn whole_mail_passes() {
    let raw = raw(MAIL).with_idempotency_key("raw:1");
    raw.check().unwrap();
    assert_eq!(raw.idempotency_key.as_deref(), Some("raw:1"));
    assert!(RawMessage::new("", ["b@example.com"], MAIL).check().is_ok());
    assert_eq!(format!("{raw:?}"), format!("RawMessage {{ recipients: 1, bytes: {}, .. }}", MAIL.len()));
}

#[test]
fn envelope_is_checked() {
    let bad =
        RawMessage::new("ada", ["Ada <a@example.com>", "b@example.com\r\nRCPT TO:<x@example.com>"], MAIL)
            .with_idempotency_key("");
    assert_eq!(
        faults(bad.check()),
        [
            "from message.address",
            "to[0] message.address",
            "to[1] message.header_injection",
            "idempotency_key message.idempotency_key"
        ]
    );
    assert_eq!(faults(RawMessage::new("a@example.com", [""; 0], MAIL).check()), ["to message.no_recipient"]);
    let many = (0..1001).map(|i| format!("a{i}@example.com"));
    assert_eq!(faults(RawMessage::new("a@example.com", many, MAIL).check()), ["to message.size"]);
}

#[test]
fn bytes_are_checked_and_never_mended() {
    let code = |bytes: &[u8]| faults(raw(bytes.to_vec()).check());
    assert_eq!(code(b"A: b\r\nBcc: x@example.com\r\n\r\n"), ["bytes message.bcc"]);
    assert_eq!(code(b"A: b\r\n\r\na\n.\nb\r\n"), ["bytes message.encoding"]);
    assert_eq!(code(b"A: b\r\n\r\na\rb\r\n"), ["bytes message.encoding"]);
    assert_eq!(code(b"A: b\r\n\r\na\0b\r\n"), ["bytes message.encoding"]);
    assert_eq!(code(b"no header\r\n"), ["bytes message.header"]);
    assert_eq!(code(format!("A: b\r\n\r\n{}\r\n", "x".repeat(999)).as_bytes()), ["bytes message.size"]);
    assert_eq!(code("A: ü\r\n\r\nü\r\n".as_bytes()), [""; 0]);
}

#[test]
fn envelope_uses_a_labels_and_each_mailbox_once() {
    let raw =
        RawMessage::new("ada@bücher.example", ["b@example.com", "b@EXAMPLE.com", "c@bücher.example"], MAIL);
    let envelope = raw.envelope().unwrap();
    assert_eq!(envelope.from, "ada@xn--bcher-kva.example");
    assert_eq!(envelope.to, ["b@example.com", "c@xn--bcher-kva.example"]);
    assert!(!envelope.smtputf8);
    assert_eq!(raw.from_domain().as_deref(), Some("xn--bcher-kva.example"));
    let utf8 = RawMessage::new("", ["b@example.com"], "From: jørgen@example.com\r\n\r\n");
    let envelope = utf8.envelope().unwrap();
    assert!(envelope.smtputf8);
    assert_eq!(envelope.from, "");
}

#[test]
fn missing_id_and_date_are_added_and_given_ones_kept() {
    let sent = raw(MAIL).render(&frozen()).unwrap();
    let text = String::from_utf8(sent.to_vec()).unwrap();
    assert!(text.starts_with("Date: Thu, 31 Jan 2030 09:00:00 +0000\r\nMessage-ID: <abcdefghijklmnopqrstuvwxyz@example.com>\r\nFrom: "), "{text}");
    assert!(text.ends_with(std::str::from_utf8(MAIL).unwrap()));
    assert_eq!(raw(MAIL).render(&frozen()).unwrap(), sent);

    let whole =
        "Message-Id: <own@example.com>\r\nDate: Mon, 1 Jan 2029 00:00:00 +0000\r\nTo: a@b\r\n\r\nx\r\n";
    assert_eq!(raw(whole).message_id().as_deref(), Some("<own@example.com>"));
    assert_eq!(raw(whole).render(&frozen()).unwrap(), whole);
    assert_eq!(raw(&whole[..whole.len() - 2]).render(&frozen()).unwrap(), whole);
    assert_eq!(raw("Bcc: a@b\r\n\r\n").render(&frozen()), Err(RenderError::Bcc));
    assert_eq!(raw("Message-ID:\r\nA: b\r\n\r\n").render(&frozen()), Err(RenderError::BadMessageId));
}

#[test]
fn envelope_of_a_file_comes_from_its_header() {
    let raw = eml("From: Ada <ada@example.com>, b@example.com\nSender: \"Post, The\" <post@example.com>\nTo: undisclosed-recipients:;\nCc: C <c@example.com>,\n\td@example.com (Dee)\nBCC: Hidden <h@example.com>,\n c@Example.com\nMessage-ID: <1@example.com>\nDate: Mon, 1 Jan 2029 00:00:00 +0000\nSubject: x\n\nhi\n.\nBcc: text\n").unwrap();
    assert_eq!(raw.from, "post@example.com");
    assert_eq!(raw.to, ["c@example.com", "d@example.com", "h@example.com"]);
    let text = String::from_utf8(raw.bytes.to_vec()).unwrap();
    assert!(!text.contains("h@example.com") && !text.contains("BCC"), "{text}");
    assert!(
        text.contains("Cc: C <c@example.com>,\r\n\td@example.com (Dee)\r\nMessage-ID: <1@example.com>\r\n"),
        "{text}"
    );
    assert!(text.ends_with("\r\n\r\nhi\r\n.\r\nBcc: text\r\n"), "{text}");
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
    raw.check().unwrap();
    assert_eq!(raw.render(&frozen()).unwrap(), raw.bytes);
}

#[test]
fn all_kinds_of_line_ends_become_crlf() {
    let raw = RawMessage::from_eml(b"\xef\xbb\xbfFrom: a@example.com\rTo: b@example.com\n\r\na\r\rb\r\n\nc")
        .unwrap();
    assert_eq!(&raw.bytes[..], b"From: a@example.com\r\nTo: b@example.com\r\n\r\na\r\n\r\nb\r\n\r\nc\r\n");
}

#[test]
fn file_that_is_no_mail_is_refused_with_the_line() {
    let error = eml("From: a@example.com\nFrom ada Mon Jan 1\n\n").unwrap_err();
    assert!(error.to_string().contains("line 2"), "{error}");
    assert_eq!(faults(eml("From: a@example.com\nFrom ada\n\n")), [" message.syntax"]);
    assert_eq!(faults(eml("")), ["from message.no_sender"]);
    assert_eq!(faults(eml("To: a@example.com\n\nx")), ["from message.no_sender"]);
    assert_eq!(
        faults(eml("From: a@example.com\nTo: undisclosed-recipients:;\n\nx")),
        ["to message.no_recipient"]
    );
    assert_eq!(
        faults(eml("From: a@example.com, b@example.com\nTo: c@example.com\n\nx")),
        ["sender message.no_sender"]
    );
    assert_eq!(faults(eml("From: a@example.com\nTo: b, c@example.com\n\nx")), ["to message.address"]);
    assert_eq!(
        faults(eml("From: a@example.com\nTo: c@example.com\nResent-To: d@example.com\n\nx")),
        ["header message.unsupported"]
    );
    assert_eq!(faults(eml("From: a@example.com\nTo: c@example.com\n\nx\0")), ["bytes message.encoding"]);
    assert_eq!(
        faults(eml(&format!("From: a@example.com\nTo: c@example.com\n\n{}", "x".repeat(999)))),
        ["bytes message.size"]
    );
    assert_eq!(
        faults(RawMessage::from_eml(b"From: a@example.com\nTo: \xff@example.com\n\nx")),
        ["to message.address"]
    );
}

#[test]
fn file_in_utf8_needs_a_server_that_takes_it() {
    let raw = eml("From: jørgen@example.com\nTo: b@example.com\nSubject: ü\n\nü\n").unwrap();
    assert!(raw.envelope().unwrap().smtputf8);
}
