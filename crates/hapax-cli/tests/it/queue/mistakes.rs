//! What a newcomer runs into: full disks behind stdout, names that nothing has, pages that are none, outcomes to settle.

use super::{add, show, stats, with_input, work};
use crate::sandbox::{Ran, Sandbox};
use std::process::Stdio;

#[test]
#[cfg(target_os = "linux")]
fn what_was_changed_stays_changed_when_stdout_is_full() {
    let sandbox = Sandbox::new();
    let full = |args: &[&str], code: i32| {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = sandbox.command(args).stdout(Stdio::from(full)).output().unwrap();
        Ran::of(output).exits(code).says("stdout can no longer be written")
    };
    full(&["queue", "add", "q", "1", "--job-id", "a"], 0);
    assert_eq!(stats(&sandbox, "q")["ready"], 1);
    full(&["queue", "pause", "q"], 0);
    full(&["queue", "resume", "q"], 0);
    full(&["queue", "limits", "q", "--max-len", "10"], 0);
    full(&["queue", "subscribe", "q", "main"], 0);
    full(&["queue", "reschedule", "q", "a", "--delay", "1h"], 0);
    full(&["queue", "run-now", "q", "a"], 0);
    work(&sandbox, &["--idempotent"], "exit 76").exits(1);
    full(&["queue", "edit", "q", "a", "2"], 0);
    full(&["keys", "resolve", "a", "--scope", "job:q:main", "--as", "failed"], 0);
    full(&["queue", "dead", "redrive", "q", "a", "--json"], 0);
    full(&["queue", "cancel", "q", "a"], 0);
    full(&["queue", "purge", "q", "--force"], 0);
    full(&["queue", "unsubscribe", "q", "main", "--force"], 0);
    full(&["keys", "prune"], 0);
    // What only looks has failed.
    add(&sandbox, &["other", "1"]);
    full(&["queue", "stats"], 1);
    full(&["queue", "list", "other"], 1);
    full(&["queue", "limits", "other"], 1);
}

#[test]
fn a_job_whose_outcome_nobody_knew_is_settled_without_a_result() {
    let sandbox = Sandbox::new();
    add(&sandbox, &["q", "1", "--job-id", "a b", "--keep-result", "1h"]);
    work(&sandbox, &["--idempotent"], "exit 76").exits(1);
    let dead = sandbox.hapax(&["queue", "dead", "show", "q", "a b"]).exits(0);
    let dead = dead
        .says("hapax keys resolve --scope job:q:main --as done 'a b'")
        .says("hapax queue dead redrive q 'a b'");
    assert!(dead.stdout.contains("\nkey          a b\nscope        job:q:main\n"), "{dead:?}");
    let dead = sandbox.hapax(&["queue", "dead", "show", "q", "a b", "--json"]).exits(0).json();
    assert_eq!((&dead["key"], &dead["scope"]), (&"a b".into(), &"job:q:main".into()));
    sandbox.hapax(&["keys", "resolve", "--scope", "job:q:main", "--as", "done", "a b"]).exits(0);
    // Nothing is left to be settled.
    let dead = sandbox.hapax(&["queue", "dead", "show", "q", "a b", "--json"]).exits(0).json();
    assert!(dead.get("key").is_none(), "{dead}");
    sandbox.hapax(&["queue", "dead", "redrive", "q", "a b"]).exits(0);
    work(&sandbox, &["--idempotent"], "echo ran; exit 1").exits(0).says("done 1 (1 replayed)");
    let ended = sandbox.hapax(&["queue", "wait", "q", "a b", "--json"]).exits(0).json();
    assert_eq!((&ended["state"], ended["result"].is_null()), (&"done".into(), true));
    assert_eq!(sandbox.hapax(&["queue", "wait", "q", "a b"]).exits(0).stdout, "");
}

#[test]
fn a_dead_letter_without_a_key_has_none_to_settle() {
    let sandbox = Sandbox::new();
    add(&sandbox, &["q", "1", "--job-id", "a"]);
    work(&sandbox, &[], "exit 76").exits(1);
    let dead = sandbox.hapax(&["queue", "dead", "show", "q", "a"]).exits(0);
    assert!(!dead.stderr.contains("resolve"), "{dead:?}");
}

#[test]
fn a_page_that_is_none_is_refused() {
    let sandbox = Sandbox::new();
    add(&sandbox, &["q", "1"]);
    sandbox.hapax(&["queue", "list", "q", "--state", "ready", "--after", "x"]).exits(2).says("--after x");
    sandbox.hapax(&["queue", "dead", "list", "q", "--after", "1.2"]).exits(2).says("--after 1.2");
}

