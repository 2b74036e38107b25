//! The bar: on a terminal, and nowhere else.

use super::{lines, send};
use crate::sandbox::Sandbox;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::{ffi::OsStr, fs::File, io::Read, os::unix::ffi::OsStrExt, process::Stdio, thread};

/// What a run shows on a terminal.
fn shown(sandbox: &Sandbox, args: &[&str]) -> String {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = File::options().read(true).write(true).open(OsStr::from_bytes(name.as_bytes())).unwrap();
    let mut command = sandbox.command(args);
    let mut run = command.env("TERM", "xterm").stdout(Stdio::null()).stderr(theirs).spawn().unwrap();
    // It holds the terminal open.
    drop(command);
    let reader = thread::spawn(move || {
        let (mut ours, mut all) = (File::from(ours), Vec::new());
        // When nobody has the other end any more, that is an error and not an end.
        let mut part = [0; 4096];
        while let Ok(n @ 1..) = ours.read(&mut part) {
            all.extend_from_slice(part.get(..n).unwrap());
        }
        String::from_utf8_lossy(&all).into_owned()
    });
    assert!(run.wait().unwrap().success());
    reader.join().unwrap()
}

#[test]
fn a_bar_is_shown_on_a_terminal_and_nowhere_else() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(30));
    let args = ["mail", "send", "a.jsonl", "--via", "stub:", "--rate", "30/s"];
    let bar = shown(&sandbox, &args);
    assert!(bar.contains("/30") && bar.contains("left") && bar.contains("checking: "), "{bar:?}");
    assert!(bar.trim_end().ends_with("sent 30, replayed 0, failed 0, unknown 0, in flight 0"), "{bar:?}");
    assert!(!shown(&sandbox, &[&args[..], &["--quiet"]].concat()).contains("/30"));
    let piped = send(&sandbox, &["a.jsonl", "--via", "stub:"]).exits(0);
    assert_eq!(piped.stderr, "sent 0, replayed 30, failed 0, unknown 0, in flight 0\n");
}
