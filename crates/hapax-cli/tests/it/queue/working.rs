//! Commands run for jobs, and end in all ways.

use super::{add, show, stats, work};
use crate::sandbox::{Sandbox, lines_of};

#[test]
fn exit_codes_say_what_becomes_of_a_job() {
    for (code, state, attempts) in [
        (0, "done", 0),
        (65, "dead", 1),
        (76, "dead", 1),
        (3, "delayed", 1),
        (75, "delayed", 0),
        (69, "delayed", 0),
    ] {
        let sandbox = Sandbox::new();
        add(&sandbox, &["q", "1", "--job-id", "a", "--backoff", "fixed:1h"]);
        let exit = i32::from(state == "dead");
        work(&sandbox, &[], &format!("echo why >&2; exit {code}")).exits(exit);
        let job = show(&sandbox, "q", "a");
        assert_eq!(job["state"], state, "{code}: {job}");
        if state != "done" {
            assert_eq!(job["attempts"], attempts, "{code}: {job}");
        }
        match code {
            65 => assert_eq!(
                (&job["reason"], &job["error"]),
                (&"refused".into(), &"it exited with 65: why".into())
            ),
            76 => assert_eq!(job["reason"], "unknown"),
            75 => assert_eq!(job["snoozes"], 1),
            _ => {}
        }
    }
}

#[test]
fn the_last_failure_takes_a_job_to_the_dead_letters() {
    let sandbox = Sandbox::new();
    add(&sandbox, &["q", "{\"x\":1}", "--job-id", "a", "--max-attempts", "1"]);
    work(&sandbox, &[], "kill -9 $$").exits(1).says("dead 1");
    let job = show(&sandbox, "q", "a");
    assert_eq!((&job["reason"], &job["error"]), (&"exhausted".into(), &"SIGKILL ended it".into()));
    let dead = sandbox.hapax(&["queue", "dead", "list", "q", "--json"]).exits(0).json();
    assert_eq!((&dead["job_id"], dead.get("payload")), (&"a".into(), None));
    sandbox.hapax(&["queue", "wait", "q", "a"]).exits(1).says("dead, exhausted: SIGKILL ended it");
}

#[test]
fn each_value_of_a_field_has_a_rate_of_its_own() {
    let sandbox = Sandbox::new();
    sandbox.hapax(&["queue", "limits", "q", "--rate", "1/h", "--per", "/tenant"]).exits(0);
    for payload in [r#"{"tenant":"a"}"#, r#"{"tenant":"a"}"#, r#"{"tenant":7}"#, "{}", "no JSON"] {
        add(&sandbox, &["q", payload]);
    }
    work(&sandbox, &[], "true").exits(0).says("done 4");
    assert_eq!(stats(&sandbox, "q")["delayed"], 1);
}

#[test]
fn a_command_that_takes_too_long_is_ended() {
    let sandbox = Sandbox::new();
    add(&sandbox, &["q", "1", "--job-id", "a", "--max-attempts", "1", "--timeout", "100ms"]);
    work(&sandbox, &["--timeout", "1h"], "exec sleep 600").exits(1);
    assert_eq!(show(&sandbox, "q", "a")["error"], "it was ended after 100ms, its time-out");
}

#[test]
fn an_idempotent_worker_keeps_what_nobody_knows() {
    let sandbox = Sandbox::new();
    for (id, script, state) in [
        ("done", "exit 0", "done"),
        ("failed", "exit 3", "vacant"),
        ("unknown", "exit 76", "unknown"),
        ("killed", "kill -9 $$", "unknown"),
    ] {
        add(&sandbox, &["q", "1", "--job-id", id, "--backoff", "fixed:1h"]);
        let exit = i32::from(state == "unknown");
        work(&sandbox, &["--idempotent"], script).exits(exit);
        let key = sandbox.hapax(&["keys", "get", id, "--scope", "job:q:main", "--json"]).exits(0).json();
        assert_eq!(key["state"], state, "{id}: {key}");
    }
    let dead = sandbox.hapax(&["queue", "list", "q", "--state", "dead", "--json"]).exits(0).lines();
    assert!(dead.len() == 2 && dead.iter().all(|job| job["reason"] == "unknown"), "{dead:?}");
    // Resolved, it is not run again.
    sandbox
        .hapax(&["keys", "resolve", "killed", "--scope", "job:q:main", "--as", "done", "--receipt", "{}"])
        .exits(0);
    sandbox.hapax(&["queue", "dead", "redrive", "q", "killed"]).exits(0);
    work(&sandbox, &["--idempotent"], "echo x >> ran").exits(0).says("done 1 (1 replayed)");
    assert_eq!(lines_of(&sandbox.path("ran")), 0);
}

