//! Workers are killed, frozen, and told to stop.

use super::{add, show, stats};
use crate::{
    child::processes::{is_alive, number_in},
    sandbox::{Begun, Sandbox, lines_of, until},
};
use rustix::process::Signal;
use std::time::Duration;
use tokio::time::Instant;

/// Says that a run began, and waits for the file `go`.
const SCRIPT: &str = "echo $$ > pid; echo x >> ran; echo x > begun; until [ -e go ]; do sleep 0.02; done";
const WORK: &[&str] = &["queue", "work", "q", "--claim-idle", "2s"];

/// Starts a worker, and returns when it is in the middle of a job.
fn begin(sandbox: &Sandbox, flags: &[&str]) -> (Begun, i32) {
    let worker = sandbox.begin(&[WORK, flags].concat(), SCRIPT);
    (worker, number_in(&sandbox.path("pid")).unwrap())
}

/// Other workers, until the job is done: it is put off where its key, or a slow machine, leaves too little of the lease.
#[expect(clippy::indexing_slicing, reason = "tests")]
fn run_again(sandbox: &Sandbox, flags: &[&str]) {
    until("it is done", || {
        sandbox.sh(&[WORK, &["--until-empty"], flags].concat(), SCRIPT).exits(0);
        stats(sandbox, "q")["done"] == 1
    });
}

#[test]
fn the_job_of_a_killed_worker_runs_again_after_its_command_is_gone() {
    let sandbox = Sandbox::new();
    add(&sandbox, &["q", "1", "--job-id", "a"]);
    let (worker, command) = begin(&sandbox, &[]);
    worker.signal(Signal::KILL);
    worker.end().exits(-9);
    until("the guard ends the command", || !is_alive(command));
    sandbox.write("go", "");
    run_again(&sandbox, &[]);
    assert!(lines_of(&sandbox.path("ran")) >= 2);
    let job = show(&sandbox, "q", "a");
    assert_eq!(job["state"], "done", "{job}");
    assert_ne!(stats(&sandbox, "q")["lost"], 0);
}

#[test]
fn an_idempotent_job_of_a_killed_worker_runs_again() {
    let sandbox = Sandbox::new();
    add(&sandbox, &["q", "1", "--job-id", "a"]);
    let (worker, command) = begin(&sandbox, &["--idempotent"]);
    worker.signal(Signal::KILL);
    worker.end().exits(-9);
    until("the guard ends the command", || !is_alive(command));
    sandbox.write("go", "");
    run_again(&sandbox, &["--idempotent"]);
    assert!(lines_of(&sandbox.path("ran")) >= 2);
}

#[test]
fn a_worker_frozen_for_two_leases_changes_nothing_when_it_wakes() {
    let sandbox = Sandbox::new();
    add(&sandbox, &["q", "1", "--job-id", "a"]);
    let (frozen, command) = begin(&sandbox, &[]);
    let two_leases = Instant::now() + Duration::from_secs(4);
    frozen.signal(Signal::STOP);
    until("the guard ends the command", || !is_alive(command));
    sandbox.write("go", "");
    run_again(&sandbox, &[]);
    let (before, runs) = (stats(&sandbox, "q"), lines_of(&sandbox.path("ran")));
    assert!(before["lost"] != 0 && runs >= 2, "{before} {runs}");
    until("two leases are over", || Instant::now() >= two_leases);
    frozen.signal(Signal::CONT);
    frozen.signal(Signal::TERM);
    frozen.end().exits(0).says("queue.lease_lost");
    let after = stats(&sandbox, "q");
    for figure in ["done", "dead", "ready", "delayed", "running", "lost"] {
        assert_eq!(before[figure], after[figure], "{figure}");
    }
    assert_eq!((&show(&sandbox, "q", "a")["state"], lines_of(&sandbox.path("ran"))), (&"done".into(), runs));
}

#[test]
fn a_lease_is_renewed_for_as_long_as_its_command_runs() {
    let sandbox = Sandbox::new();
    add(&sandbox, &["q", "1", "--job-id", "a"]);
    let (worker, _) = begin(&sandbox, &["--once"]);
    let lease = show(&sandbox, "q", "a")["at"].as_str().unwrap().to_owned();
    // Later than the first, and then later than that: two renewals.
    let mut seen = lease;
    for _ in 0..3 {
        until("the lease is renewed", || show(&sandbox, "q", "a")["at"].as_str().unwrap() > seen.as_str());
        seen = show(&sandbox, "q", "a")["at"].as_str().unwrap().to_owned();
    }
    sandbox.write("go", "");
    worker.end().exits(0).says("done 1");
    assert_eq!(stats(&sandbox, "q")["lost"], 0);
}

#[test]
fn a_signal_lets_what_runs_end_and_takes_no_more() {
    for signal in [Signal::TERM, Signal::INT] {
        let sandbox = Sandbox::new();
        add(&sandbox, &["q", "1"]);
        add(&sandbox, &["q", "2"]);
        let (worker, _) = begin(&sandbox, &[]);
        worker.signal(signal);
        sandbox.write("go", "");
        worker.end().exits(0).says("stopping").says("done 1");
        let figures = stats(&sandbox, "q");
        assert_eq!(
            (&figures["done"], &figures["ready"], &figures["running"]),
            (&1.into(), &1.into(), &0.into())
        );
    }
}

#[test]
fn what_is_not_through_when_the_drain_is_over_is_ended_and_given_back() {
    let sandbox = Sandbox::new();
    add(&sandbox, &["q", "1", "--job-id", "a"]);
    let (worker, command) = begin(&sandbox, &["--drain", "100ms"]);
    worker.signal(Signal::TERM);
    worker.end().exits(0).says("given back 1");
    assert!(!is_alive(command));
    let job = show(&sandbox, "q", "a");
    assert_eq!(
        (&job["state"], &job["attempts"], &job["given_back"]),
        (&"ready".into(), &0.into(), &1.into())
    );
}

#[test]
fn a_second_signal_ends_at_once() {
    let sandbox = Sandbox::new();
    add(&sandbox, &["q", "1", "--job-id", "a"]);
    let (worker, command) = begin(&sandbox, &[]);
    worker.signal(Signal::TERM);
    // Signals of one kind merge; another is heard beside it.
    worker.signal(Signal::INT);
    let ended = worker.end();
    assert!(matches!(ended.code, 130 | 143), "{ended:?}");
    let ended = ended.says("ended at once");
    assert!(!ended.stderr.contains("done 1"), "{ended:?}");
    until("the guard ends the command", || !is_alive(command));
}

#[test]
fn a_cancelled_job_is_ended() {
    let sandbox = Sandbox::new();
    let id = add(&sandbox, &["q", "1", "--job-id", "a"]);
    let (worker, command) = begin(&sandbox, &[]);
    assert_eq!(
        sandbox.hapax(&["queue", "cancel", "q", "a"]).exits(0).stdout,
        "its worker is told at its next beat\n"
    );
    until("the command is ended", || !is_alive(command));
    // By the id of hapax: the job id is free by now.
    until("the job is cancelled", || show(&sandbox, "q", &id)["state"] == "cancelled");
    worker.signal(Signal::TERM);
    worker.end().exits(0);
    assert_eq!(stats(&sandbox, "q")["cancelled"], 1);
}
