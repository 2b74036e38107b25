//! Sending, and sending again.

use super::{counts, line, lines, mails, recipients, send, send_stdin};
use crate::sandbox::{Sandbox, until};
use std::{fs, process::Stdio};

#[test]
fn a_file_is_sent_once_however_often_it_is_run() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(3));
    let first = send(&sandbox, &["a.jsonl"]).exits(0);
    counts(&first, "sent 3, replayed 0, failed 0, unknown 0, in flight 0");
    assert_eq!(first.stdout, "");
    let second = send(&sandbox, &["a.jsonl"]).exits(0);
    counts(&second, "sent 0, replayed 3, failed 0, unknown 0, in flight 0");
    assert_eq!(recipients(&sandbox.path("outbox")).len(), 3);
}

#[test]
fn an_object_a_line_comes_in_the_order_of_the_input() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(700));
    let ran = send(&sandbox, &["a.jsonl", "--via", "stub:", "--json", "--concurrency", "32"]).exits(0);
    let objects = ran.lines();
    assert_eq!(objects.len(), 700);
    for (n, object) in objects.iter().enumerate() {
        assert_eq!(object["index"], n);
        assert_eq!(object["key"], format!("mail:{n}"));
        assert_eq!(object["accepted"][0], format!("user{n}@example.com"));
    }
    let fields = [
        "index",
        "key",
        "outcome",
        "replayed",
        "category",
        "code",
        "retryable",
        "delivery_unknown",
        "retry_after_ms",
        "message_id",
        "provider",
        "provider_id",
        "accepted",
        "rejected",
        "attempts",
        "response",
    ];
    let object = objects[0].as_object().unwrap();
    assert!(fields.iter().all(|field| object.contains_key(*field)), "{object:?}");
    assert_eq!(objects[0]["outcome"], "accepted");
    assert_eq!(objects[0]["attempts"], 1);
    assert_eq!(objects[0]["replayed"], false);
    let again = send(&sandbox, &["a.jsonl", "--via", "stub:", "--json"]).exits(0).lines();
    assert!(again.iter().all(|object| object["replayed"] == true));
    assert_eq!(again[5]["message_id"], objects[5]["message_id"]);
}

#[test]
fn standard_input_is_a_file_too() {
    let sandbox = Sandbox::new();
    let ran = send_stdin(&sandbox, &["-"], lines(2).as_bytes()).exits(0);
    counts(&ran, "sent 2, replayed 0, failed 0, unknown 0, in flight 0");
    let bad = send_stdin(&sandbox, &["-"], b"{}\n").exits(65);
    assert!(bad.stderr.contains("-:1: from: "), "{bad:?}");
    send(&sandbox, &["-", "-"]).exits(2).says("once only");
}

#[test]
fn files_are_sent_one_after_the_other_and_numbered_through() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(2));
    sandbox.write("b.jsonl", lines(4));
    let objects = send(&sandbox, &["a.jsonl", "b.jsonl", "--json"]).exits(0).lines();
    let places: Vec<_> = objects.iter().map(|object| object["place"].as_str().unwrap()).collect();
    assert_eq!(places, ["a.jsonl:1", "a.jsonl:2", "b.jsonl:1", "b.jsonl:2", "b.jsonl:3", "b.jsonl:4"]);
    assert_eq!(objects[5]["index"], 5);
    assert_eq!(recipients(&sandbox.path("outbox")).len(), 4);
}

#[test]
fn the_second_of_two_equal_lines_is_answered_by_the_first() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", [lines(2), lines(2), "\n\r\n".to_owned(), lines(1)].concat());
    let ran = send(&sandbox, &["a.jsonl"]).exits(0);
    counts(&ran, "sent 2, replayed 3, failed 0, unknown 0, in flight 0");
    assert_eq!(recipients(&sandbox.path("outbox")).len(), 2);
}

#[test]
fn a_key_that_another_message_was_sent_under_is_refused_and_the_rest_is_sent() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(1));
    send(&sandbox, &["a.jsonl"]).exits(0);
    sandbox.write("a.jsonl", lines(2).replace("Mail 0", "Another"));
    let ran = send(&sandbox, &["a.jsonl"])
        .exits(1)
        .says("a.jsonl:1: mail:0: not sent")
        .says("idempotency.key_reused");
    counts(&ran, "sent 1, replayed 0, failed 1, unknown 0, in flight 0");
    let objects = send(&sandbox, &["a.jsonl", "--json"]).exits(1).lines();
    assert_eq!(objects[0]["code"], "idempotency.key_reused");
    assert_eq!(objects[0]["category"], "validation");
    assert_eq!(objects[0]["retryable"], false);
}

