//! Disks that are full, folders and stores that cannot be written.

use super::{counts, line, lines, mails, send};
use crate::sandbox::{Ran, Sandbox};
use std::fs;

/// Runs `hapax mail send ARGS` where no file may have more than so many blocks of 512 bytes.
fn send_within(sandbox: &Sandbox, blocks: u32, args: &[&str]) -> Ran {
    sandbox.within(&format!("ulimit -f {blocks}"), &[&["mail", "send"], args].concat())
}

fn large(n: usize) -> String {
    line(n).replace(&format!("Hello {n}."), &"A long text. ".repeat(200_000))
}

#[test]
fn a_mail_for_which_there_is_no_room_fails_and_is_sent_when_there_is() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", format!("{}\n{}\n{}\n", line(0), large(1), line(2)));
    let ran = send_within(&sandbox, 4096, &["a.jsonl", "--attempts", "1"])
        .exits(1)
        .says("a.jsonl:2: mail:1: not sent")
        .says("(file.");
    counts(&ran, "sent 2, replayed 0, failed 1, unknown 0, in flight 0");
    assert_eq!(mails(&sandbox.path("outbox")).len(), 2);
    let object = &send_within(&sandbox, 4096, &["a.jsonl", "--attempts", "1", "--json"]).exits(1).lines()[1];
    assert_eq!(object["retryable"], true);
    assert_eq!(object["delivery_unknown"], false);
    counts(&send(&sandbox, &["a.jsonl"]).exits(0), "sent 1, replayed 2, failed 0, unknown 0, in flight 0");
    assert_eq!(mails(&sandbox.path("outbox")).len(), 3);
}

#[test]
fn when_everything_fails_the_rest_is_left_for_the_next_run() {
    let sandbox = Sandbox::new();
    // All of them larger than the limit, which the store stays below.
    let all: String =
        (0..180).map(|n| line(n).replace(&format!("Hello {n}."), &"x".repeat(420_000)) + "\n").collect();
    sandbox.write("a.jsonl", all);
    let ran = send_within(&sandbox, 800, &["a.jsonl", "--attempts", "1"])
        .exits(1)
        .says("100 messages in a row failed")
        .says("and");
    let failed: u32 = ran.stderr.lines().last().unwrap().split(", ").nth(2).unwrap()[7..].parse().unwrap();
    assert!((100..180).contains(&failed), "{failed}");
    assert!(mails(&sandbox.path("outbox")).is_empty());
    sandbox.write("a.jsonl", lines(3));
    counts(
        &send(&sandbox, &["a.jsonl", "--wait", "0s"]).exits(0),
        "sent 3, replayed 0, failed 0, unknown 0, in flight 0",
    );
}

#[test]
fn a_store_without_room_is_reported_and_nothing_is_sent() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(2));
    let ran = send_within(&sandbox, 8, &["a.jsonl"]).exits(69);
    assert!(mails(&sandbox.path("outbox")).is_empty(), "{ran:?}");
}

#[test]
fn a_store_that_cannot_be_opened_is_reported_and_nothing_is_sent() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(2));
    sandbox.write("file", "");
    fs::create_dir(sandbox.path("folder")).unwrap();
    sandbox.write(
        "corrupt.db",
        "This is no database, but long enough to be looked at as if it were one. ".repeat(100),
    );
    for store in ["sqlite:file/x.db", "sqlite:folder", "sqlite:corrupt.db"] {
        let ran = send(&sandbox, &["a.jsonl", "--store", store]).exits(69);
        assert!(!sandbox.path("outbox").exists(), "{store}: {ran:?}");
    }
    send(&sandbox, &["a.jsonl", "--store", "memory:"]).exits(2).says("ends with this process");
}

#[test]
fn a_folder_that_is_none_fails_every_message_and_keeps_no_key() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(2));
    sandbox.write("outbox", "");
    let ran = send(&sandbox, &["a.jsonl"]).exits(1).says("file.not_a_folder");
    counts(&ran, "sent 0, replayed 0, failed 2, unknown 0, in flight 0");
    // What to do about it is said once.
    assert_eq!(ran.stderr.matches("help: ").count(), 1, "{ran:?}");
    fs::remove_file(sandbox.path("outbox")).unwrap();
    counts(&send(&sandbox, &["a.jsonl"]).exits(0), "sent 2, replayed 0, failed 0, unknown 0, in flight 0");
}

#[test]
fn a_store_that_does_not_answer_fails_each_message_and_sends_none() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(3));
    sandbox.write("one.jsonl", line(9));
    send(&sandbox, &["one.jsonl", "--via", "file:other"]).exits(0);
    let lock = rusqlite::Connection::open(sandbox.database()).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let store = format!("sqlite:{}?timeout=200ms", sandbox.database().display());
    let ran = send(&sandbox, &["a.jsonl", "--store", &store]).exits(1).says("idempotency.store_failed");
    counts(&ran, "sent 0, replayed 0, failed 3, unknown 0, in flight 0");
    assert!(mails(&sandbox.path("outbox")).is_empty());
    lock.execute_batch("ROLLBACK").unwrap();
    let ran = send(&sandbox, &["a.jsonl", "--store", &store]).exits(0);
    counts(&ran, "sent 3, replayed 0, failed 0, unknown 0, in flight 0");
}
