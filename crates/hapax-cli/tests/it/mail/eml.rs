//! Mails that are ready.

use super::{counts, lines, mails, send};
use crate::sandbox::Sandbox;

const MAIL: &str = "From: Ada <ada@example.com>\nTo: Bob <bob@example.com>\nBcc: eve@example.com\nSubject: Hi\n there\nMessage-ID: <1@example.com>\nDate: Sat, 31 Jan 2026 09:00:00 +0000\n\nHello.\n";

#[test]
fn a_mail_goes_to_whom_its_header_names_and_without_bcc() {
    let sandbox = Sandbox::new();
    sandbox.write("a.eml", MAIL);
    let object = send(&sandbox, &["a.eml", "--key-template", "{message_id}", "--json"]).exits(0).json();
    assert_eq!(object["key"], "<1@example.com>");
    assert_eq!(object["place"], "a.eml");
    assert_eq!(object["accepted"], serde_json::json!(["bob@example.com", "eve@example.com"]));
    let sent = mails(&sandbox.path("outbox"));
    assert!(!sent[0].contains("Bcc") && sent[0].contains("\r\n\r\nHello.\r\n"), "{sent:?}");
    counts(
        &send(&sandbox, &["a.eml", "--key-template", "{message_id}"]).exits(0),
        "sent 0, replayed 1, failed 0, unknown 0, in flight 0",
    );
}

#[test]
fn mails_and_lines_go_together_in_order() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(3));
    let names: Vec<_> = (0..20).map(|n| format!("{n:02}.eml")).collect();
    for (n, name) in names.iter().enumerate() {
        sandbox.write(name, MAIL.replace("<1@", &format!("<{n}@")));
    }
    let mut args = vec!["a.jsonl"];
    args.extend(names.iter().map(String::as_str));
    args.extend(["a.jsonl", "--key-template", "m:{message_id}", "--json", "--concurrency", "4"]);
    let ran = send(&sandbox, &args).exits(0);
    counts(&ran, "sent 23, replayed 3, failed 0, unknown 0, in flight 0");
    let objects = ran.lines();
    assert!(objects.iter().enumerate().all(|(n, object)| object["index"] == n));
    assert_eq!(objects[3]["place"], "00.eml");
    assert_eq!(objects[22]["key"], "m:<19@example.com>");
    assert_eq!(objects[23]["place"], "a.jsonl:1");
}

#[test]
fn a_file_that_is_no_mail_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("a.eml", "no header here\n");
    sandbox.write("b.eml", MAIL.replace("To: Bob <bob@example.com>\nBcc: eve@example.com\n", ""));
    let ran = send(&sandbox, &["a.eml", "b.eml"]).exits(65).says("2 of 2 messages");
    assert!(
        ran.stderr.contains("a.eml: line 1 is no header field") && ran.stderr.contains("b.eml: to: "),
        "{ran:?}"
    );
}

#[test]
fn a_mail_may_come_from_standard_input() {
    let sandbox = Sandbox::new();
    let ran = super::send_stdin(&sandbox, &["-", "--format", "eml"], MAIL.as_bytes()).exits(0);
    counts(&ran, "sent 1, replayed 0, failed 0, unknown 0, in flight 0");
}