#[test]
fn a_command_that_is_missing_ends_the_worker_and_costs_no_attempt() {
    let sandbox = Sandbox::new();
    add(&sandbox, &["q", "1", "--job-id", "a"]);
    sandbox.hapax(&["queue", "work", "q", "--", "./no-such-program"]).exits(127).says("command not found");
    sandbox.write("text", "no program");
    sandbox.hapax(&["queue", "run-now", "q", "a"]).exits(0);
    sandbox
        .hapax(&["queue", "work", "q", "--idempotent", "--", "./text"])
        .exits(126)
        .says("command.not_executable");
    let job = show(&sandbox, "q", "a");
    assert_eq!((&job["state"], &job["attempts"]), (&"delayed".into(), &0.into()));
    sandbox.hapax(&["queue", "run-now", "q", "a"]).exits(0);
    work(&sandbox, &["--idempotent"], "true").exits(0).says("done 1");
    sandbox.hapax(&["queue", "work", "q"]).exits(2);
    sandbox.hapax(&["queue", "work", "q", "--once", "--until-empty", "--", "true"]).exits(2);
    sandbox.hapax(&["queue", "work", "q", "--concurrency", "0", "--", "true"]).exits(2);
    sandbox.hapax(&["queue", "work", "q", "--claim-idle", "999ms", "--", "true"]).exits(2);
}

#[test]
fn results_are_kept_where_they_are_asked_for() {
    let sandbox = Sandbox::new();
    let id = add(&sandbox, &["q", "[1,2]", "--keep-result", "1h"]);
    sandbox.hapax(&["queue", "wait", "q", &id, "--timeout", "50ms"]).exits(124);
    let ran = work(&sandbox, &[], "echo 3; echo note >&2").exits(0);
    assert_eq!(ran.stdout, "3\n");
    let waited = sandbox.hapax(&["queue", "wait", "q", &id]).exits(0).says("note");
    assert_eq!(waited.stdout, "3\n");
    let object = sandbox.hapax(&["queue", "wait", "q", &id, "--json"]).exits(0).json();
    assert_eq!((&object["state"], &object["result"]["stdout"]), (&"done".into(), &"3\n".into()));
}

#[test]
fn objects_of_a_worker_are_all_there_is_on_stdout() {
    let sandbox = Sandbox::new();
    add(&sandbox, &["q", "1"]);
    add(&sandbox, &["q", "2", "--delay", "1h"]);
    let summary = work(&sandbox, &["--json"], "echo noise").exits(0).json();
    assert_eq!((&summary["done"], &summary["delayed"], &summary["dead"]), (&1.into(), &1.into(), &0.into()));
}

#[test]
fn many_commands_run_at_once() {
    let sandbox = Sandbox::new();
    for n in 0..4 {
        add(&sandbox, &["q", &n.to_string()]);
    }
    // Each of them ends only when all have begun.
    let script =
        "echo x > \"begun-$HAPAX_JOB_ID\"; until [ \"$(ls begun-* | wc -l)\" = 4 ]; do sleep 0.02; done";
    work(&sandbox, &["--concurrency", "4"], script).exits(0).says("done 4");
    assert_eq!(stats(&sandbox, "q")["done"], 4);
}

#[test]
fn each_group_has_its_own_copy() {
    let sandbox = Sandbox::new();
    sandbox.hapax(&["queue", "subscribe", "q", "one"]).exits(0);
    sandbox.hapax(&["queue", "subscribe", "q", "two"]).exits(0);
    add(&sandbox, &["q", "1", "--job-id", "a"]);
    for group in ["one", "two"] {
        work(&sandbox, &["--group", group], "echo \"$HAPAX_GROUP\" >> got").exits(0).says("done 1");
    }
    assert_eq!(sandbox.read("got"), "one\ntwo\n");
    sandbox.hapax(&["queue", "pause", "q"]).exits(2).says("--group").says("one, two");
    sandbox.hapax(&["queue", "pause", "q", "--group", "three"]).exits(65);
    sandbox.hapax(&["queue", "unsubscribe", "q", "two"]).exits(2);
    sandbox.hapax(&["queue", "unsubscribe", "q", "two", "--force"]).exits(0);
    sandbox.hapax(&["queue", "pause", "q"]).exits(0);
}
