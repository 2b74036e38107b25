//! Commands that end otherwise than alone and in silence.

use super::{BEGUN, Room, WAITS};
use crate::{
    child::processes::{guard_of, is_alive, is_helper, signal},
    sandbox::until,
};
use rustix::process::Signal;
use std::process::{Command, Stdio};

#[test]
fn child_that_outlives_the_command_is_left_alone() {
    let room = Room::new();
    // It never stops writing, until nobody reads any more.
    let child = format!(
        "trap '' PIPE; while echo tick; do sleep 0.02; done 2>/dev/null; echo 1 > cut; {WAITS}; echo 1 > over"
    );
    let script = format!("({child}) & echo $! > child; echo out >&2");
    let args = ["once", "k"];
    let first = room.sh(&args, &script).exits(0);
    assert_eq!(first.stderr, "out\n");
    assert_eq!(first.stdout.replace("tick\n", ""), "");
    assert_eq!(room.state("k"), "done");
    // What was copied is what is recorded.
    assert_eq!(room.sh(&args, &script).exits(0).says("replayed").stdout, first.stdout);

    until("nobody reads its output", || room.number("cut").is_some());
    until("the guard is gone", || !room.processes().into_iter().any(is_helper));
    assert!(is_alive(room.number("child").unwrap()));
    room.write("go", "");
    until("it ends by itself", || room.number("over").is_some());
}

#[test]
fn failure_of_the_command_counts_whatever_its_children_do() {
    let room = Room::new();
    let script = format!("({WAITS}; exit 0) & echo x >> ran; exit 3");
    room.sh(&["once", "k"], &script).exits(3);
    assert_eq!(room.state("k"), "vacant");
    room.sh(&["once", "k"], &script).exits(3);
    assert_eq!(room.read("ran").lines().count(), 2);
}

#[test]
fn ten_megabytes_are_passed_through_whole_and_recorded_in_part() {
    let room = Room::new();
    let script = "seq 1400000 >&2 & seq 1400000; wait; exit 3";
    let args = ["once", "k", "--keep-failures"];
    let numbers: String = (1..=1_400_000).flat_map(|n: u32| [n.to_string(), "\n".to_owned()]).collect();
    let first = room.sh(&args, script);
    assert_eq!(first.code, 3);
    // Compared without printing them.
    assert!(first.stdout == numbers, "{} of {}", first.stdout.len(), numbers.len());
    assert!(first.stderr == numbers, "{} of {}", first.stderr.len(), numbers.len());

    let second = room.sh(&args, script);
    assert_eq!(second.code, 3);
    assert!(second.stdout == numbers[..65_536], "{}", second.stdout.len());
    let notes = second.stderr.strip_prefix(&numbers[..65_536]).unwrap();
    for stream in ["stdout", "stderr"] {
        let note = format!("output cut: 64 KiB of 10 MB kept ({stream})\n");
        assert!(notes.contains(&note), "{notes}");
    }
}

#[test]
fn command_outlives_the_shell_that_started_it() {
    let room = Room::new();
    let line = room.line(&["once", "k"], &format!("{BEGUN}; {WAITS}; echo out"));
    let mut shell = Command::new("/bin/sh");
    // With something after it, so that the shell does not become hapax.
    shell.args(["-c", &format!("{line}; echo after > after")]);
    let mut shell = shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the command begins", || room.path("begun").exists());
    shell.kill().unwrap();
    shell.wait().unwrap();
    assert_eq!(room.state("k"), "pending");
    room.write("go", "");
    until("the receipt is stored", || room.state("k") == "done");
    until("hapax is gone", || room.processes().is_empty());
    assert!(!room.path("after").exists());
}

#[test]
fn command_whose_guard_is_killed_ends_as_ever() {
    let room = Room::new();
    let call = room.begin(&["once", "k"], &format!("{BEGUN}; {WAITS}; echo out"));
    let guard = || guard_of(room.owner(), room.pid());
    let first = guard().unwrap();
    signal(first, Signal::KILL);
    until("there is another guard", || guard().is_some_and(|second| second != first));
    room.write("go", "");
    assert_eq!(call.end().exits(0).stdout, "out\n");
    assert_eq!(room.state("k"), "done");
}

#[test]
fn command_whose_guard_was_killed_is_guarded() {
    let room = Room::new();
    let script = format!("trap '' TERM; {BEGUN}; {WAITS}");
    let call = room.begin(&["once", "k", "--lease", "1s"], &script);
    let guard = || guard_of(room.owner(), room.pid());
    let first = guard().unwrap();
    signal(first, Signal::KILL);
    until("there is another guard", || guard().is_some_and(|second| second != first));
    call.signal(Signal::KILL);
    call.end().exits(-9);
    // Only the guard is left to do that.
    until("the command is killed", || room.processes().is_empty());
    room.write("go", "");
    room.sh(&["once", "k", "--wait", "50s"], &script).exits(0);
}

#[test]
fn command_that_cannot_be_guarded_is_killed_and_unknown() {
    let room = Room::new();
    let script = format!("{BEGUN}; {WAITS}");
    let call = room.begin(&["once", "k"], &script);
    let guard = || guard_of(room.owner(), room.pid());
    let pid = room.pid();
    let mut last = None;
    for _ in 0..3 {
        until("there is a guard", || guard().is_some_and(|guard| Some(guard) != last));
        last = guard();
        signal(last.unwrap(), Signal::KILL);
    }
    until("the command is gone", || !is_alive(pid));
    call.end().exits(137).says("guard");
    assert_eq!(room.state("k"), "unknown");
    room.sh(&["once", "k"], &script).exits(76);
}
