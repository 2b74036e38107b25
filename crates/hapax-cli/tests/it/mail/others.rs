//! Signals, and runs beside each other.

use super::{counts, end, lines, mails, recipients, send};
use crate::sandbox::{Sandbox, until};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Stdio},
    time::Duration,
};
use tokio::time::Instant;

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// The number after a word in the last line.
fn count(text: &str, word: &str) -> usize {
    let last = text.lines().last().unwrap();
    let part = last.split(", ").find_map(|part| part.strip_prefix(word)).unwrap();
    part.trim().parse().unwrap()
}

#[test]
fn a_signal_ends_the_run_in_order_and_the_next_one_sends_the_rest_at_once() {
    for (which, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let sandbox = Sandbox::new();
        sandbox.write("a.jsonl", lines(300));
        let run = sandbox
            .command(&["mail", "send", "a.jsonl", "--rate", "20/s", "--lease", "10m"])
            .spawn()
            .unwrap();
        until("some are sent", || mails(&sandbox.path("outbox")).len() > 2);
        signal(&run, which);
        let ran = end(run).exits(code);
        let sent = count(&ran.stderr, "sent");
        assert_eq!(mails(&sandbox.path("outbox")).len(), sent, "{ran:?}");
        assert!(sent < 300, "{ran:?}");
        // The keys that were reserved ahead were given back.
        let rest = send(&sandbox, &["a.jsonl", "--wait", "0s"]).exits(0);
        counts(&rest, &format!("sent {}, replayed {sent}, failed 0, unknown 0, in flight 0", 300 - sent));
    }
}

#[test]
fn a_further_signal_ends_the_wait_for_what_does_not_end() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(300));
    sandbox.write("one.jsonl", super::line(400));
    send(&sandbox, &["one.jsonl", "--via", "stub:"]).exits(0);
    let store = format!("sqlite:{}?timeout=5m", sandbox.database().display());
    let args = ["mail", "send", "a.jsonl", "--rate", "20/s", "--lease", "10m", "--store", &store];
    let mut run = sandbox.command(&args).spawn().unwrap();
    until("some are sent", || mails(&sandbox.path("outbox")).len() > 2);
    // From here on no receipt is stored, and no key is given back.
    let lock = rusqlite::Connection::open(sandbox.database()).unwrap();
    lock.busy_timeout(Duration::from_secs(10)).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let begun = Instant::now();
    until("it ends", || {
        signal(&run, Signal::TERM);
        run.try_wait().unwrap().is_some()
    });
    // The first alone would wait for 10 s, and then for the receipts.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let ran = end(run).exits(143);
    assert!(ran.stderr.ends_with("unknown 0, in flight 0\n"), "{ran:?}");
    lock.execute_batch("ROLLBACK").unwrap();
    // What it held is held until its lease has passed.
    assert!(count(&send(&sandbox, &["a.jsonl", "--wait", "0s"]).exits(75).stderr, "in flight") > 0);
    let sent = recipients(&sandbox.path("outbox")).len();
    assert!(sent < 300, "{sent}");
}

#[test]
fn a_signal_while_standard_input_is_read_ends_it_before_anything_is_sent() {
    let sandbox = Sandbox::new();
    let mut child = sandbox.command(&["mail", "send", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    // Held open, so it never comes to an end.
    let _stdin = child.stdin.take();
    until("it listens to signals", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        u64::from_str_radix(caught, 16).unwrap() & (1 << (Signal::INT.as_raw() - 1)) != 0
    });
    signal(&child, Signal::INT);
    end(child).exits(130).says("stopped before anything was sent");
    assert!(!sandbox.path("outbox").exists());
}

/// A run that has sent a little, reserved more, and was killed.
fn killed(sandbox: &Sandbox, lease: &str) -> usize {
    let args = ["mail", "send", "a.jsonl", "--json", "--rate", "5/s", "--lease", lease];
    let mut run = sandbox.command(&args).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(run.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("accepted"), "{line}");
    run.kill().unwrap();
    run.wait().unwrap();
    mails(&sandbox.path("outbox")).len()
}

#[test]
fn what_a_dead_run_holds_is_in_flight_until_its_lease_has_passed() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(10));
    killed(&sandbox, "1h");
    let ran = send(&sandbox, &["a.jsonl", "--wait", "0s", "--json"]).exits(75);
    let held = count(&ran.stderr, "in flight");
    assert!((1..10).contains(&held), "{ran:?}");
    assert_eq!(count(&ran.stderr, "unknown"), 0);
    let objects = ran.lines();
    assert_eq!(objects.len(), 10);
    // At the end, in their order, with the time there is to wait.
    let late = &objects[10 - held..];
    assert!(late.iter().all(|object| object["code"] == "idempotency.in_flight"), "{late:?}");
    assert!(late.iter().all(|object| object["delivery_unknown"] == true && object["outcome"] == "failed"));
    assert!(late[0]["retry_after_ms"].as_u64().unwrap() > 3_000_000);
    assert!(late.is_sorted_by_key(|object| object["index"].as_u64().unwrap()));
    // Waiting has an end.
    send(&sandbox, &["a.jsonl", "--wait", "100ms"]).exits(75).says("another run is sending it");
}

#[test]
fn what_a_dead_run_holds_is_waited_for_and_sent() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(10));
    killed(&sandbox, "1s");
    let ran = send(&sandbox, &["a.jsonl", "--lease", "1s", "--wait", "50s", "--json"]).exits(0);
    assert_eq!(ran.lines().len(), 10);
    assert_eq!(recipients(&sandbox.path("outbox")).len(), 10);
}

#[test]
fn two_runs_at_a_time_send_each_message_once() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(400));
    let run =
        || sandbox.command(&["mail", "send", "a.jsonl", "--wait", "50s", "--lease", "5s"]).spawn().unwrap();
    let (one, two) = (run(), run());
    let (one, two) = (end(one).exits(0), end(two).exits(0));
    let sent = count(&one.stderr, "sent") + count(&two.stderr, "sent");
    assert_eq!(sent, 400, "{one:?} {two:?}");
    assert_eq!(recipients(&sandbox.path("outbox")).len(), 400);
}

#[test]
fn an_attachment_that_changes_after_the_check_fails_alone() {
    let sandbox = Sandbox::new();
    sandbox.write("terms.txt", "The terms.");
    let last = super::line(1200).replace(r#""text""#, r#""attachments":[{"path":"terms.txt"}],"text""#);
    sandbox.write("a.jsonl", [lines(1200), last].concat());
    let mut run = sandbox.command(&["mail", "send", "a.jsonl", "--concurrency", "1"]).spawn().unwrap();
    until("the first is sent", || !mails(&sandbox.path("outbox")).is_empty());
    sandbox.write("terms.txt", "Other terms.");
    let mut stderr = String::new();
    run.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(1), "{stderr}");
    assert!(stderr.contains("a.jsonl:1201: mail:1200: not sent"), "{stderr}");
    assert!(stderr.contains("message.changed"), "{stderr}");
    assert!(stderr.ends_with("sent 1200, replayed 0, failed 1, unknown 0, in flight 0\n"), "{stderr}");
    // Once nobody writes to it, it is sent.
    counts(&send(&sandbox, &["a.jsonl"]).exits(0), "sent 1, replayed 1200, failed 0, unknown 0, in flight 0");
}
