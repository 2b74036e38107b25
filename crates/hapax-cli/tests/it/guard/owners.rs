//! hapax itself is killed or frozen: its command is gone before the lease passes, and the key is free when it has.

use super::{BEGUN, Room, WAITS};
use crate::{
    child::processes::{guard_of, is_alive, signal},
    sandbox::{Begun, Ran, pause, until},
};
use rustix::process::Signal;
use std::{fs, process::Child, time::Duration};

/// One use of the key is as good as another.
const ANY: [&str; 4] = ["once", "k", "--fingerprint", "none"];
const SHORT: [&str; 6] = ["once", "k", "--fingerprint", "none", "--lease", "1s"];
/// A shell tells on stderr which of its children died. Where nobody reads that any more, it dies of it.
const ALONE: &str = "exec 2> /dev/null";
/// Leaves a trace of each moment that it lives.
const BEATS: &str = "while :; do echo first >> beats; sleep 0.02; done";

/// Starts a command that never ends, after `before`.
fn begin(room: &Room, before: &str) -> Begun {
    room.begin(&SHORT, &format!("{before}; {BEGUN}; {BEATS}"))
}

/// Waits for the key and runs a command of its own.
fn next(room: &Room, rest: &str) -> Ran {
    let args = [&ANY[..], &["--wait", "50s"]].concat();
    room.sh(&args, &format!("echo next >> beats; {rest}"))
}

/// The first command wrote nothing any more when the next one began.
#[track_caller]
fn was_gone_before_the_next(room: &Room) {
    let beats = room.read("beats");
    let after: Vec<_> = beats.lines().skip_while(|line| *line != "next").collect();
    assert_eq!(after, ["next"]);
}

fn killed(before: &str) -> Room {
    let room = Room::new();
    let call = begin(&room, before);
    call.signal(Signal::KILL);
    call.end().exits(-9);
    assert_eq!(next(&room, "echo out").exits(0).stdout, "out\n");
    until("nothing is left", || room.processes().is_empty());
    was_gone_before_the_next(&room);
    assert_eq!(room.state("k"), "done");
    room
}

#[test]
fn killed_hapax_takes_its_command_along_at_once() {
    let room = Room::new();
    let args = [&ANY[..], &["--lease", "30s"]].concat();
    let call = room.begin(&args, &format!("{ALONE}; trap 'echo 1 > term; exit 0' TERM; {BEGUN}; {WAITS}"));
    call.signal(Signal::KILL);
    call.end().exits(-9);
    let pid = room.pid();
    until("the command is gone", || !is_alive(pid));
    assert_eq!(room.number("term"), Some(1));
    // Nobody else has the key before the lease is over.
    assert_eq!(room.state("k"), "pending");
    room.sh(&ANY, "exit 0").exits(75);
}

#[test]
fn killed_hapax_leaves_the_key_free_after_the_lease() {
    killed("true");
}

#[test]
fn killed_hapax_takes_a_command_along_that_ignores_sigterm() {
    let room = killed(&format!("{ALONE}; trap 'echo 1 > term' TERM"));
    // It was asked first.
    assert_eq!(room.number("term"), Some(1));
}

#[test]
fn killed_hapax_takes_the_children_of_its_command_along() {
    let room = Room::new();
    let script = format!("{BEGUN}; (trap '' TERM; {BEATS}) & wait");
    let call = room.begin(&SHORT, &script);
    until("the child begins", || !room.read("beats").is_empty());
    call.signal(Signal::KILL);
    call.end().exits(-9);
    next(&room, "exit 0").exits(0);
    until("nothing is left", || room.processes().is_empty());
    was_gone_before_the_next(&room);
}

#[test]
fn hapax_killed_before_it_has_the_key_leaves_no_trace() {
    let room = Room::new();
    room.sh(&["once", "other"], "exit 0").exits(0);
    let lock = rusqlite::Connection::open(room.database()).unwrap();
    lock.busy_timeout(Duration::from_secs(10)).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut call = room.sh_command(&SHORT, BEGUN).spawn().unwrap();
    let open = format!("/proc/{}/fd", call.id());
    until("the store is open", || {
        fs::read_dir(&open)
            .unwrap()
            .any(|fd| fs::read_link(fd.unwrap().path()).is_ok_and(|to| to == room.database()))
    });
    call.kill().unwrap();
    call.wait().unwrap();
    lock.execute_batch("ROLLBACK").unwrap();
    assert_eq!(room.state("k"), "vacant");
    assert!(!room.path("begun").exists());
    room.sh(&ANY, "exit 0").exits(0);
}

/// Hits hapax at several moments after it has reserved its key, so around the begin of the command, and runs another call
/// under each key. `after` says what is to be done with those that were hit.
fn hit_around_the_begin(hit: Signal, mut after: impl FnMut(Child, &str)) {
    let room = Room::new();
    let beats = |key: &str| room.read(&format!("beats-{key}"));
    room.sh(&["once", "first"], "exit 0").exits(0);
    let store = rusqlite::Connection::open(room.database()).unwrap();
    let is_there = |key: &str| {
        let sql = "SELECT EXISTS (SELECT 1 FROM hapax_idempotency WHERE key = ?1)";
        store.query_row(sql, [key], |row| row.get::<_, bool>(0)).unwrap()
    };
    let hits: Vec<_> = (0..6)
        .map(|n| {
            let key = format!("k-{n}");
            let script = "trap '' TERM; while :; do echo first >> \"beats-$HAPAX_KEY\"; sleep 0.02; done";
            let args = ["once", &key, "--fingerprint", "none", "--lease", "1s"];
            let call = room.sh_command(&args, script).spawn().unwrap();
            let pid = i32::try_from(call.id()).unwrap();
            while !is_there(&key) {
                pause(Duration::from_micros(50));
            }
            pause(Duration::from_micros(600 * n));
            signal(pid, hit);
            (key, call)
        })
        .collect();
    for (key, call) in hits {
        let args = ["once", &key, "--fingerprint", "none", "--wait", "50s"];
        room.sh(&args, "echo next >> \"beats-$HAPAX_KEY\"").exits(0);
        let before = beats(&key);
        after(call, &before);
        assert_eq!(room.state(&key), "done");
        // Nothing wrote any more when the next command began.
        assert!(before.ends_with("next\n"), "{key}");
        assert_eq!(beats(&key), before, "{key}");
    }
    until("nothing is left", || room.processes().is_empty());
}

