//! `once`, row by row of its table: what becomes of the key, what the first call exits with, what later calls do.

use crate::sandbox::{Ran, Sandbox, until};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use std::fs;

/// Appends a line to the file `ran` and goes on with the rest.
fn counted(rest: &str) -> String {
    format!("echo x >> ran; {rest}")
}

fn runs(sandbox: &Sandbox) -> usize {
    sandbox.read("ran").lines().count()
}

#[test]
fn what_cannot_be_found_frees_the_key() {
    let sandbox = Sandbox::new();
    sandbox
        .hapax(&["once", "k", "--", "no-such-command"])
        .exits(127)
        .says("no-such-command: command not found");
    assert_eq!(sandbox.state("k"), "vacant");
    sandbox.hapax(&["once", "k", "--", "/bin/sh", "-c", "exit 0"]).exits(0);
}

#[test]
fn what_cannot_be_executed_frees_the_key() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("plain", "#!/bin/sh\n");
    sandbox.hapax(&["once", "k", "--", file.to_str().unwrap()]).exits(126).says("ermission denied");
    sandbox.hapax(&["once", "k", "--", "/"]).exits(126).says("is a directory");
    assert_eq!(sandbox.state("k"), "vacant");
}

#[test]
fn success_is_replayed() {
    let sandbox = Sandbox::new();
    let script = counted("echo out; echo err >&2");
    let first = sandbox.sh(&["once", "k"], &script).exits(0);
    assert_eq!((first.stdout.as_str(), first.stderr.as_str()), ("out\n", "err\n"));
    assert_eq!(sandbox.state("k"), "done");
    let second = sandbox.sh(&["once", "k"], &script).exits(0);
    assert_eq!(second.stdout, "out\n");
    let note = second.stderr.strip_prefix("err\nhapax: k ran at ").unwrap();
    assert!(note.ends_with("Z, replayed\n"), "{note}");
    let quiet = sandbox.sh(&["once", "-q", "k"], &script).exits(0);
    assert_eq!(quiet.stderr, "err\n");
    assert_eq!(runs(&sandbox), 1);
}

#[test]
fn success_after_a_signal_was_passed_on_is_done() {
    let sandbox = Sandbox::new();
    let script = "trap 'exit 0' TERM; echo x > begun; while :; do sleep 0.05; done";
    let first = sandbox.begin(&["once", "k"], script);
    first.signal(Signal::TERM);
    first.end().exits(0);
    assert_eq!(sandbox.state("k"), "done");
    sandbox.sh(&["once", "k"], script).exits(0).says("replayed");
}

#[test]
fn codes_for_unknown_keep_the_key() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "k"], &counted("exit 76")).exits(76).says("idempotency.unknown");
    assert_eq!(sandbox.state("k"), "unknown");
    sandbox.sh(&["once", "k"], &counted("exit 76")).exits(76).says("hapax keys resolve k --as done (or");
    let elsewhere = ["once", "it's", "--namespace", "a b", "--store", "sqlite:b.db", "--fingerprint", "none"];
    sandbox.sh(&elsewhere, "exit 76").exits(76);
    let settle = r"hapax keys resolve 'it'\''s' --as done --store sqlite:b.db --namespace 'a b' (or";
    sandbox.sh(&elsewhere, "exit 76").exits(76).says(settle);
    let flags = ["once", "other", "--unknown-exit", "5,6", "--unknown-exit", "7"];
    sandbox.sh(&flags, &counted("exit 7")).exits(7);
    sandbox.sh(&flags, &counted("exit 7")).exits(76);
    assert_eq!(runs(&sandbox), 2);
    // With other codes for it, 76 is a code like any other.
    sandbox.sh(&["once", "third", "--unknown-exit", "5"], "exit 76").exits(76);
    assert_eq!(sandbox.state("third"), "vacant");
}

#[test]
fn failure_frees_the_key() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "k"], &counted("exit 3")).exits(3);
    assert_eq!(sandbox.state("k"), "vacant");
    sandbox.sh(&["once", "k"], &counted("exit 3")).exits(3);
    assert_eq!(runs(&sandbox), 2);
}

#[test]
fn failure_is_replayed_on_request() {
    let sandbox = Sandbox::new();
    let script = counted("echo out; exit 3");
    sandbox.sh(&["once", "k", "--keep-failures"], &script).exits(3);
    assert_eq!(sandbox.state("k"), "done");
    let second = sandbox.sh(&["once", "k"], &script).exits(3).says("replayed");
    assert_eq!((second.stdout.as_str(), runs(&sandbox)), ("out\n", 1));
}

