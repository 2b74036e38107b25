//! Jobs and queues are looked at and changed.

use super::{add, show, stats, with_input, work};
use crate::sandbox::{Begun, Sandbox};
use rustix::process::Signal;
use serde_json::Value;

const UNKNOWN: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn jobs_that_are_not_known_are_65() {
    let sandbox = Sandbox::new();
    let commands: &[&[&str]] = &[
        &["show", "q", UNKNOWN],
        &["show", "q", "a"],
        &["why", "q", UNKNOWN],
        &["why", "q", "a"],
        &["cancel", "q", "a"],
        &["wait", "q", "a"],
        &["run-now", "q", "a"],
        &["reschedule", "q", "a", "--delay", "1h"],
        &["dead", "show", "q", "a"],
        &["dead", "redrive", "q", "a"],
        &["dead", "drop", "q", "a"],
        &["edit", "q", "a", "1"],
        &["events", "other"],
        &["pause", "other"],
        &["resume", "other"],
        &["purge", "other", "--force"],
        &["unsubscribe", "other", "g", "--force"],
    ];
    for round in 0..2 {
        for command in commands {
            sandbox.hapax(&[&["queue"], *command].concat()).exits(65);
        }
        // Looking makes no store.
        assert_eq!(sandbox.database().exists(), round > 0);
        add(&sandbox, &["q", "1"]);
    }
    let error = sandbox.hapax(&["queue", "show", "q", "a", "--json"]).exits(65).json();
    assert_eq!(error["error"]["exit_code"], 65);
}

#[test]
fn waiting_jobs_get_another_time_and_are_cancelled() {
    let sandbox = Sandbox::new();
    let id = add(&sandbox, &["q", "1", "--job-id", "a", "--delay", "1h"]);
    assert_eq!(show(&sandbox, "q", &id)["state"], "delayed");
    sandbox.hapax(&["queue", "run-now", "q", "a"]).exits(0);
    assert_eq!(show(&sandbox, "q", "a")["state"], "ready");
    sandbox.hapax(&["queue", "reschedule", "q", &id, "--run-at", "2999-01-01T00:00:00Z"]).exits(0);
    assert_eq!(show(&sandbox, "q", "a")["at"], "2999-01-01T00:00:00.000Z");
    sandbox.hapax(&["queue", "reschedule", "q", &id]).exits(2);
    sandbox.hapax(&["queue", "cancel", "q", "a"]).exits(0);
    assert_eq!(show(&sandbox, "q", &id)["state"], "cancelled");
    sandbox.hapax(&["queue", "cancel", "q", &id]).exits(65).says("is cancelled");
    sandbox.hapax(&["queue", "run-now", "q", &id]).exits(65).says("does not wait");
    sandbox.hapax(&["queue", "wait", "q", &id]).exits(1).says("the job is cancelled");
    // Its job id is free.
    assert_ne!(add(&sandbox, &["q", "2", "--job-id", "a"]), id);
}

#[test]
fn dead_letters_are_edited_redriven_and_dropped() {
    let sandbox = Sandbox::new();
    for id in ["a", "b", "c"] {
        add(&sandbox, &["q", "{\"n\":1}", "--job-id", id]);
    }
    add(&sandbox, &["q", "1", "--job-id", "lives", "--delay", "1h"]);
    work(&sandbox, &[], "exit 65").exits(1).says("dead 3");
    let dead = |args: &[&str]| sandbox.hapax(&[&["queue", "dead"], args].concat());
    dead(&["show", "q", "lives"]).exits(65).says("not among the dead letters");
    dead(&["redrive", "q", "a", "lives"]).exits(65).says("nothing was changed");
    dead(&["redrive", "q"]).exits(2);
    sandbox.hapax(&["queue", "run-now", "q", "a"]).exits(65).says("dead redrive");
    let edited =
        with_input(&sandbox, &["queue", "edit", "q", "a", "-", "--json"], b"{\"n\":2}").exits(0).json();
    assert_eq!((&edited["payload"]["n"], &edited["state"]), (&2.into(), &"dead".into()));
    sandbox.hapax(&["queue", "edit", "q", "lives", "1"]).exits(65);
    dead(&["redrive", "q", "a"]).exits(0).says("redriven 1, not taken back 0");
    assert_eq!(show(&sandbox, "q", "a")["redriven"], 1);
    assert_eq!(dead(&["drop", "q", "b"]).exits(0).stdout, "1 dropped\n");
    dead(&["redrive", "q", "--all", "--json"]).exits(0);
    work(&sandbox, &[], "cat >> got; echo >> got").exits(0).says("done 2");
    assert_eq!(sandbox.read("got"), "{\"n\":2}\n{\"n\":1}\n");
    let figures = stats(&sandbox, "q");
    assert_eq!(
        (&figures["dead"], &figures["cancelled"], &figures["done"]),
        (&0.into(), &1.into(), &2.into())
    );
}

