//! Signals that hapax gets while its command runs.

use super::{BEGUN, Room, WAITS};
use crate::sandbox::until;
use rustix::process::Signal;

/// Their names for `trap`, and what a shell shows for an end by them.
const PASSED_ON: [(Signal, &str, i32); 4] = [
    (Signal::INT, "INT", 130),
    (Signal::TERM, "TERM", 143),
    (Signal::HUP, "HUP", 129),
    (Signal::QUIT, "QUIT", 131),
];

#[test]
fn success_after_any_signal_is_done() {
    let room = Room::new();
    for (signal, name, _) in PASSED_ON {
        let script = format!("trap 'echo {name}; exit 0' {name}; {BEGUN}; {WAITS}");
        let call = room.begin(&["once", name], &script);
        call.signal(signal);
        let ran = call.end().exits(0);
        assert_eq!(ran.stdout, format!("{name}\n"));
        assert_eq!(room.state(name), "done");
        assert_eq!(room.sh(&["once", name], &script).exits(0).says("replayed").stdout, ran.stdout);
    }
}

#[test]
fn another_exit_code_after_any_signal_is_unknown() {
    let room = Room::new();
    for (signal, name, code) in PASSED_ON {
        let script = format!("trap 'exit 3' {name}; {BEGUN}; {WAITS}");
        let call = room.begin(&["once", name], &script);
        call.signal(signal);
        call.end().exits(code).says(&format!("it exited with 3 after SIG{name}"));
        assert_eq!(room.state(name), "unknown");
        room.sh(&["once", name], &script).exits(76);
    }
}

#[test]
fn end_by_any_signal_is_unknown() {
    let room = Room::new();
    for (signal, name, code) in PASSED_ON {
        let script = format!("ulimit -c 0; {BEGUN}; exec sleep 60");
        let call = room.begin(&["once", name], &script);
        call.signal(signal);
        call.end().exits(code).says(&format!("SIG{name} ended it"));
        assert_eq!(room.state(name), "unknown");
        room.sh(&["once", name], &script).exits(76);
    }
}

#[test]
fn signals_are_passed_on_as_often_as_they_come_and_nothing_follows_them() {
    let room = Room::new();
    let script = format!("n=0; trap 'n=$((n+1)); echo $n > n' TERM; {BEGUN}; {WAITS}");
    let call = room.begin(&["once", "k"], &script);
    for n in 1..=3 {
        call.signal(Signal::TERM);
        until("it is passed on", || room.number("n") == Some(n));
    }
    room.write("go", "");
    call.end().exits(0);
    assert_eq!((room.number("n"), room.state("k").as_str()), (Some(3), "done"));
}