#[test]
fn another_end_after_a_signal_was_passed_on_is_unknown() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let sandbox = Sandbox::new();
        let script = counted("trap 'exit 3' TERM INT HUP; echo x > begun; while :; do sleep 0.05; done");
        let first = sandbox.begin(&["once", "k", "--keep-failures"], &script);
        first.signal(signal);
        first.end().exits(code).says("idempotency.unknown");
        assert_eq!(sandbox.state("k"), "unknown");
        sandbox.sh(&["once", "k"], &script).exits(76);
        assert_eq!(runs(&sandbox), 1);
    }
}

#[test]
fn death_by_a_signal_is_unknown() {
    let sandbox = Sandbox::new();
    let script = counted("kill -KILL $$");
    sandbox.sh(&["once", "k"], &script).exits(137).says("SIGKILL");
    sandbox.sh(&["once", "k"], &script).exits(76).says("SIGKILL");
    assert_eq!((sandbox.state("k").as_str(), runs(&sandbox)), ("unknown", 1));
}

#[test]
fn what_the_timeout_ends_is_unknown() {
    let sandbox = Sandbox::new();
    let script = counted("sleep 60");
    sandbox.sh(&["once", "k", "--timeout", "300ms"], &script).exits(124).says("idempotency.timed_out");
    sandbox.sh(&["once", "k"], &script).exits(76).says("--timeout");
    // Also when it answers with success.
    let script = counted("trap 'exit 0' TERM; while :; do sleep 0.05; done");
    sandbox.sh(&["once", "other", "--timeout", "300ms"], &script).exits(124);
    assert_eq!((sandbox.state("other").as_str(), runs(&sandbox)), ("unknown", 2));
}

#[test]
fn what_a_lost_lease_ends_is_unknown() {
    let sandbox = Sandbox::new();
    let script = counted("echo x > begun; sleep 60");
    let first = sandbox.begin(&["once", "k", "--lease", "1s"], &script);
    sandbox.hapax(&["keys", "release", "k", "--force"]).exits(0);
    first.end().exits(79).says("idempotency.lease_lost");
    assert_eq!(sandbox.state("k"), "unknown");
    sandbox.sh(&["once", "k"], &script).exits(76).says("lease");
    assert_eq!(runs(&sandbox), 1);
}

#[test]
fn what_a_lost_lease_ends_leaves_the_key_to_a_new_owner() {
    let sandbox = Sandbox::new();
    let first =
        sandbox.begin(&["once", "k", "--lease", "1s", "--fingerprint", "none"], "echo x > begun; sleep 60");
    sandbox.hapax(&["keys", "release", "k", "--force"]).exits(0);
    let script = "echo x > begun; while [ ! -e go ]; do sleep 0.02; done; echo new";
    let second = sandbox.begin(&["once", "k", "--fingerprint", "none"], script);
    let first = first.end().exits(79).says("another call has the key now").says("should the other call fail");
    assert!(!first.stderr.contains("is unknown"), "{first:?}");
    assert_eq!(sandbox.state("k"), "pending");
    sandbox.write("go", "");
    second.end().exits(0);
    let third = sandbox.sh(&["once", "k", "--fingerprint", "none"], "echo third").exits(0);
    assert_eq!(third.stdout, "new\n");
}

#[test]
fn what_a_lost_store_cannot_keep_is_not_said_to_be_kept() {
    let sandbox = Sandbox::new();
    let script = counted("echo x > begun; sleep 60");
    let first = sandbox.begin(&["once", "k", "--lease", "1s"], &script);
    let lock = rusqlite::Connection::open(sandbox.database()).unwrap();
    lock.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let first = first.end().exits(79).says("the store has not confirmed").says("hapax keys get k");
    assert!(first.stderr.contains("the next call runs it once its lease is over"), "{first:?}");
    lock.execute_batch("ROLLBACK").unwrap();
    until("the lease is over", || sandbox.state("k") != "pending");
    assert_eq!(sandbox.state("k"), "vacant");
}

#[test]
fn a_receipt_that_the_store_refuses_leaves_the_key_in_flight() {
    let sandbox = Sandbox::new();
    let script = counted("echo x > begun; while [ ! -e go ]; do sleep 0.02; done; echo out");
    let first = sandbox.begin(&["once", "k", "--lease", "3s"], &script);
    let lock = rusqlite::Connection::open(sandbox.database()).unwrap();
    lock.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    sandbox.write("go", "");
    let first = first.end().exits(0).says("idempotency.complete_failed");
    assert_eq!(first.stdout, "out\n");
    lock.execute_batch("ROLLBACK").unwrap();
    // Once the lease is over, it runs again.
    sandbox.sh(&["once", "k", "--wait", "30s"], &script).exits(0);
    assert_eq!(runs(&sandbox), 2);
}

