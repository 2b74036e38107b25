//! Input that cannot be sent: named with line and field, and nothing is sent.

use super::{counts, line, lines, mails, send, send_stdin};
use crate::sandbox::Sandbox;
use std::fs;

/// Sends a good line and then this one: it has to be refused in these words, and nothing may be sent.
#[track_caller]
fn refused(second: impl AsRef<[u8]>, words: &[&str]) {
    let sandbox = Sandbox::new();
    let input = [line(0).as_bytes(), b"\n\n", second.as_ref(), b"\n"].concat();
    sandbox.write("a.jsonl", &input);
    let ran = send(&sandbox, &["a.jsonl"]).exits(65).says("a.jsonl:3: ").says("nothing was sent");
    for words in words {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
    assert!(!sandbox.path("outbox").exists());
    assert!(!sandbox.path("data").exists(), "the store was made");
    // The same from standard input, and with the good line sent.
    send_stdin(&sandbox, &["-"], &input).exits(65).says("-:3: ");
    let skipping = send(&sandbox, &["a.jsonl", "--skip-invalid"]).exits(1);
    counts(&skipping, "sent 1, replayed 0, failed 1, unknown 0, in flight 0");
    assert_eq!(mails(&sandbox.path("outbox")).len(), 1);
}

fn with(field: &str) -> String {
    format!(r#"{{"from":"a@example.com","to":"b@example.com","text":"","idempotency_key":"k",{field}}}"#)
}

#[test]
fn invalid_utf_8() {
    refused(b"{\"from\":\"a\xff@example.com\"}", &["a.jsonl:3: byte 11 of the line is no valid UTF-8"]);
}

#[test]
fn line_breaks_in_what_becomes_a_header() {
    refused(with(r#""subject":"x\r\nBcc: c@example.com""#), &["subject: it holds a line break"]);
    refused(with(r#""cc":"c@example.com\r\nd@example.com""#), &["a.jsonl:3: cc: "]);
    refused(with(r#""headers":{"X-A":"b\nBcc: c@example.com"}"#), &["headers.X-A: "]);
    refused(with(r#""headers":{"X-A\nBcc":"b"}"#), &["a.jsonl:3: headers."]);
    refused(
        with(r#""attachments":[{"filename":"a\r\nb","base64":""}]"#),
        &["attachments[0].filename: it holds a line break"],
    );
}

#[test]
fn no_recipient() {
    refused(r#"{"from":"a@example.com","text":"x"}"#, &["to: the message has no recipient"]);
    refused(r#"{"from":"a@example.com","to":[],"text":"x"}"#, &["to: the message has no recipient"]);
}

#[test]
fn unknown_fields_with_the_nearest_known() {
    refused(with(r#""subjcet":"x""#), &["subjcet: the field is not known: did you mean `subject`?"]);
    refused(with(r#""attachments":[{"file":"x"}]"#), &["attachments[0].file: the field is not known"]);
}

#[test]
fn fields_of_the_wrong_kind_and_what_is_no_json() {
    refused(with(r#""subject":7"#), &["subject: expected text, found a number"]);
    refused("[1]", &["expected a JSON object, found a list"]);
    refused("{\"from\":", &["the line is no valid JSON", "column"]);
    refused(with(r#""to":"c@example.com""#), &["to: it is there twice"]);
}

#[test]
fn attachments_that_are_not_there() {
    refused(
        with(r#""attachments":[{"path":"no-such.pdf"}]"#),
        &["attachments[0].path: the file does not exist"],
    );
    refused(
        with(r#""attachments":[{"filename":"n","path":"."}]"#),
        &["attachments[0].path: it is a directory"],
    );
    refused(with(r#""attachments":[{"path":"/dev/null","filename":"n"}]"#), &["it is no regular file"]);
    refused(with(r#""attachments":[{"filename":"n","base64":"%%"}]"#), &["attachments[0].base64: "]);
}

#[test]
fn a_time_to_send_where_nothing_can_be_scheduled() {
    let later = with(r#""send_at":"2030-01-31T09:00:00Z""#);
    refused(&later, &["a.jsonl:3: send_at: `file:` sends at once"]);
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", &later);
    send(&sandbox, &["a.jsonl", "--via", "stub:"]).exits(65).says("send_at: `stub:` sends at once");
    // Skipped, it is reported for what it is.
    let skipped = send(&sandbox, &["a.jsonl", "--skip-invalid", "--json"]).exits(1);
    assert_eq!(skipped.json()["code"], "message.unsupported");
    assert!(skipped.stderr.contains("1 message is not valid and was skipped"), "{skipped:?}");
}

#[test]
fn keys_that_are_too_long_or_empty() {
    let key = |key: &str| {
        format!(r#"{{"from":"a@example.com","to":"b@example.com","text":"","idempotency_key":"{key}"}}"#)
    };
    refused(key(&"k".repeat(65_537)), &["idempotency_key: ", "65537 bytes"]);
    refused(key(""), &["idempotency_key: ", "empty"]);
}

#[test]
fn any_other_text_is_a_key() {
    let sandbox = Sandbox::new();
    let keys = [r"a\u0000b", "{a}", "a:b", "🐘", r"a\nb", "k".repeat(65_536).leak()];
    let all: String = keys.iter().map(|key| line(0).replace("mail:0", key) + "\n").collect();
    sandbox.write("a.jsonl", all);
    counts(&send(&sandbox, &["a.jsonl"]).exits(0), "sent 6, replayed 0, failed 0, unknown 0, in flight 0");
    counts(&send(&sandbox, &["a.jsonl"]).exits(0), "sent 0, replayed 6, failed 0, unknown 0, in flight 0");
}

#[test]
fn a_line_of_50_mb() {
    let mut long = vec![b' '; 50_000_000];
    long[..5].copy_from_slice(b"{\"a\":");
    refused(&long, &["a.jsonl:3: the line has 50000001 bytes: 32 MiB are the most"]);
}

#[test]
fn a_directory_or_a_missing_file_as_input() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("folder")).unwrap();
    send(&sandbox, &["folder"]).exits(65).says("folder is a directory");
    send(&sandbox, &["no-such.jsonl"]).exits(65).says("no-such.jsonl cannot be read: it does not exist");
    sandbox.write("a.jsonl", lines(1));
    let ran = send(&sandbox, &["a.jsonl", "folder"]).exits(65);
    assert!(!sandbox.path("outbox").exists(), "{ran:?}");
    let error = send(&sandbox, &["folder", "--json"]).exits(65).json();
    assert_eq!(error["error"]["code"], "command.input");
}

#[test]
fn a_bare_number_as_duration_and_other_usage() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(1));
    for flag in ["--lease", "--ttl", "--wait", "--timeout"] {
        send(&sandbox, &["a.jsonl", flag, "60"]).exits(2).says("write 60s");
    }
    send(&sandbox, &["a.jsonl", "--rate", "50"]).exits(2).says("50/s");
    send(&sandbox, &["a.jsonl", "--concurrency", "0"]).exits(2);
    send(&sandbox, &["a.jsonl", "--attempts", "0"]).exits(2);
    send(&sandbox, &["a.jsonl", "--lease", "10ms"]).exits(2).says("at least 1s");
    send(&sandbox, &["a.jsonl", "--failed-too"]).exits(2);
    assert!(!sandbox.path("outbox").exists());
}

#[test]
fn every_bad_line_is_reported_up_to_a_limit_and_counted() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", [lines(10), "{}\n".repeat(250)].concat());
    let ran =
        send(&sandbox, &["a.jsonl"]).exits(65).says("250 of 260 messages are not valid").says("and 150 more");
    assert!(ran.stderr.contains("a.jsonl:11: from: ") && ran.stderr.contains("a.jsonl:110: "), "{ran:?}");
    assert!(!ran.stderr.contains("a.jsonl:111: "));
    // For programs, all of them, and then the end.
    let objects = send(&sandbox, &["a.jsonl", "--json"]).exits(65).lines();
    assert_eq!(objects.len(), 251);
    assert_eq!(objects[0]["index"], 10);
    assert_eq!(objects[0]["place"], "a.jsonl:11");
    assert_eq!(objects[0]["outcome"], "failed");
    assert_eq!(objects[0]["category"], "validation");
    assert_eq!(objects[250]["error"]["exit_code"], 65);
    // Skipped, they have their place among the others.
    let objects = send(&sandbox, &["a.jsonl", "--json", "--skip-invalid"]).exits(1).lines();
    assert_eq!(objects.len(), 260);
    assert!(objects.iter().enumerate().all(|(n, object)| object["index"] == n));
}

#[test]
fn names_that_a_terminal_would_obey_are_shown_as_text() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", "{\"\\u001b[2Jx\":1}\n");
    let ran = send(&sandbox, &["a.jsonl"]).exits(65);
    assert!(!ran.stderr.contains('\u{1b}'), "{ran:?}");
}