#[test]
fn hapax_killed_around_the_begin_of_its_command_leaves_the_key_free() {
    hit_around_the_begin(Signal::KILL, |mut call, _| {
        call.wait().unwrap();
    });
}

#[test]
fn hapax_frozen_around_the_begin_of_its_command_does_not_begin_it_late() {
    hit_around_the_begin(Signal::STOP, |call, beats| {
        signal(i32::try_from(call.id()).unwrap(), Signal::CONT);
        let ran = Ran::of(call.wait_with_output().unwrap());
        if beats == "next\n" {
            // It may have begun, or surely has not: then it can be run again, and nobody says that it cannot be.
            assert!(ran.code == 79 || ran.code == 69, "{ran:?}");
            let code = if ran.code == 79 { "lease_lost" } else { "store_failed" };
            ran.says(&format!("(idempotency.{code})"));
        } else {
            ran.exits(79).says("idempotency.lease_lost");
        }
    });
}

/// Freezes hapax until another call has had the key.
fn frozen(before: &str, rest: &str) -> (Room, Ran) {
    let room = Room::new();
    let call = begin(&room, before);
    call.signal(Signal::STOP);
    let next = next(&room, rest);
    assert!(!is_alive(room.pid()));
    was_gone_before_the_next(&room);
    call.signal(Signal::CONT);
    let ran = call.end().exits(79).says("idempotency.lease_lost");
    // What it says to do has to fit what the key is now.
    assert_eq!(ran.stderr.contains("hapax keys resolve"), next.code != 0, "{ran:?}");
    assert_eq!(ran.stderr.contains("another call has completed the key"), next.code == 0, "{ran:?}");
    until("nothing is left", || room.processes().is_empty());
    was_gone_before_the_next(&room);
    (room, next)
}

#[test]
fn overlap_is_seen_where_nobody_is_left_to_prevent_it() {
    // Outside of what is promised. It shows that the other tests here look at the right thing.
    let room = Room::new();
    let call = begin(&room, "true");
    let guard = guard_of(room.owner(), room.pid()).unwrap();
    signal(guard, Signal::STOP);
    call.signal(Signal::STOP);
    next(&room, "exit 0").exits(0);
    until("both write", || room.read("beats").contains("next\nfirst\n"));
}

#[test]
fn frozen_hapax_leaves_the_key_to_a_new_owner() {
    let (room, next) = frozen("true", "echo out");
    assert_eq!(next.exits(0).stdout, "out\n");
    assert_eq!(room.state("k"), "done");
    assert_eq!(room.sh(&ANY, "echo third").exits(0).says("replayed").stdout, "out\n");
}

#[test]
fn command_of_a_frozen_hapax_that_ignores_sigterm_is_killed() {
    let (room, next) = frozen("trap 'echo 1 > term' TERM", "echo out");
    assert_eq!(next.exits(0).stdout, "out\n");
    assert_eq!((room.number("term"), room.state("k").as_str()), (Some(1), "done"));
}

#[test]
fn unknown_outcome_of_a_frozen_hapax_stays_when_the_new_owner_failed() {
    let (room, next) = frozen("true", "exit 3");
    next.exits(3);
    assert_eq!(room.state("k"), "unknown");
    room.sh(&ANY, "exit 0").exits(76).says("lease");
}

#[test]
fn unknown_outcome_of_a_frozen_hapax_lies_beside_a_call_in_flight() {
    let room = Room::new();
    let call = begin(&room, "true");
    call.signal(Signal::STOP);
    let args = [&ANY[..], &["--wait", "50s"]].concat();
    let next = room.begin(&args, &format!("echo next >> beats; echo x > begun; {WAITS}; exit 3"));
    call.signal(Signal::CONT);
    call.end().exits(79);
    assert_eq!(room.state("k"), "pending");
    room.write("go", "");
    next.end().exits(3);
    // What the new owner gave back is not vacant.
    assert_eq!(room.state("k"), "unknown");
    room.sh(&ANY, "exit 0").exits(76);
    was_gone_before_the_next(&room);
}

#[test]
fn frozen_hapax_alone_leaves_its_own_record() {
    let room = Room::new();
    let call = begin(&room, "trap 'exit 0' TERM");
    let pid = room.pid();
    call.signal(Signal::STOP);
    until("the command is ended", || !is_alive(pid));
    until("the lease is over", || room.state("k") == "vacant");
    call.signal(Signal::CONT);
    let ran = call.end().exits(79).says("hapax keys resolve k");
    assert_eq!(ran.stdout, "");
    assert_eq!(room.state("k"), "unknown");
    room.sh(&ANY, "exit 0").exits(76);
}