#[test]
fn a_signal_ends_the_wait_for_a_store_that_refuses_the_receipt() {
    let sandbox = Sandbox::new();
    let script = counted("echo $$ > begun; while [ ! -e go ]; do sleep 0.02; done");
    let first = sandbox.begin(&["once", "k", "--lease", "20s"], &script);
    let lock = rusqlite::Connection::open(sandbox.database()).unwrap();
    lock.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut command = None;
    until("the command has said its number", || {
        command = sandbox.read("begun").trim().parse().ok().and_then(Pid::from_raw);
        command.is_some()
    });
    let command = command.unwrap();
    sandbox.write("go", "");
    until("the command is gone", || test_kill_process(command).is_err());
    first.signal(Signal::TERM);
    first.end().exits(0).says("idempotency.complete_failed");
    lock.execute_batch("ROLLBACK").unwrap();
    // Its lease is renewed: to wait for what is left of it would not do.
    sandbox
        .sh(&["once", "k"], &script)
        .exits(75)
        .says("it ends when the command of that call does")
        .says("--wait 10m");
    assert_eq!((sandbox.state("k").as_str(), runs(&sandbox)), ("pending", 1));
}

#[test]
fn a_call_in_flight_is_answered_at_once_or_waited_for() {
    let sandbox = Sandbox::new();
    let script = counted("echo x > begun; while [ ! -e go ]; do sleep 0.02; done; echo out");
    let first = sandbox.begin(&["once", "k"], &script);
    let busy = sandbox.sh(&["once", "k", "--json"], &script).exits(75).json();
    assert_eq!((&busy["outcome"], &busy["code"]), (&json!("in_flight"), &json!("idempotency.in_flight")));
    let rest = busy["retry_after_ms"].as_u64().unwrap();
    assert!((1..=60_000).contains(&rest), "{rest}");
    sandbox.sh(&["once", "k", "--wait", "200ms"], &script).exits(75);
    let waiter = sandbox.sh_command(&["once", "k", "--wait", "50s"], &script).spawn().unwrap();
    sandbox.write("go", "");
    let waited = Ran::of(waiter.wait_with_output().unwrap()).exits(0).says("replayed");
    first.end().exits(0);
    assert_eq!((waited.stdout.as_str(), runs(&sandbox)), ("out\n", 1));
}

#[test]
fn a_waiter_runs_when_the_call_in_flight_fails() {
    let sandbox = Sandbox::new();
    let first = sandbox.begin(
        &["once", "k", "--fingerprint", "x"],
        "echo x > begun; while [ ! -e go ]; do sleep 0.02; done; exit 3",
    );
    let waiter = sandbox
        .sh_command(&["once", "k", "--fingerprint", "x", "--wait", "50s"], "echo second")
        .spawn()
        .unwrap();
    sandbox.write("go", "");
    first.end().exits(3);
    let waited = Ran::of(waiter.wait_with_output().unwrap()).exits(0);
    assert_eq!(waited.stdout, "second\n");
}

#[test]
fn a_waiter_that_is_stopped_leaves_the_key_alone() {
    let sandbox = Sandbox::new();
    let script = "echo x > begun; while [ ! -e go ]; do sleep 0.02; done";
    let first = sandbox.begin(&["once", "k"], script);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut waiter =
            sandbox.sh_command(&["once", "k", "--wait", "50s", "--json", "-v"], script).spawn().unwrap();
        // It has told by then that it waits.
        let mut log = std::io::BufReader::new(waiter.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("in flight") {
            line.clear();
            assert_ne!(std::io::BufRead::read_line(&mut log, &mut line).unwrap(), 0);
        }
        kill_process(Pid::from_child(&waiter), signal).unwrap();
        let ended = Ran::of(waiter.wait_with_output().unwrap()).exits(code).json();
        assert_eq!(
            (&ended["outcome"], &ended["code"]),
            (&json!("not_started"), &json!("command.interrupted"))
        );
    }
    sandbox.write("go", "");
    first.end().exits(0);
    assert_eq!(sandbox.state("k"), "done");
}

#[test]
fn a_key_that_was_used_for_another_command_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "k"], "exit 0").exits(0);
    sandbox.sh(&["once", "k"], "exit 1").exits(65).says("idempotency.key_reused");
    sandbox.sh(&["once", "k", "--fingerprint", "none"], "exit 1").exits(0);
    sandbox.sh(&["once", "other", "--fingerprint", "v1"], "exit 0").exits(0);
    sandbox.sh(&["once", "other", "--fingerprint", "v1"], "exit 1").exits(0);
    sandbox.sh(&["once", "other", "--fingerprint", "v2"], "exit 1").exits(65);
}

