//! What is recorded and replayed, what is cut, and a stdout that nobody reads.

use crate::sandbox::{Ran, Sandbox, until};
use serde_json::json;
use std::{io::Read, process::Stdio};

#[test]
fn output_above_the_limit_is_cut_and_says_so() {
    let sandbox = Sandbox::new();
    let script = "head -c 10000000 /dev/zero | tr '\\0' a; echo err >&2";
    let first = sandbox.sh(&["once", "k"], script).exits(0);
    assert_eq!((first.stdout.len(), first.stderr.as_str()), (10_000_000, "err\n"));
    let second = sandbox.sh(&["once", "k"], script).exits(0).says("output cut: 64 KiB of 10 MB kept");
    assert_eq!(second.stdout.len(), 65_536);
    // It matters too much to be left out.
    sandbox.sh(&["once", "k", "-q"], script).exits(0).says("output cut");
    assert_eq!(sandbox.sh(&["once", "k", "--json"], script).json()["truncated"], true);
}

#[test]
fn the_limit_can_be_chosen_and_counts_for_each_stream() {
    let sandbox = Sandbox::new();
    let script = "printf 12345; printf 123456 >&2";
    sandbox.sh(&["once", "k", "--record-limit", "5B"], script).exits(0);
    let second = sandbox.sh(&["once", "k"], script).exits(0).says("output cut: 5 B of 6 B kept (stderr)");
    assert_eq!(second.stdout, "12345");
    assert!(second.stderr.starts_with("12345") && !second.stderr.contains("(stdout)"), "{second:?}");
}

#[test]
fn bytes_that_are_no_text_survive() {
    let sandbox = Sandbox::new();
    let script = r"printf '\377\000\n'";
    for _ in 0..2 {
        let output = sandbox.sh_command(&["once", "k", "-q"], script).output().unwrap();
        assert_eq!(output.stdout, [0xff, 0, b'\n']);
    }
    let object = sandbox.sh(&["once", "k", "--json"], script).json();
    assert_eq!(object["stdout_base64"], "/wAK");
    assert_eq!(object["stdout"], "\u{fffd}\0\n");
}

#[test]
fn without_a_record_only_the_note_is_replayed() {
    let sandbox = Sandbox::new();
    let first = sandbox.sh(&["once", "k", "--no-record"], "echo out").exits(0);
    assert_eq!(first.stdout, "out\n");
    let second = sandbox.sh(&["once", "k"], "echo out").exits(0).says("replayed");
    assert_eq!(second.stdout, "");
    let shown = sandbox.hapax(&["keys", "get", "k", "--json"]).json();
    assert_eq!(shown["receipt"]["recorded"], json!(false));
    sandbox.sh(&["once", "j", "--no-record", "--json"], "echo out").exits(2);
}

#[test]
fn a_closed_stdout_ends_the_output_and_not_the_work() {
    let sandbox = Sandbox::new();
    let script = "head -c 3000000 /dev/zero | tr '\\0' a; echo x > over";
    let mut child = sandbox.sh_command(&["once", "k"], script).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0]).unwrap();
    drop(stdout);
    Ran::of(child.wait_with_output().unwrap()).exits(0);
    assert!(sandbox.path("over").exists());
    assert_eq!(sandbox.state("k"), "done");
    // A replay into a closed pipe exits as the first did, too.
    let mut child = sandbox.sh_command(&["once", "k", "-q"], script).spawn().unwrap();
    drop(child.stdout.take());
    Ran::of(child.wait_with_output().unwrap()).exits(0);
}

#[test]
fn a_reader_that_does_not_read_holds_up_no_receipt() {
    let sandbox = Sandbox::new();
    // More than one pipe holds, so that hapax cannot get rid of it, and less than two, so that the command can.
    let script = "head -c 100000 /dev/zero | tr '\\0' a";
    let mut child = sandbox.sh_command(&["once", "k"], script).spawn().unwrap();
    until("the receipt is stored", || sandbox.state("k") == "done");
    assert!(child.try_wait().unwrap().is_none());
    let mut all = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 100_000);
    Ran::of(child.wait_with_output().unwrap()).exits(0);
}

#[test]
fn a_list_into_a_closed_pipe_is_no_error() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "k"], "exit 0").exits(0);
    for args in [&["keys", "list"][..], &["codes"], &["completions", "bash"], &["--help"]] {
        let mut child = sandbox.command(args).spawn().unwrap();
        drop(child.stdout.take());
        let ran = Ran::of(child.wait_with_output().unwrap()).exits(0);
        assert_eq!(ran.stderr, "", "{args:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_behind_stdout_is_reported() {
    let sandbox = Sandbox::new();
    let full = || Stdio::from(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let output = sandbox.command(&["codes"]).stdout(full()).output().unwrap();
    Ran::of(output).exits(1).says("stdout can no longer be written");
    // The command that was run is what counts: its output is lost, its outcome is not.
    let output = sandbox.sh_command(&["once", "k"], "echo out; exit 0").stdout(full()).output().unwrap();
    Ran::of(output).exits(0).says("can no longer be copied");
    assert_eq!(sandbox.sh(&["once", "k"], "echo out; exit 0").exits(0).stdout, "out\n");
}

#[test]
fn notes_are_for_stderr_and_can_be_left_out() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "k"], "exit 0").exits(0);
    let list = sandbox.hapax(&["keys", "list", "--limit", "1"]).exits(0);
    assert!(list.stdout.starts_with("k\tdone\tonce\t"), "{list:?}");
    let verbose = sandbox.sh(&["once", "k", "-vv"], "exit 0").exits(0);
    assert_eq!(verbose.stdout, "");
    sandbox.sh(&["once", "k", "-v"], "exit 0").exits(0).says("settled by an earlier call");
    sandbox.sh(&["once", "new", "-v"], "exit 0").exits(0).says("the command is run").says("fate");
    sandbox.hapax(&["keys", "list", "-q", "-v"]).exits(2);
}

#[test]
fn terminal_commands_in_a_key_are_shown_as_text() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "a\x1b[2Jb"], "exit 0").exits(0);
    let again = sandbox.sh(&["once", "a\x1b[2Jb"], "exit 0").exits(0);
    assert!(!again.stderr.contains('\x1b') && again.stderr.contains(r"a\u{1b}[2Jb"), "{again:?}");
    assert!(!sandbox.hapax(&["keys", "list"]).stdout.contains('\x1b'));
    // Neither does what is said to do about it command any, and a shell reads the key back.
    let unknown =
        sandbox.sh(&["once", "u\x1b[2J"], "exit 76").exits(76).says(r"hapax keys resolve $'u\033[2J'");
    assert!(!unknown.stderr.contains('\x1b'), "{unknown:?}");
    sandbox.sh(&["once", "c\x1b[2J"], "exit 0").exits(0);
    let more = sandbox.hapax(&["keys", "list", "--limit", "1"]).exits(0).says("--after $'");
    assert!(!more.stderr.contains('\x1b'), "{more:?}");
    let nowhere = sandbox.hapax(&["keys", "get", "--key-file", "no\x1b[2J"]).exits(65);
    assert!(!nowhere.stderr.contains('\x1b'), "{nowhere:?}");
}