#[test]
fn the_story_of_a_job_is_told() {
    let sandbox = Sandbox::new();
    add(&sandbox, &["q", "1", "--job-id", "a", "--max-attempts", "2", "--backoff", "fixed:1h"]);
    let why = |flags: &[&str]| sandbox.hapax(&[&["queue", "why", "q", "a"], flags].concat()).exits(0);
    assert_eq!(why(&["--json"]).json()["history"], serde_json::json!([]));
    let fails = || work(&sandbox, &["--consumer", "w"], "echo broken >&2; exit 3");
    fails().exits(0);
    assert!(why(&[]).stdout.lines().last().unwrap().contains("now waiting; next attempt at "));
    sandbox.hapax(&["queue", "run-now", "q", "a"]).exits(0);
    fails().exits(1);
    let told = why(&["--json"]).json();
    let history = told["history"].as_array().unwrap();
    let retried = history.first().unwrap();
    assert_eq!((&retried["what"], &retried["attempts"]), (&"retried".into(), &1.into()));
    assert!(retried["consumer"].as_str().unwrap().starts_with("w."), "{retried}");
    assert!(retried["due"].is_string() && retried["at"].is_string(), "{retried}");
    let dead = history.last().unwrap();
    assert_eq!((&dead["what"], &dead["reason"]), (&"dead".into(), &"exhausted".into()));
    assert_eq!((&told["state"], &told["history_dropped"]), (&"dead".into(), &0.into()));
    let story = why(&[]).stdout;
    let id = told["id"].as_str().unwrap();
    for part in ["  added\n", "attempt 1 failed at w.", "dead after 2 failed attempts", ": exhausted"] {
        assert!(story.contains(part), "{part} is not in {story}");
    }
    let last = story.lines().last().unwrap();
    assert!(last.ends_with(&format!("to take it back: hapax queue dead redrive q {id}")), "{story}");
    sandbox.hapax(&["queue", "dead", "redrive", "q", id]).exits(0);
    assert!(why(&[]).stdout.lines().last().unwrap().contains("ready"));
    work(&sandbox, &[], "true").exits(0);
    // Of what is over, its end is known.
    assert_eq!(why(&[]).stdout.lines().last().unwrap().split("  ").last(), Some("done"));
}

#[test]
fn what_dies_again_and_again_is_redriven_by_force_only() {
    let sandbox = Sandbox::new();
    add(&sandbox, &["q", "1", "--job-id", "a"]);
    let redrive = |flags: &[&str]| sandbox.hapax(&[&["queue", "dead", "redrive", "q", "a"], flags].concat());
    for _ in 0..10 {
        work(&sandbox, &[], "exit 65").exits(1);
        redrive(&[]).exits(0);
    }
    work(&sandbox, &[], "exit 65").exits(1);
    redrive(&[]).exits(1).says("it was redriven 10 times");
    redrive(&["--force"]).exits(0);
}

#[test]
fn a_pause_holds_jobs_back() {
    let sandbox = Sandbox::new();
    add(&sandbox, &["q", "1"]);
    sandbox.hapax(&["queue", "pause", "q"]).exits(0);
    assert_eq!(stats(&sandbox, "q")["paused"], true);
    work(&sandbox, &[], "true").exits(0).says("q is paused, with 1 ready").says("done 0");
    sandbox.hapax(&["queue", "resume", "q"]).exits(0);
    work(&sandbox, &[], "true").exits(0).says("done 1");
}

#[test]
fn lists_are_pages() {
    let sandbox = Sandbox::new();
    let lines = "0\n1\n2\n3\n4\n";
    let ids = with_input(&sandbox, &["queue", "add", "q", "--lines"], lines.as_bytes()).exits(0).stdout;
    add(&sandbox, &["q", "1", "--delay", "1h"]);
    let list = |flags: &[&str]| sandbox.hapax(&[&["queue", "list", "q"], flags].concat()).exits(0);
    assert_eq!(list(&[]).stdout.lines().count(), 6);
    let (mut seen, mut after) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let page = list(
            &[
                &["--state", "ready", "--limit", "2", "--json"][..],
                &after.iter().map(String::as_str).collect::<Vec<_>>(),
            ]
            .concat(),
        );
        for line in page.lines() {
            seen.push(line["id"].as_str().unwrap().to_owned());
        }
        let next =
            page.stderr.trim().split_once("--after ").map(|(_, next)| next.trim_matches('\'').to_owned());
        after = next.map(|next| vec!["--after".to_owned(), next]).unwrap_or_default();
    }
    assert!(after.is_empty(), "{after:?}");
    assert_eq!(seen, ids.lines().collect::<Vec<_>>());
    sandbox.hapax(&["queue", "list", "q", "--after", "x"]).exits(2);
    sandbox.hapax(&["queue", "list", "q", "--state", "gone"]).exits(2);
}

