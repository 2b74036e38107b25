//! Signals, and ends by force.

use crate::child::{Process, program};
use rustix::process::Signal;
use std::process::Command;

pub(crate) const CASES: &[(&str, fn())] = &[
    ("signal_stops_everything_in_order", signal_stops_everything_in_order),
    ("signal_that_comes_twice_at_once_is_one", signal_that_comes_twice_at_once_is_one),
    (
        "signal_while_services_start_stops_what_has_started",
        signal_while_services_start_stops_what_has_started,
    ),
    ("second_signal_ends_the_process_at_once", second_signal_ends_the_process_at_once),
    (
        "process_ends_in_time_when_a_hook_blocks_its_only_thread",
        process_ends_in_time_when_a_hook_blocks_its_only_thread,
    ),
    (
        "second_signal_ends_a_process_whose_only_thread_is_blocked",
        second_signal_ends_a_process_whose_only_thread_is_blocked,
    ),
    (
        "process_ends_in_time_when_the_runtime_waits_for_work",
        process_ends_in_time_when_the_runtime_waits_for_work,
    ),
    (
        "process_without_its_report_lives_on_and_a_signal_ends_it",
        process_without_its_report_lives_on_and_a_signal_ends_it,
    ),
    ("start_that_fails_is_the_exit_code_and_is_printed", start_that_fails_is_the_exit_code_and_is_printed),
    ("signal_that_was_ignored_stays_ignored", signal_that_was_ignored_stays_ignored),
    ("second_application_of_a_process_hears_signals", second_application_of_a_process_hears_signals),
];

fn ready(name: &str) -> Process {
    let mut process = Process::start(program(name));
    for line in ["+store", "+worker", "ready"] {
        process.expect(line);
    }
    process
}

fn signal_stops_everything_in_order() {
    for signal in [Signal::INT, Signal::TERM] {
        let process = ready("orderly");
        process.signal(signal);
        let ended = process.ended();
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
        assert_eq!(ended.out, ["-worker", "-store"]);
    }
}

fn signal_that_comes_twice_at_once_is_one() {
    let process = ready("orderly");
    process.signal(Signal::TERM);
    process.signal(Signal::TERM);
    let ended = process.ended();
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    assert_eq!(ended.out, ["-worker", "-store"]);
}

fn signal_while_services_start_stops_what_has_started() {
    let mut process = Process::start(program("starting"));
    process.expect("+store");
    process.expect("+hangs");
    process.signal(Signal::TERM);
    let ended = process.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(ended.out, ["told", "-hangs", "-store"]);
}

fn second_signal_ends_the_process_at_once() {
    for (first, second, code) in [(Signal::INT, Signal::INT, 130), (Signal::INT, Signal::TERM, 143)] {
        let mut process = Process::start(program("stubborn"));
        process.expect("+store");
        process.expect("ready");
        process.signal(first);
        process.expect("stopping");
        process.insist(second);
        let ended = process.ended();
        assert_eq!(ended.code, Some(code));
        assert_eq!(ended.out, [""; 0]);
        assert!(
            ended.err.ends_with("again: the process ends now; not stopped: stubborn, store\n"),
            "{}",
            ended.err
        );
    }
}

fn process_ends_in_time_when_a_hook_blocks_its_only_thread() {
    let mut process = Process::start(program("blocked"));
    process.expect("ready");
    process.signal(Signal::TERM);
    process.expect("blocking");
    let ended = process.ended();
    assert_eq!(ended.code, Some(124));
    assert_eq!(ended.err, "the time to stop is up: the process ends now; not stopped: blocks\n");
}

fn second_signal_ends_a_process_whose_only_thread_is_blocked() {
    let mut process = Process::start(program("blocked"));
    process.expect("ready");
    process.signal(Signal::TERM);
    process.expect("blocking");
    process.signal(Signal::INT);
    let ended = process.ended();
    assert_eq!(ended.code, Some(130), "{}", ended.err);
}

fn process_ends_in_time_when_the_runtime_waits_for_work() {
    let mut process = Process::start(program("blocking_work"));
    process.expect("+blocks");
    process.expect("ready");
    process.signal(Signal::TERM);
    let ended = process.ended();
    // Everything has stopped in order: that is what the exit code says.
    assert_eq!((ended.code, ended.out), (Some(0), vec!["-blocks".to_owned()]));
    assert_eq!(ended.err, "the time to stop is up: the process ends now\n");
}

fn process_without_its_report_lives_on_and_a_signal_ends_it() {
    let mut process = ready("long_main");
    process.signal(Signal::INT);
    for line in ["-worker", "-store", "dropped", "still here"] {
        process.expect(line);
    }
    process.signal(Signal::TERM);
    assert_eq!(process.ended().code, Some(143));
}

fn start_that_fails_is_the_exit_code_and_is_printed() {
    let ended = Process::start(program("broken")).ended();
    assert_eq!(ended.code, Some(69));
    assert_eq!(ended.out, ["+store", "-store"]);
    let why = "  service.start_failed: service `broken` could not start: no route\n";
    assert!(
        ended.err.starts_with("the application could not start") && ended.err.contains(why),
        "{}",
        ended.err
    );
}

fn signal_that_was_ignored_stays_ignored() {
    let inner = program("orderly");
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"trap "" INT; exec "$0""#]).arg(inner.get_program());
    for (name, value) in inner.get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    let mut process = Process::start(shell);
    for line in ["+store", "+worker", "ready"] {
        process.expect(line);
    }
    process.signal(Signal::INT);
    // Were it heard, this would be the second.
    process.signal(Signal::TERM);
    let ended = process.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(ended.out, ["-worker", "-store"]);
}

fn second_application_of_a_process_hears_signals() {
    let process = ready("restarts");
    process.signal(Signal::TERM);
    let ended = process.ended();
    assert_eq!((ended.code, ended.out.len()), (Some(0), 2), "{}", ended.err);
}