#[test]
fn names_that_nothing_has_are_65_with_the_nearest() {
    let sandbox = Sandbox::new();
    let commands: &[&[&str]] = &[&["stats", "thubms"], &["list", "thubms"], &["dead", "list", "thubms"]];
    for command in commands {
        sandbox.hapax(&[&["queue"], *command].concat()).exits(65).says("there is no queue thubms");
    }
    assert!(!sandbox.database().exists());
    sandbox.hapax(&["queue", "stats"]).exits(0);
    sandbox.hapax(&["queue", "subscribe", "thumbs", "billing"]).exits(0);
    for command in commands {
        sandbox.hapax(&[&["queue"], *command].concat()).exits(65).says("there is thumbs");
    }
    for command in [&["stats", "thumbs"][..], &["list", "thumbs"], &["dead", "list", "thumbs"]] {
        let of = |group: &str| sandbox.hapax(&[&["queue"], command, &["--group", group]].concat());
        of("biling").exits(65).says("the queue has no group biling").says("there is billing");
        // It is there, and has no jobs.
        of("billing").exits(0);
    }
    sandbox.hapax(&["queue", "stats", "--group", "x"]).exits(65).says("no queue has a group x");
    sandbox.hapax(&["queue", "pause", "thubms"]).exits(65).says("there is thumbs");
}

#[test]
fn names_have_one_rule() {
    let sandbox = Sandbox::new();
    let long = "x".repeat(300);
    for bad in ["", &long] {
        let commands: &[&[&str]] = &[
            &["add", bad, "1"],
            &["stats", bad],
            &["list", bad],
            &["limits", bad],
            &["subscribe", "q", bad],
            &["stats", "q", "--group", bad],
            &["work", bad, "--once", "--", "true"],
            &["work", "q", "--once", "--group", bad, "--", "true"],
            &["work", "q", "--once", "--consumer", bad, "--", "true"],
        ];
        for command in commands {
            sandbox.hapax(&[&["queue"], *command].concat()).exits(65).says("has 1 to 200 bytes");
        }
    }
}

#[test]
fn a_job_that_is_done_says_nothing_of_counts_that_are_not_kept() {
    let sandbox = Sandbox::new();
    add(&sandbox, &["q", "1", "--job-id", "a"]);
    work(&sandbox, &[], "true").exits(0);
    assert!(show(&sandbox, "q", "a")["attempts"].is_null());
    let shown = sandbox.hapax(&["queue", "show", "q", "a"]).exits(0);
    assert!(!shown.stdout.contains("attempts") && shown.stdout.contains("done"), "{shown:?}");
}

#[test]
fn jobs_that_were_put_off_are_left_and_their_number_is_said() {
    let sandbox = Sandbox::new();
    add(&sandbox, &["q", "1"]);
    add(&sandbox, &["q", "2"]);
    let ran = work(&sandbox, &["--json"], "exit 75").exits(0).says("2 delayed in q, left for later");
    assert_eq!((&ran.json()["delayed"], &ran.json()["snoozed"]), (&2.into(), &2.into()));
}

#[test]
fn a_value_that_begins_with_a_dash_gets_a_tip_that_works() {
    let sandbox = Sandbox::new();
    for (flag, value) in [("--delay", "-5s"), ("--max-attempts", "-5"), ("--job-id", "-x")] {
        let tip = format!("write '{flag}={value}'");
        sandbox.hapax(&["queue", "add", "q", "1", flag, value]).exits(2).says(&tip);
    }
    let id = add(&sandbox, &["q", "1", "--job-id=-x"]);
    let shown = sandbox.hapax(&["queue", "show", "q", "--json", "--", "-x"]).exits(0).json();
    assert_eq!(shown["id"], id);
    sandbox.hapax(&["queue", "add", "q", "-x"]).exits(2).says("use '-- -x'");
    add(&sandbox, &["q", "--", "-x"]);
    add(&sandbox, &["q", "-5"]);
}

#[test]
fn usages_name_all_ways() {
    let sandbox = Sandbox::new();
    for command in ["redrive", "drop"] {
        sandbox.hapax(&["queue", "dead", command, "q"]).exits(2).says("<QUEUE> --all");
    }
    sandbox.hapax(&["queue", "limits", "q", "--max-len", "1"]).exits(0);
    let two = with_input(&sandbox, &["queue", "add", "q", "--lines"], b"1\n2\n").exits(75);
    two.says("the queue is full: 1 job waits");
}
