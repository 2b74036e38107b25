//! Lines of a JSON Lines file.

use crate::support::{AT, faults};
use hapax_mail::{Message, MessageJson};

fn read(line: &str) -> Message {
    Message::from_json_line(line).unwrap_or_else(|e| panic!("{e}")).message().clone()
}

fn refused(line: &str) -> Vec<String> {
    faults(Message::from_json_line(line))
}

/// A line with more fields.
fn line(more: &str) -> String {
    format!(r#"{{"from":"shop@example.com","to":"ada@example.com","text":"hi"{more}}}"#)
}

fn reason(line: &str) -> String {
    Message::from_json_line(line)
        .unwrap_err()
        .faults
        .into_iter()
        .map(|fault| fault.to_string())
        .collect::<Vec<_>>()
        .join("|")
}

#[test]
fn every_field_is_read() {
    let message = read(
        r#"{"from":["A <a@example.com>","b@example.com"],"sender":"s@example.com","to":"ada@example.com",
        "cc":["c@example.com"],"bcc":[],"reply_to":["r@example.com"],"subject":"Gr\u00fc\u00dfe","text":"t","html":"<p>",
        "headers":{"X-A":"1","X-B":["2","3"],"X-C":null},
        "attachments":[{"filename":"a.txt","content_type":"text/plain; charset=utf-8","base64":"aGk=","cid":null},{"base64":"","cid":"l","content_type":"image/png"},{"filename":"b.PNG","base64":"AA=="}],
        "idempotency_key":"k","in_reply_to":"<x@y>","references":"<1@y> <2@y>","message_id":"<m@y>","metadata":{"o":"7"},
        "tags":["t1"],"send_at":"2030-01-31T10:00:00+01:00","tracking":{"opens":true,"clicks":false},
        "unsubscribe":{"url":"https://example.com/u","mailto":"u@example.com"}}"#,
    );
    assert_eq!(message.from().len(), 2);
    assert_eq!(message.sender().unwrap().local(), "s");
    assert_eq!(
        (message.to().len(), message.cc().len(), message.bcc().len(), message.reply_to().len()),
        (1, 1, 0, 1)
    );
    assert_eq!(message.subject(), Some("Grüße"));
    assert_eq!(message.headers().collect::<Vec<_>>(), [("X-A", "1"), ("X-B", "2"), ("X-B", "3")]);
    assert_eq!(&message.attachments()[0].bytes()[..], b"hi");
    assert_eq!(message.attachments()[1].filename(), None);
    assert_eq!(message.attachments()[2].content_type(), "image/png");
    assert_eq!(message.idempotency_key().unwrap().as_str(), "k");
    assert_eq!(message.references(), ["<1@y>", "<2@y>"]);
    assert_eq!(message.message_id(), Some("<m@y>"));
    assert_eq!(message.send_at(), Some(AT));
    assert_eq!(message.tracking().clicks, Some(false));
    assert_eq!(message.unsubscribe().unwrap().mailto.as_deref(), Some("mailto:u@example.com"));
}

