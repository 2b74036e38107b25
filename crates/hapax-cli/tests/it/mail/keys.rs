//! Keys from a template, and keys whose outcome somebody found out.
#![expect(clippy::indexing_slicing, reason = "tests")]

use super::{counts, line, lines, send};
use crate::sandbox::Sandbox;
use hapax::mail::{MailCategory, Mailer, Message, Receipt, Stub};

#[test]
fn a_key_template_gives_keys_to_lines_that_have_none() {
    let sandbox = Sandbox::new();
    let without = r#"{"from":"s@example.com","to":["Ada <ada@EXAMPLE.com>","b@example.com"],"subject":"S","text":"x","metadata":{"run":"7"}}"#;
    sandbox.write("a.jsonl", [without, &line(1)].join("\n"));
    let key = |template: &str| {
        let objects = send(&sandbox, &["a.jsonl", "--via", "stub:", "--json", "--key-template", template])
            .exits(0)
            .lines();
        assert_eq!(objects[1]["key"], "mail:1");
        objects[0]["key"].as_str().unwrap().to_owned()
    };
    assert_eq!(key("w:{to}"), "w:ada@example.com,b@example.com");
    assert_eq!(key("{metadata.run}/{line}/{from}/{subject}"), "7/1/s@example.com/S");
    assert_eq!(key("{{{file}}}"), "{a.jsonl}");
    let twice = send(&sandbox, &["a.jsonl", "--via", "stub:", "--key-template", "w:{to}"]).exits(0);
    counts(&twice, "sent 0, replayed 2, failed 0, unknown 0, in flight 0");
}

#[test]
fn equal_messages_under_different_keys_are_noticed() {
    let sandbox = Sandbox::new();
    let again = lines(3).replace("\"mail:", "\"again:");
    sandbox.write("a.jsonl", [lines(4), again].concat());
    let ran = send(&sandbox, &["a.jsonl", "--via", "stub:"])
        .exits(0)
        .says("3 messages are equal to an earlier one");
    counts(&ran, "sent 7, replayed 0, failed 0, unknown 0, in flight 0");
    // Under the same key they are copies, which nobody has to be told of.
    sandbox.write("a.jsonl", [lines(4), lines(3)].concat());
    assert!(!send(&sandbox, &["a.jsonl", "--via", "stub:"]).exits(0).stderr.contains("equal"));
}

#[test]
fn one_key_for_two_messages_is_found_before_anything_is_sent() {
    let sandbox = Sandbox::new();
    let another = line(0).replace("Mail 0", "Another");
    sandbox.write("a.jsonl", [lines(1500).as_str(), &another].concat());
    sandbox.write("b.jsonl", &another);
    let both = "idempotency_key: it is the key of a.jsonl:1, which is another message";
    send(&sandbox, &["a.jsonl"]).exits(65).says(&format!("a.jsonl:1501: {both}"));
    let ran = send(&sandbox, &["a.jsonl", "b.jsonl", "--json"]).exits(65).says(&format!("b.jsonl:1: {both}"));
    let objects = ran.lines();
    assert_eq!(objects.len(), 3, "{ran:?}");
    assert_eq!((&objects[0]["index"], &objects[0]["code"]), (&1500.into(), &"idempotency.key_reused".into()));
    assert!(!sandbox.path("outbox").exists());

    sandbox.write("a.jsonl", [line(0).as_str(), &another, &line(1)].join("\n"));
    let ran = send(&sandbox, &["a.jsonl", "--skip-invalid", "--json"]).exits(1);
    counts(&ran, "sent 2, replayed 0, failed 1, unknown 0, in flight 0");
    let object = &ran.lines()[1];
    assert_eq!((&object["code"], &object["key"]), (&"idempotency.key_reused".into(), &"mail:0".into()));
    assert_eq!((&object["category"], &object["retryable"]), (&"validation".into(), &false.into()));
}

