//! What starts before it is known whether the command runs: nothing of it is left where it does not.

use super::{BEGUN, Room, WAITS};
use crate::{
    child::processes::{children, is_alive, is_helper, signal},
    sandbox::{Begun, until},
};
use rusqlite::Connection;
use rustix::process::Signal;
use std::{fs, time::Duration};

/// One use of the key is as good as another. A call to the store may take a quarter of the lease, on a busy machine too.
const ARGS: [&str; 6] = ["once", "k", "--fingerprint", "none", "--lease", "20s"];

/// A call that waits for the lock of the store, with all that is there by then.
struct Waiting {
    room: Room,
    call: Begun,
    lock: Connection,
    /// What would become the command, and the guard.
    helpers: [i32; 2],
}

impl Waiting {
    fn new() -> Self {
        let room = Room::new();
        room.sh(&["once", "other"], "exit 0").exits(0);
        let lock = Connection::open(room.database()).unwrap();
        lock.busy_timeout(Duration::from_secs(10)).unwrap();
        lock.execute_batch("BEGIN IMMEDIATE").unwrap();
        let store = format!("sqlite:{}?timeout=1m", room.database().display());
        let args = [&ARGS[..], &["--store", &store]].concat();
        let call = Begun::of(&mut room.sh_command(&args, &format!("{BEGUN}; echo out")));
        let parent = i32::try_from(call.id()).unwrap();
        let helper = |name: &str| {
            children(parent).into_iter().find(|(_, line)| line.contains(name)).map(|(pid, _)| pid)
        };
        until("both helpers are there", || helper(" __exec ").is_some() && helper(" __guard ").is_some());
        let helpers = [helper(" __exec ").unwrap(), helper(" __guard ").unwrap()];
        Self { room, call, lock, helpers }
    }

    fn let_go(&self) {
        self.lock.execute_batch("ROLLBACK").unwrap();
    }
}

#[test]
fn hapax_killed_before_the_key_is_reserved_leaves_nothing_behind() {
    let waiting = Waiting::new();
    waiting.call.signal(Signal::KILL);
    until("nothing is left", || waiting.room.processes().is_empty());
    waiting.let_go();
    assert!(!waiting.room.path("begun").exists());
    assert_eq!(waiting.room.state("k"), "vacant");
    waiting.call.end().exits(-9);
    waiting.room.sh(&ARGS, "exit 0").exits(0);
}

#[test]
fn hapax_frozen_before_the_key_is_reserved_begins_nothing_late() {
    let waiting = Waiting::new();
    waiting.call.signal(Signal::STOP);
    waiting.let_go();
    waiting.room.sh(&ARGS, "echo next").exits(0);
    waiting.call.signal(Signal::CONT);
    assert_eq!(waiting.call.end().exits(0).says("replayed").stdout, "next\n");
    // As it ends, not some time later.
    assert_eq!(waiting.room.processes(), [0; 0]);
    assert!(!waiting.room.path("begun").exists());
}

#[test]
fn signal_before_the_key_is_reserved_leaves_nothing_behind() {
    let waiting = Waiting::new();
    waiting.call.signal(Signal::TERM);
    until("it has heard", || waiting.helpers.iter().all(|pid| !is_alive(*pid)));
    waiting.let_go();
    waiting.call.end().exits(143).says("nothing was run");
    assert_eq!(waiting.room.processes(), [0; 0]);
    assert!(!waiting.room.path("begun").exists());
}

#[test]
fn helpers_that_are_killed_before_the_key_is_reserved_are_replaced() {
    for one in 0..2 {
        let waiting = Waiting::new();
        signal(waiting.helpers[one], Signal::KILL);
        waiting.let_go();
        assert_eq!(waiting.call.end().exits(0).stdout, "out\n");
        assert_eq!(waiting.room.state("k"), "done");
        until("nothing is left", || waiting.room.processes().is_empty());
    }
}

#[test]
fn call_that_runs_nothing_leaves_no_process_behind() {
    let room = Room::new();
    room.sh(&["once", "k"], "echo out").exits(0);
    until("the guard is gone", || room.processes().is_empty());
    for _ in 0..20 {
        room.sh(&["once", "k"], "echo out").exits(0).says("replayed");
        assert_eq!(room.processes(), [0; 0]);
        room.sh(&["once", "k"], "echo other").exits(65);
        assert_eq!(room.processes(), [0; 0]);
    }
    let running = room.begin(&["once", "running"], &format!("{BEGUN}; {WAITS}"));
    let helpers = || room.processes().into_iter().filter(|pid| is_helper(*pid)).count();
    // Its guard.
    assert_eq!(helpers(), 1);
    room.sh(&["once", "running", "--fingerprint", "none"], "exit 0").exits(75);
    assert_eq!(helpers(), 1);
    room.write("go", "");
    running.end().exits(0);
}

#[test]
fn call_that_may_wait_for_another_has_no_process_wait_with_it() {
    let room = Room::new();
    let script = format!("{BEGUN}; {WAITS}");
    let first = room.begin(&["once", "k"], &script);
    let second = Begun::of(&mut room.sh_command(&["once", "k", "--wait", "50s"], &script));
    let pid = i32::try_from(second.id()).unwrap();
    until("it has read the key", || has_open(pid, &room));
    assert_eq!(children(pid), []);
    room.write("go", "");
    first.end().exits(0);
    second.end().exits(0).says("replayed");
    until("nothing is left", || !room.processes().into_iter().any(is_helper));
}

/// Whether a process has the store open.
fn has_open(pid: i32, room: &Room) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    open.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok()).any(|file| file == room.database())
}