#[test]
fn quiet_leaves_errors_alone() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(2));
    assert_eq!(send(&sandbox, &["a.jsonl", "--quiet", "--dry-run"]).exits(0).stderr, "");
    assert_eq!(send(&sandbox, &["a.jsonl", "--quiet"]).exits(0).stderr, "");
    sandbox.write("a.jsonl", lines(1).replace("Mail 0", "Another"));
    let ran = send(&sandbox, &["a.jsonl", "--quiet"]).exits(1).says("a.jsonl:1: mail:0: not sent");
    assert!(!ran.stderr.contains("replayed"), "{ran:?}");
}

#[test]
fn lines_without_a_key_are_sent_as_they_are() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", r#"{"from":"a@example.com","to":"b@example.com","subject":"x","text":"y"}"#);
    for sent in 1..=2 {
        counts(
            &send(&sandbox, &["a.jsonl"]).exits(0),
            "sent 1, replayed 0, failed 0, unknown 0, in flight 0",
        );
        assert_eq!(mails(&sandbox.path("outbox")).len(), sent);
    }
}

#[test]
fn messages_without_a_key_are_counted_and_the_way_to_one_is_named() {
    let sandbox = Sandbox::new();
    let without = r#"{"from":"a@example.com","to":"b@example.com","subject":"x","text":"y"}"#;
    sandbox.write("a.jsonl", [without, without, &lines(1)].join("\n"));
    let ran = send(&sandbox, &["a.jsonl"]).exits(0).says("2 messages have no key, and every run sends them");
    assert!(ran.stderr.contains("idempotency_key") && ran.stderr.contains("--key-template"), "{ran:?}");
    for other in [&["--quiet"][..], &["--key-template", "k:{line}"]] {
        let ran = send(&sandbox, &[&["a.jsonl"], other].concat()).exits(0);
        assert!(!ran.stderr.contains("no key"), "{ran:?}");
    }
    sandbox.write("a.jsonl", without);
    send(&sandbox, &["a.jsonl"]).exits(0).says("1 message has no key, and every run sends it: ");
}

#[test]
fn a_rehearsal_answers_for_no_other_target() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(2));
    for via in ["stub:", "file:one", "file:two"] {
        counts(
            &send(&sandbox, &["a.jsonl", "--via", via]).exits(0),
            "sent 2, replayed 0, failed 0, unknown 0, in flight 0",
        );
    }
    let one = format!("file:{}", sandbox.path("two/../one").display());
    fs::create_dir(sandbox.path("x")).unwrap();
    counts(
        &send(&sandbox, &["a.jsonl", "--via", &one]).exits(0),
        "sent 0, replayed 2, failed 0, unknown 0, in flight 0",
    );
}

#[test]
fn a_dry_run_writes_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(3));
    let dry = send(&sandbox, &["a.jsonl", "--dry-run"]).exits(0).says("would send 3");
    assert_eq!(dry.stdout.lines().count(), 3);
    assert!(dry.stdout.lines().next().unwrap().contains("shop@example.com -> user0@example.com"), "{dry:?}");
    assert!(!sandbox.path("outbox").exists());
    assert!(!sandbox.path("data").exists());

    sandbox.write("b.jsonl", lines(1));
    send(&sandbox, &["b.jsonl"]).exits(0);
    sandbox.write("a.jsonl", lines(3).replace("Mail 1", "Other"));
    let objects = send(&sandbox, &["a.jsonl", "--dry-run", "--json"]).exits(0).lines();
    let would: Vec<_> = objects.iter().map(|object| object["would"].as_str().unwrap()).collect();
    assert_eq!(would, ["replay", "send", "send"]);
    assert_eq!(objects[1]["from"], "shop@example.com");
    assert_eq!(objects[1]["to"][0], "user1@example.com");
    assert!(objects[1]["bytes"].as_u64().unwrap() > 100);
    assert_eq!(mails(&sandbox.path("outbox")).len(), 1);

    sandbox.write("a.jsonl", lines(1).replace("Mail 0", "Other"));
    let object = send(&sandbox, &["a.jsonl", "--dry-run", "--json"]).exits(0).json();
    assert_eq!(object["would"], "refuse_key_reused");
    // The size is that of the mail.
    sandbox.write("a.jsonl", lines(1));
    let object = send(&sandbox, &["a.jsonl", "--dry-run", "--json"]).exits(0).json();
    assert_eq!(object["bytes"].as_u64().unwrap(), mails(&sandbox.path("outbox"))[0].len() as u64);
}

