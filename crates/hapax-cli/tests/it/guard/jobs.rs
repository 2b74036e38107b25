//! Commands that have a terminal, are stopped and continued, or lose it.

use super::{BEGUN, Room, WAITS};
use crate::{
    child::{
        processes::{foreground, is_alive, is_stopped, signal},
        terminal::Terminal,
    },
    sandbox::until,
};
use rustix::process::Signal;

/// Enters a line and waits until its command has begun and has the terminal.
fn begin(room: &Room, terminal: &Terminal, line: &str) {
    terminal.enters(line);
    until("the command begins", || room.path("begun").exists());
    has_the_terminal(room);
}

fn has_the_terminal(room: &Room) {
    let pid = room.pid();
    until("the command has the terminal", || foreground(pid) == Some(pid));
}

fn exits(room: &Room, code: i32) {
    until("hapax ends", || room.number("code").is_some());
    assert_eq!(room.number("code"), Some(code));
}

#[test]
fn command_reads_the_terminal_and_the_script_around_it_reads_on() {
    let room = Room::new();
    let reads =
        format!("{BEGUN}; [ -t 0 ] && [ ! -t 1 ] && [ ! -t 2 ] || exit 9; read line; echo \"got $line\"");
    let line = room.line(&["once", "k"], &reads);
    // hapax has no shell that takes the terminal back for it.
    let script = room.write("script", format!("{line}\necho $? > code\nread rest\necho \"$rest\" > rest\n"));
    let terminal = Terminal::shell();
    begin(&room, &terminal, &format!("sh {}", script.display()));
    terminal.enters("first");
    exits(&room, 0);
    assert!(terminal.shows("got first"));
    terminal.enters("second");
    until("the script reads", || room.read("rest") == "second\n");
    assert_eq!(room.sh(&["once", "k"], &reads).exits(0).says("replayed").stdout, "got first\n");
}

#[test]
fn command_that_is_stopped_and_continued_goes_on() {
    let room = Room::new();
    let reads = format!("{BEGUN}; read line; echo \"got $line\"");
    let terminal = Terminal::shell();
    begin(&room, &terminal, &room.line(&["once", "k"], &reads));
    let (owner, pid) = (room.owner(), room.pid());
    for line in ["fg", "fg; echo $? > code"] {
        terminal.types("\x1a");
        until("both stop", || is_stopped(owner) && is_stopped(pid));
        terminal.enters(line);
        until("both go on", || !is_stopped(owner) && !is_stopped(pid));
        has_the_terminal(&room);
    }
    assert_eq!(room.state("k"), "pending");
    assert_eq!(room.number("code"), None);
    terminal.enters("word");
    exits(&room, 0);
    assert_eq!(room.state("k"), "done");
    assert_eq!(room.sh(&["once", "k"], &reads).exits(0).stdout, "got word\n");
}

#[test]
fn command_that_is_stopped_for_longer_than_its_lease_does_not_go_on() {
    let room = Room::new();
    let reads = format!("{BEGUN}; read line; echo x > on");
    let terminal = Terminal::shell();
    begin(&room, &terminal, &room.line(&["once", "k", "--lease", "1s"], &reads));
    let (owner, pid) = (room.owner(), room.pid());
    terminal.types("\x1a");
    until("hapax stops", || is_stopped(owner));
    until("the command is ended", || !is_alive(pid));
    terminal.enters("fg; echo $? > code");
    exits(&room, 79);
    assert!(!room.path("on").exists());
    assert_eq!(room.state("k"), "unknown");
    room.sh(&["once", "k"], &reads).exits(76).says("lease");
    // The shell has the terminal.
    terminal.enters("echo back-$((6 * 7))");
    until("the shell reads", || terminal.shows("back-42"));
}

#[test]
fn command_that_stops_itself_goes_on_with_hapax() {
    let room = Room::new();
    let script = format!("{BEGUN}; kill -STOP $$; echo on");
    let call = room.begin(&["once", "k"], &script);
    until("hapax stops", || is_stopped(room.owner()));
    assert_eq!(room.state("k"), "pending");
    call.signal(Signal::CONT);
    assert_eq!(call.end().exits(0).stdout, "on\n");
    assert_eq!(room.state("k"), "done");
}

#[test]
fn command_that_stops_itself_for_longer_than_its_lease_does_not_go_on() {
    let room = Room::new();
    let script = format!("{BEGUN}; kill -STOP $$; echo on");
    let call = room.begin(&["once", "k", "--lease", "1s"], &script);
    let (owner, pid) = (room.owner(), room.pid());
    until("hapax stops", || is_stopped(owner));
    until("the command is ended", || !is_alive(pid));
    call.signal(Signal::CONT);
    assert_eq!(call.end().exits(79).says("idempotency.lease_lost").stdout, "");
    assert_eq!(room.state("k"), "unknown");
    room.sh(&["once", "k"], &script).exits(76);
}

#[test]
fn terminal_that_is_closed_leaves_the_outcome_unknown() {
    let room = Room::new();
    let reads = format!("{BEGUN}; read line; exit 3");
    let terminal = Terminal::shell();
    begin(
        &room,
        &terminal,
        &format!("{}; echo $$ > shell; {}", cd(&room), room.line(&["once", "k"], &reads)),
    );
    signal(room.number("shell").unwrap(), Signal::HUP);
    until("hapax is gone", || room.processes().is_empty());
    assert_eq!(room.state("k"), "unknown");
    room.sh(&["once", "k"], &reads).exits(76).says("SIGHUP");
}

#[test]
fn command_that_ignores_hang_ups_outlives_its_terminal() {
    let room = Room::new();
    let script = format!("{BEGUN}; {WAITS}; echo out");
    let terminal = Terminal::shell();
    let line =
        format!("{}; echo $$ > shell; (trap '' HUP; {})", cd(&room), room.line(&["once", "k"], &script));
    begin(&room, &terminal, &line);
    signal(room.number("shell").unwrap(), Signal::KILL);
    drop(terminal);
    room.write("go", "");
    until("hapax is gone", || room.processes().is_empty());
    assert_eq!(room.state("k"), "done");
    assert_eq!(room.sh(&["once", "k"], &script).exits(0).says("replayed").stdout, "out\n");
}

fn cd(room: &Room) -> String {
    format!("cd {}", room.path("").display())
}
