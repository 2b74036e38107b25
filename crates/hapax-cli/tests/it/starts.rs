//! What is started, and what is said where nothing is.

use crate::sandbox::{Begun, Ran, Sandbox, until};
use rustix::process::Signal;
use std::fs;

/// `hapax once KEY -- COMMAND`, with this `PATH`.
fn once(sandbox: &Sandbox, key: &str, command: &str, path: &str) -> Ran {
    Ran::of(sandbox.command(&["once", key, "--", command]).env("PATH", path).output().unwrap())
}

#[test]
fn a_file_that_is_no_program_is_not_taken_for_a_script_of_the_shell() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("bin")).unwrap();
    let text = "echo x >> ran\n";
    sandbox.program("bin/job", text);
    // Cut off before its first line.
    sandbox.program("bin/empty", "");
    for (command, path) in [("bin/job", "/bin"), ("job", "bin:/bin"), ("bin/empty", "/bin")] {
        once(&sandbox, "k", command, path)
            .exits(126)
            .says(&format!("{command}: exec format error"))
            .says("`#!` line")
            .says("command.not_executable");
        assert_eq!(sandbox.state("k"), "vacant");
    }
    assert!(!sandbox.path("ran").exists());
    // What to do about it is right.
    once(&sandbox, "sh", "sh", "/bin").exits(0);
    sandbox.sh(&["once", "named"], ". bin/job").exits(0);
    sandbox.program("bin/job", &format!("#!/bin/sh\n{text}"));
    once(&sandbox, "k", "bin/job", "/bin").exits(0);
    assert_eq!(sandbox.read("ran").lines().count(), 2);
}

#[test]
fn a_command_is_looked_for_as_a_shell_does() {
    let sandbox = Sandbox::new();
    for folder in ["data-only", "one", "two", "here"] {
        fs::create_dir(sandbox.path(folder)).unwrap();
    }
    sandbox.write("data-only/job", "no program");
    sandbox.program("one/job", "#!/bin/sh\necho one\n");
    sandbox.program("two/job", "#!/bin/sh\necho two\n");
    sandbox.program("job", "#!/bin/sh\necho here\n");
    let says = |key: &str, path: &str| once(&sandbox, key, "job", path).exits(0).stdout;
    assert_eq!(says("first", "one:two"), "one\n");
    assert_eq!(says("next", "nowhere:job:data-only:two"), "two\n");
    // No folder is the one it runs in, a file with a slash is looked for nowhere else.
    assert_eq!(says("empty", "nowhere::two"), "here\n");
    assert_eq!(once(&sandbox, "slash", "two/job", "one").exits(0).stdout, "two\n");
    once(&sandbox, "k", "job", "nowhere:data-only").exits(126).says("job: Permission denied");
    once(&sandbox, "k", "job", "nowhere").exits(127).says("job: command not found");
    once(&sandbox, "k", "here/job", "one").exits(127).says("here/job: command not found");
    // Without the variable there are the places that every system has.
    let mut command = sandbox.command(&["once", "default", "--", "sh", "-c", "exit 5"]);
    Ran::of(command.env_remove("PATH").output().unwrap()).exits(5);
}

#[test]
fn a_signal_before_the_command_says_that_nothing_was_run() {
    for (signal, name, code) in [(Signal::INT, "SIGINT", 130), (Signal::TERM, "SIGTERM", 143)] {
        let sandbox = Sandbox::new();
        fs::create_dir_all(sandbox.database().parent().unwrap()).unwrap();
        // Whoever finds it empty makes the tables, and here has to wait for that.
        let lock = rusqlite::Connection::open(sandbox.database()).unwrap();
        lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
        let store = format!("sqlite:{}?timeout=1m", sandbox.database().display());
        let mut command = sandbox.sh_command(&["once", "k", "--store", &store, "-q"], "echo x > ran");
        let call = Begun::of(&mut command);
        until("it opens the store", || has_open(call.id(), &sandbox));
        call.signal(signal);
        let ran = call.end().exits(code).says("command.interrupted");
        assert!(ran.stderr.contains(&format!("{name} came before the command was started: nothing was run")));
        assert!(!sandbox.path("ran").exists());
    }
}

#[test]
fn a_signal_after_it_says_that_the_outcome_is_unknown() {
    let sandbox = Sandbox::new();
    let call = sandbox.begin(&["once", "k", "-q"], "echo x > begun; exec sleep 60");
    call.signal(Signal::TERM);
    let ran = call.end().exits(143).says("the outcome of k is unknown: SIGTERM ended it");
    assert!(!ran.stderr.contains("nothing was run"), "{ran:?}");
}

fn has_open(process: u32, sandbox: &Sandbox) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    open.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok()).any(|file| file == sandbox.database())
}