#[test]
fn a_store_that_fails_runs_nothing() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("folder")).unwrap();
    let failed =
        sandbox.sh(&["--store", "sqlite:folder", "once", "k", "--json"], &counted("exit 0")).exits(69).json();
    assert_eq!((&failed["outcome"], &failed["exit_code"]), (&json!("store_failed"), &json!(69)));
    assert_eq!(runs(&sandbox), 0);
}

#[test]
fn the_command_finds_its_call_in_its_environment_and_its_stdin() {
    let sandbox = Sandbox::new();
    let mut command =
        sandbox.sh_command(&["once", "k é", "--namespace", "shop"], "cat; env | grep ^HAPAX_ | sort");
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"typed\n").unwrap();
    let ran = Ran::of(child.wait_with_output().unwrap()).exits(0);
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{ran:?}");
    assert_eq!((lines[0], lines[1], lines[3]), ("typed", "HAPAX_KEY=k é", "HAPAX_NAMESPACE=shop"));
    assert!(lines[2].starts_with("HAPAX_LEASE_UNTIL=20") && lines[2].ends_with('Z'), "{lines:?}");
}

#[test]
fn a_window_runs_once() {
    let sandbox = Sandbox::new();
    // A window that nobody lives to see the end of, so that no test run meets it: 400 days from 1970 on.
    let first = sandbox.sh(&["once", "k", "--every", "400d", "--json"], &counted("exit 0")).exits(0).json();
    let key = first["key"].as_str().unwrap();
    assert!(key.starts_with("k@400d#"), "{key}");
    sandbox.sh(&["once", "k", "--every", "400d"], &counted("exit 0")).exits(0).says("replayed");
    sandbox.sh(&["once", "k", "--every", "1d"], &counted("exit 0")).exits(0);
    assert_eq!(runs(&sandbox), 2);
    assert_eq!(sandbox.state(key), "done");
}

#[test]
fn results_and_unknown_outcomes_are_over_after_their_time() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "k", "--ttl", "1ms"], &counted("exit 0")).exits(0);
    until("the result is over", || sandbox.state("k") == "vacant");
    sandbox.sh(&["once", "k", "--unknown-ttl", "1ms"], &counted("exit 76")).exits(76);
    until("the unknown outcome is over", || sandbox.state("k") == "vacant");
    sandbox.sh(&["once", "k"], &counted("exit 0")).exits(0);
    assert_eq!(runs(&sandbox), 3);
}

#[test]
fn objects_have_the_fields_that_scripts_read() {
    let sandbox = Sandbox::new();
    let fields = [
        "code",
        "exit_code",
        "first_at",
        "key",
        "outcome",
        "retry_after_ms",
        "stderr",
        "stdout",
        "truncated",
    ];
    let check = |ran: Ran, outcome: &str, code: Value| {
        let object = ran.json();
        let mut names: Vec<_> = object.as_object().unwrap().keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, fields);
        assert_eq!((&object["outcome"], &object["code"]), (&json!(outcome), &code));
        assert_eq!(object["exit_code"], ran.code);
        object
    };
    let ran = check(sandbox.sh(&["once", "k", "--json"], "echo out; echo err >&2"), "ran", Value::Null);
    assert_eq!(
        (&ran["stdout"], &ran["stderr"], &ran["key"]),
        (&json!("out\n"), &json!("err\n"), &json!("k"))
    );
    assert!(ran["first_at"].as_str().unwrap().ends_with('Z'));
    let again =
        check(sandbox.sh(&["once", "k", "--json"], "echo out; echo err >&2"), "replayed", Value::Null);
    assert_eq!((&again["stdout"], &again["first_at"]), (&ran["stdout"], &ran["first_at"]));
    check(sandbox.sh(&["once", "k", "--json"], "exit 1"), "key_reused", json!("idempotency.key_reused"));
    check(sandbox.sh(&["once", "f", "--json"], "exit 3"), "ran", Value::Null);
    check(
        sandbox.hapax(&["once", "f", "--json", "--", "no-such"]),
        "not_started",
        json!("command.not_found"),
    );
    check(sandbox.hapax(&["once", "f", "--json", "--", "/"]), "not_started", json!("command.not_executable"));
    check(
        sandbox.sh(&["once", "u", "--json"], "echo part; exit 76"),
        "unknown",
        json!("idempotency.unknown"),
    );
    let unknown = check(
        sandbox.sh(&["once", "u", "--json"], "echo part; exit 76"),
        "unknown",
        json!("idempotency.unknown"),
    );
    assert_eq!(unknown["stdout"], "part\n");
    let late = ["once", "t", "--json", "--timeout", "200ms"];
    check(sandbox.sh(&late, "sleep 60"), "unknown", json!("idempotency.timed_out"));
}