#[test]
fn one_key_for_a_message_and_its_copies_is_fine() {
    let sandbox = Sandbox::new();
    sandbox.write("terms.txt", "The terms.");
    // The same message, however it is written down, and wherever its files are.
    let copy = r#"{"subject":"Mail 0","idempotency_key":"mail:0","text":"Hello 0.","to":["user0@example.com"],"from":"Shop <shop@EXAMPLE.com>"}"#;
    let with = |path: &str| {
        let files = format!(r#""attachments":[{{"path":"{path}","filename":"terms.txt"}}],"text""#);
        line(1).replace(r#""text""#, &files)
    };
    sandbox.write("copy.txt", "The terms.");
    let all = [line(0).as_str(), copy, &with("terms.txt"), &with("copy.txt")].join("\n");
    sandbox.write("a.jsonl", &all);
    let ran = send(&sandbox, &["a.jsonl"]).exits(0);
    counts(&ran, "sent 2, replayed 2, failed 0, unknown 0, in flight 0");
    // The bytes of files are no part of it, as when it is sent.
    sandbox.write("copy.txt", "Other terms.");
    counts(&send(&sandbox, &["a.jsonl"]).exits(0), "sent 0, replayed 4, failed 0, unknown 0, in flight 0");
}

#[test]
fn one_key_for_two_mails_that_are_bytes_is_found_too() {
    let sandbox = Sandbox::new();
    for (name, to, text) in [("a.eml", "a", "one"), ("b.eml", "a", "two"), ("c.eml", "c", "one")] {
        let mail = format!("From: s@example.com\r\nTo: {to}@example.com\r\nSubject: S\r\n\r\n{text}\r\n");
        sandbox.write(name, mail);
    }
    let key = ["--key-template", "of:{subject}"];
    // Whom they go to is what counts of such a mail, as when it is sent.
    let ran = send(&sandbox, &[&["a.eml", "b.eml"], &key[..]].concat()).exits(0);
    counts(&ran, "sent 1, replayed 1, failed 0, unknown 0, in flight 0");
    send(&sandbox, &[&["a.eml", "b.eml", "c.eml"], &key[..]].concat())
        .exits(65)
        .says("c.eml: idempotency_key: it is the key of a.eml, which is another message");
}

#[test]
fn a_refusal_that_was_kept_is_answered_again_and_counts_as_failed() {
    let sandbox = Sandbox::new();
    let scope = rehearsal(&sandbox);
    left(&sandbox, &scope, &[Receipt::failed(MailCategory::Rejected, "smtp.rejected")], true);
    sandbox.write("a.jsonl", lines(2));
    for keep in [&["--keep-rejected"][..], &[]] {
        let args = [&["a.jsonl", "--via", "stub:"], keep].concat();
        let ran = send(&sandbox, &args).exits(1).says("a.jsonl:1: mail:0: not sent").says("smtp.rejected");
        assert!(ran.stderr.ends_with("failed 1, unknown 0, in flight 0\n"), "{ran:?}");
        let object = &send(&sandbox, &[&args[..], &["--json"]].concat()).exits(1).lines()[0];
        assert_eq!((&object["outcome"], &object["replayed"]), (&"failed".into(), &true.into()));
        assert_eq!((&object["retryable"], &object["delivery_unknown"]), (&false.into(), &false.into()));
    }
    assert_eq!(
        sandbox.hapax(&["keys", "get", "mail:0", "--scope", &scope, "--json"]).json()["state"],
        "done"
    );
    // Without having been kept, the key was free.
    let other = Sandbox::new();
    let scope = rehearsal(&other);
    left(&other, &scope, &[Receipt::failed(MailCategory::Rejected, "smtp.rejected")], false);
    other.write("a.jsonl", lines(2));
    counts(
        &send(&other, &["a.jsonl", "--via", "stub:", "--keep-rejected"]).exits(0),
        "sent 2, replayed 0, failed 0, unknown 0, in flight 0",
    );
}

#[test]
fn mistakes_in_a_key_template_are_usage_and_what_a_line_lacks_is_its_fault() {
    let sandbox = Sandbox::new();
    let without = r#"{"from":"s@example.com","to":"b@example.com","text":"x"}"#;
    sandbox.write("a.jsonl", without);
    send(&sandbox, &["a.jsonl", "--key-template", "w:{too}"]).exits(2).says("did you mean `{to}`?");
    send(&sandbox, &["a.jsonl", "--key-template", "same"]).exits(2).says("no place holder");
    let ran = send(&sandbox, &["a.jsonl", "--key-template", "w:{subject}"]).exits(65);
    assert!(ran.stderr.contains("a.jsonl:1: idempotency_key: "), "{ran:?}");
    assert!(!sandbox.path("outbox").exists());
}

/// Leaves the keys of these lines with an unknown outcome in `scope`.
fn unknown(sandbox: &Sandbox, scope: &str, count: usize) {
    left(sandbox, scope, &vec![Receipt::unknown("smtp.reply_lost"); count], false);
}

/// Leaves the keys of the first lines in `scope` as a run does that gets these receipts.
fn left(sandbox: &Sandbox, scope: &str, receipts: &[Receipt], keep_rejected: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        std::fs::create_dir_all(sandbox.database().parent().unwrap()).unwrap();
        let hapax = hapax::connect(format!("sqlite:{}", sandbox.database().display())).await.unwrap();
        let stub = Stub::new();
        let mailer = Mailer::via(stub.clone()).idempotent(&hapax.idempotency("x")).scope(scope);
        let mailer = mailer.keep_rejected(keep_rejected).build().unwrap();
        for (n, receipt) in receipts.iter().enumerate() {
            stub.then(receipt.clone());
            let message =
                Message::from_json_line(&line(n)).unwrap().load(std::path::Path::new(""), None).unwrap();
            assert_eq!(mailer.send(&message).await.code(), receipt.code());
        }
        assert!(hapax.close().await.is_clean());
    });
}