#[test]
fn a_closed_stdout_ends_the_output_and_not_the_work() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(300));
    let mut child =
        sandbox.command(&["mail", "send", "a.jsonl", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ran = super::end(child).exits(0);
    counts(&ran, "sent 300, replayed 0, failed 0, unknown 0, in flight 0");
    assert_eq!(recipients(&sandbox.path("outbox")).len(), 300);
}

/// The most memory that a run takes, in MiB.
fn memory_of(sandbox: &Sandbox, args: &[&str]) -> u64 {
    let mut run = sandbox.command(args).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let mut most = 0;
    until("it ends", || {
        let status = fs::read_to_string(format!("/proc/{}/status", run.id())).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        most = peak.map_or(most, |peak| peak.parse().unwrap());
        run.try_wait().unwrap().is_some()
    });
    assert!(run.wait().unwrap().success());
    most / 1024
}

#[test]
fn memory_does_not_grow_with_the_file() {
    let sandbox = Sandbox::new();
    let long = std::env::var_os("HAPAX_TEST_LONG").is_some();
    let count = if long { 200_000 } else { 5_000 };
    sandbox.write("a.jsonl", lines(count));
    for _ in ["sent", "replayed"] {
        let memory = memory_of(&sandbox, &["mail", "send", "a.jsonl", "--via", "stub:", "--json"]);
        assert!((1..60).contains(&memory), "{memory} MiB");
    }
}

#[test]
fn attachments_are_read_from_the_folder_of_the_file() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("in")).unwrap();
    sandbox.write("in/terms.txt", "The terms.");
    let line = lines(1).replace(r#""text""#, r#""attachments":[{"path":"terms.txt"}],"text""#);
    sandbox.write("in/a.jsonl", line);
    send(&sandbox, &["in/a.jsonl"]).exits(0);
    let mail = &mails(&sandbox.path("outbox"))[0];
    assert!(
        mail.contains("terms.txt") && (mail.contains("The terms.") || mail.contains("VGhlIHRlcm1zLg")),
        "{mail}"
    );
}

#[test]
fn other_transports_are_named_as_missing() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(1));
    let ran = send(&sandbox, &["a.jsonl", "--via", "sqs:secret"]).exits(2);
    assert!(
        ran.stderr.contains("file:DIR") && ran.stderr.contains("stub:") && !ran.stderr.contains("secret"),
        "{ran:?}"
    );
    send(&sandbox, &["a.jsonl", "--via", "stub:", "--via", "fax:x"]).exits(2);
}

#[test]
fn no_file_is_usage_and_an_empty_one_is_fine() {
    let sandbox = Sandbox::new();
    send(&sandbox, &[]).exits(2);
    sandbox.write("a.jsonl", "\n\n");
    counts(&send(&sandbox, &["a.jsonl"]).exits(0), "sent 0, replayed 0, failed 0, unknown 0, in flight 0");
}

#[test]
fn the_rate_holds_and_replays_do_not_count() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(12));
    let begun = tokio::time::Instant::now();
    send(&sandbox, &["a.jsonl", "--via", "stub:", "--rate", "20/s"]).exits(0);
    assert!(begun.elapsed().as_millis() >= 550);
    // At one an hour, anything that was sent would never end.
    let again = send(&sandbox, &["a.jsonl", "--via", "stub:", "--rate", "1/h"]).exits(0);
    counts(&again, "sent 0, replayed 12, failed 0, unknown 0, in flight 0");
}

#[test]
fn what_killed_runs_left_in_the_folder_is_removed_after_an_hour() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", line(1));
    fs::create_dir(sandbox.path("outbox")).unwrap();
    for (name, minutes) in
        [("outbox/.hapax-0a.tmp", 61), ("outbox/.hapax-0b.tmp", 5), ("outbox/.other.tmp", 600)]
    {
        let age = std::time::Duration::from_mins(minutes);
        let file = fs::File::create(sandbox.path(name)).unwrap();
        let made = file.metadata().unwrap().modified().unwrap();
        file.set_modified(made - age).unwrap();
    }
    send(&sandbox, &["a.jsonl"]).exits(0);
    let there = [".hapax-0a.tmp", ".hapax-0b.tmp", ".other.tmp"]
        .map(|name| sandbox.path("outbox").join(name).exists());
    assert_eq!(there, [false, true, true]);
}

#[test]
fn a_rehearsal_says_what_it_did_not_try() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", line(1));
    let args = ["a.jsonl", "--dry-run"];
    send(&sandbox, &args)
        .exits(0)
        .says("would send 1")
        .says("the folder outbox is not there")
        .says("was not tried");
    assert!(!sandbox.path("outbox").exists());
    fs::create_dir(sandbox.path("outbox")).unwrap();
    let dry = send(&sandbox, &args).exits(0);
    assert!(!dry.stderr.contains("was not tried"), "{dry:?}");
}