#[test]
fn limits_are_set_one_by_one_and_purges_need_force() {
    let sandbox = Sandbox::new();
    let limits = |flags: &[&str]| sandbox.hapax(&[&["queue", "limits", "q", "--json"], flags].concat());
    assert_eq!(limits(&[]).exits(0).json()["concurrency"], Value::Null);
    assert!(!sandbox.database().exists());
    limits(&["--concurrency", "2", "--rate", "50/s"]).exits(0);
    let all = limits(&["--max-len", "10", "--rate", "100/10s"]).exits(0).json();
    assert_eq!(
        (&all["concurrency"], &all["rate"], &all["max_len"]),
        (&2.into(), &"100/10s".into(), &10.into())
    );
    assert!(limits(&["--rate", "none"]).exits(0).json()["rate"].is_null());
    for flags in [["--concurrency", "0"], ["--rate", "5"], ["--max-len", "-1"], ["--per", "/tenant"]] {
        limits(&flags).exits(2);
    }
    limits(&["--rate", "5/s", "--per", "tenant"]).exits(2).says("`tenant` is no JSON pointer");
    limits(&["--rate", "9/s"]).exits(0);
    let per = limits(&["--rate", "5/m", "--per", "/tenant"]).exits(0).json();
    assert_eq!(
        (&per["rate"], &per["per"]["pointer"], &per["per"]["rate"]),
        (&"9/1s".into(), &"/tenant".into(), &"5/1m".into())
    );
    assert!(limits(&["--per", "none"]).exits(0).json()["per"].is_null());
    add(&sandbox, &["q", "1"]);
    sandbox.hapax(&["queue", "purge", "q"]).exits(2);
    assert_eq!(sandbox.hapax(&["queue", "purge", "q", "--force"]).exits(0).stdout, "1 removed\n");
    assert_eq!(stats(&sandbox, "q")["ready"], 0);
}

#[test]
fn what_passes_in_a_queue_is_told() {
    let sandbox = Sandbox::new();
    add(&sandbox, &["q", "1", "--backoff", "fixed:1h"]);
    let events = |flags: &[&str]| sandbox.hapax(&[&["queue", "events", "q"], flags].concat()).exits(0);
    assert_eq!(events(&[]).says("the queue keeps no events").stdout, "");
    sandbox.hapax(&["queue", "limits", "q", "--events", "100001"]).exits(2).says("100000 events at most");
    let limits = sandbox.hapax(&["queue", "limits", "q", "--events", "5", "--json"]).exits(0).json();
    assert_eq!(limits["events"], 5);
    let id = add(&sandbox, &["q", "2", "--max-attempts", "1"]);
    work(&sandbox, &[], "exit 3").exits(1);
    let told = events(&["--json"]).lines();
    let words: Vec<_> = told.iter().map(|event| event["what"].as_str().unwrap()).collect();
    // The first job is the older one: of it, and of the second.
    assert_eq!(words, ["added", "started", "retried", "started", "dead"]);
    let dead = told.last().unwrap();
    assert_eq!((&dead["id"], &dead["group"], &dead["attempts"]), (&id.into(), &"main".into(), &1.into()));
    let number = told[2]["number"].as_u64().unwrap();
    assert_eq!(told[3]["number"], number + 1);
    assert_eq!(events(&["--after", &number.to_string(), "--json"]).lines(), told[3..]);
    assert_eq!(events(&["--limit", "2", "--json"]).lines(), told[..2]);
    for _ in 0..9 {
        add(&sandbox, &["q", "3"]);
    }
    let late = events(&["--after", &number.to_string()]).says("are not kept any more");
    assert_eq!(late.stdout.lines().count(), 5, "{late:?}");
    sandbox.hapax(&["queue", "limits", "q", "--events", "none"]).exits(0);
    assert_eq!(events(&["-q"]).stdout, "");
}

#[test]
fn who_follows_a_queue_hears_of_what_passes() {
    let sandbox = Sandbox::new();
    sandbox.hapax(&["queue", "limits", "q", "--events", "10"]).exits(0);
    let mut follower = Begun::of(&mut sandbox.command(&["queue", "events", "q", "--follow", "--json"]));
    let mut lines = follower.lines();
    for _ in 0..2 {
        let id = add(&sandbox, &["q", "1"]);
        let told: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
        assert_eq!((&told["what"], &told["id"]), (&"added".into(), &id.into()));
    }
    follower.signal(Signal::TERM);
    follower.end().exits(0);
}