#[test]
fn null_is_the_same_as_nothing() {
    let message = read(&line(r#","subject":null,"cc":null,"tracking":null,"unsubscribe":null"#));
    assert_eq!(message.subject(), None);
    assert!(message.unsubscribe().is_none());
}

#[test]
fn unknown_fields_are_refused_with_the_nearest_name() {
    for (given, near) in [
        ("replyTo", "reply_to"),
        ("Subject", "subject"),
        ("subjct", "subject"),
        ("idempotencyKey", "idempotency_key"),
        ("attachment", "attachments"),
        ("too", "to"),
    ] {
        let line = line(&format!(r#","{given}":"x""#));
        assert_eq!(refused(&line), [format!("{given} message.unknown_field")]);
        assert!(reason(&line).contains(&format!("`{near}`")), "{}", reason(&line));
    }
    assert!(reason(&line(r#","template":"x""#)).contains("these are: from, "));
    assert_eq!(refused(&line(r#","tracking":{"open":true}"#)), ["tracking.open message.unknown_field"]);
    assert_eq!(
        refused(&line(r#","unsubscribe":{"uri":"x"}"#)),
        ["unsubscribe.uri message.unknown_field", "unsubscribe message.unsubscribe"]
    );
    assert_eq!(
        refused(&line(r#","attachments":[{"file_name":"a","base64":""}]"#)),
        ["attachments[0].file_name message.unknown_field", "attachments[0].filename message.attachment"]
    );
}

#[test]
fn fields_given_twice_are_refused() {
    assert_eq!(refused(&line(r#","to":"b@example.com""#)), ["to message.duplicate_field"]);
    assert_eq!(refused(&line(r#","t\u006f":"b@example.com""#)), ["to message.duplicate_field"]);
    assert_eq!(refused(&line(r#","metadata":{"a":"1","a":"2"}"#)), ["metadata.a message.duplicate_field"]);
    assert_eq!(
        refused(&line(r#","headers":{"X-A":"1","x-a":"2"}"#)),
        ["headers.x-a message.duplicate_field"]
    );
    assert_eq!(
        refused(&line(r#","tracking":{"opens":true,"opens":true}"#)),
        ["tracking.opens message.duplicate_field"]
    );
    assert_eq!(
        refused(&line(r#","attachments":[{"base64":"","base64":"","filename":"a"}]"#)),
        ["attachments[0].base64 message.duplicate_field"]
    );
}

#[test]
fn kinds_of_values_are_checked() {
    assert_eq!(
        refused(r#"{"from":1,"to":[1,"a@example.com"],"text":{}}"#),
        ["from message.type", "to[0] message.type", "text message.type"]
    );
    assert_eq!(
        reason(r#"{"from":"a@example.com","to":[7],"text":"x"}"#),
        "to: expected text, found a number"
    );
    assert_eq!(
        refused(&line(
            r#","metadata":{"a":1},"tags":"t","tracking":{"opens":"yes"},"headers":[],"attachments":{}"#
        )),
        [
            "metadata.a message.type",
            "tracking.opens message.type",
            "headers message.type",
            "attachments message.type",
        ]
    );
    assert_eq!(refused(&line(r#","attachments":["a"]"#)), ["attachments[0] message.type"]);
}

#[test]
fn several_faults_keep_their_places() {
    assert_eq!(
        refused(r#"{"from":"a@example.com","to":[null,"b","c@example.com"],"html":""}"#),
        ["to[0] message.type", "to[1] message.address"]
    );
}

#[test]
fn what_is_no_json_object_is_refused_with_its_place() {
    assert_eq!(refused(""), [" message.syntax"]);
    assert_eq!(refused("[]"), [" message.syntax"]);
    assert_eq!(refused("{\"from\":}"), [" message.syntax"]);
    assert!(reason("{\"from\":}").contains("at column 9"), "{}", reason("{\"from\":}"));
    assert!(reason("{} {}").contains("trailing"), "{}", reason("{} {}"));
    assert_eq!(refused(&"[".repeat(100_000)), [" message.syntax"]);
    assert_eq!(refused(r#"{"to":"\ud800"}"#), [" message.syntax"]);
    let error = MessageJson::from_bytes(b"{\"from\":\"\xff\"}").unwrap_err();
    assert_eq!(error.to_string(), "the message is not valid: byte 10 of the line is no valid UTF-8");
}

#[test]
fn attachments_come_from_one_place() {
    let attachment =
        |fields: &str| refused(&line(&format!(r#","attachments":[{{"filename":"a"{fields}}}]"#)));
    assert_eq!(attachment(""), ["attachments[0] message.attachment"]);
    assert_eq!(attachment(r#","path":"a","base64":"""#), ["attachments[0] message.attachment"]);
    assert_eq!(attachment(r#","base64":"a""#), ["attachments[0].base64 message.attachment"]);
    assert_eq!(attachment(r#","path":"""#), ["attachments[0].path message.attachment"]);
    assert_eq!(attachment(r#","path":"a\u0000""#), ["attachments[0].path message.attachment"]);
    assert_eq!(attachment(r#","path":"x/y.pdf""#), [""; 0]);
}

#[test]
fn times_need_their_offset() {
    for bad in ["2030-01-31", "2030-01-31T09:00:00", "tomorrow", "2030-13-01T00:00:00Z", ""] {
        assert_eq!(refused(&line(&format!(r#","send_at":"{bad}""#))), ["send_at message.send_at"], "{bad}");
    }
    assert_eq!(
        read(&line(r#","send_at":"2030-01-31T09:00:00.5Z""#)).send_at().unwrap().as_millis(),
        AT.as_millis() + 500
    );
}

#[test]
fn names_from_outside_are_shown_escaped_and_cut() {
    let reason = reason(&line(&format!(r#","\u001b[31m{}":"x""#, "x".repeat(200))));
    assert!(!reason.contains('\u{1b}') && !reason.contains(&"x".repeat(100)), "{reason}");
}

#[test]
fn line_breaks_inside_values_are_an_injection() {
    assert_eq!(
        refused(&line(r#","subject":"a\r\nBcc: b@example.com""#)),
        ["subject message.header_injection"]
    );
    assert_eq!(
        refused(&line(r#","references":"<a@b>\r\nBcc: x""#)),
        ["references[0] message.header_injection"]
    );
}

#[test]
fn very_long_lines_are_refused_by_size() {
    let long = |bytes: usize| {
        format!(r#"{{"from":"a@example.com","to":"b@example.com","text":"{}"}}"#, "x".repeat(bytes))
    };
    assert_eq!(refused(&long(41 * 1024 * 1024)), ["attachments message.size"]);
    assert_eq!(refused(&long(65 * 1024 * 1024)), [" message.size"]);
    assert_eq!(refused(&long(1024 * 1024)), [""; 0]);
}