/// The scope of the keys that went via `stub:`.
fn rehearsal(sandbox: &Sandbox) -> String {
    sandbox.write("first.jsonl", line(9));
    send(sandbox, &["first.jsonl", "--via", "stub:"]).exits(0);
    let listed = sandbox.hapax(&["keys", "list", "--all-scopes", "--json"]).exits(0).lines();
    listed[0]["scope"].as_str().unwrap().to_owned()
}

#[test]
fn a_mail_that_may_have_gone_is_not_sent_again_until_somebody_says_so() {
    let sandbox = Sandbox::new();
    let scope = rehearsal(&sandbox);
    unknown(&sandbox, &scope, 2);
    sandbox.write("a.jsonl", lines(3));
    let ran = send(&sandbox, &["a.jsonl", "--via", "stub:"])
        .exits(76)
        .says("it may have been sent")
        .says("smtp.reply_lost");
    counts(&ran, "sent 1, replayed 0, failed 0, unknown 2, in flight 0");
    let object = &send(&sandbox, &["a.jsonl", "--via", "stub:", "--json"]).exits(76).lines()[0];
    assert_eq!(object["outcome"], "failed");
    assert_eq!(object["delivery_unknown"], true);
    assert_eq!(object["replayed"], true);
    assert_eq!(object["retryable"], false);

    sandbox.hapax(&["mail", "resolve", "mail:0", "--as", "done", "--via", "stub:"]).exits(0);
    sandbox.hapax(&["mail", "resolve", "mail:1", "--as", "failed", "--via", "stub:"]).exits(0);
    let ran = send(&sandbox, &["a.jsonl", "--via", "stub:"]).exits(0);
    counts(&ran, "sent 1, replayed 2, failed 0, unknown 0, in flight 0");
}

#[test]
fn several_keys_are_settled_each_by_itself() {
    let sandbox = Sandbox::new();
    unknown(&sandbox, "mail", 3);
    let receipt = r#"{"provider_id":"q1","accepted":["user0@example.com"]}"#;
    let args =
        ["mail", "resolve", "mail:0", "mail:9", "mail:2", "--as", "done", "--receipt", receipt, "--json"];
    let ran = sandbox.hapax(&args).exits(65);
    let objects = ran.lines();
    assert_eq!(objects[0]["state"], "done");
    assert_eq!(objects[0]["receipt"]["provider_id"], "q1");
    assert_eq!(objects[1]["key"], "mail:2");
    assert_eq!(objects[2]["error"]["code"], "idempotency.changed");
    let now = |key: &str| {
        sandbox.hapax(&["keys", "get", key, "--scope", "mail", "--json"]).exits(0).json()["state"].clone()
    };
    assert_eq!(
        (now("mail:0"), now("mail:1"), now("mail:2")),
        ("done".into(), "unknown".into(), "done".into())
    );
}

#[test]
fn a_verdict_for_another_version_writes_nothing() {
    let sandbox = Sandbox::new();
    unknown(&sandbox, "mail", 1);
    let shown = sandbox.hapax(&["keys", "get", "mail:0", "--scope", "mail", "--json"]).exits(0).json();
    let version = shown["version"].as_str().unwrap();
    let other = version.chars().rev().collect::<String>();
    let resolve =
        |version: &str| sandbox.hapax(&["mail", "resolve", "mail:0", "--as", "failed", "--version", version]);
    resolve(&other).exits(65);
    resolve(version).exits(0);
    resolve(version).exits(65);
    sandbox.hapax(&["mail", "resolve", "mail:0", "--as", "failed", "--receipt", "{}"]).exits(2);
    sandbox.hapax(&["mail", "resolve", "mail:0", "--as", "done", "--receipt", "{\"x\":1}"]).exits(65);
    sandbox.hapax(&["mail", "resolve", "--as", "done"]).exits(2);
}

#[test]
fn a_key_that_is_vacant_in_the_scope_is_said_to_be_looked_for_elsewhere() {
    let sandbox = Sandbox::new();
    let scope = rehearsal(&sandbox);
    unknown(&sandbox, &scope, 1);
    let resolve = ["mail", "resolve", "mail:0", "--as", "failed"];
    sandbox
        .hapax(&resolve)
        .exits(65)
        .says("nothing unknown is under mail:0 in scope mail: nothing was written")
        .says("name the --via that it was sent with");
    sandbox.hapax(&[&resolve[..], &["--via", "stub:"]].concat()).exits(0);
}
