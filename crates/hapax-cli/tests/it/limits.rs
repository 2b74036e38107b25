//! Little room: for files, for open files, on the disk. Nothing is run, and the reason is said.
#![expect(clippy::indexing_slicing, reason = "tests")]

use crate::sandbox::{Ran, Sandbox};
use serde_json::json;
use std::{fs, io, path::PathBuf, process::Command};

const ONCE: &[&str] = &["once", "k", "--json", "--", "/bin/sh", "-c", "echo x > ran"];

#[track_caller]
fn store_failed(sandbox: &Sandbox, ran: Ran) -> Ran {
    let ran = ran.exits(69);
    assert_eq!(ran.json()["outcome"], json!("store_failed"), "{ran:?}");
    assert!(!sandbox.path("ran").exists());
    ran
}

#[test]
fn a_limit_on_the_size_of_files_is_a_store_that_fails() {
    for blocks in [0, 8] {
        let sandbox = Sandbox::new();
        let limit = format!("ulimit -f {blocks}");
        for _ in ["a new store", "one that is there"] {
            store_failed(&sandbox, sandbox.within(&limit, ONCE)).says("raise `ulimit -f`");
            sandbox.sh(&["once", "other"], "exit 0").exits(0);
        }
        assert_eq!(sandbox.state("k"), "vacant");
        sandbox.hapax(ONCE).exits(0);
    }
}

#[test]
fn a_limit_on_the_size_of_files_is_the_commands_as_it_was() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "warm"], "exit 0").exits(0);
    let args = ["once", "k", "--", "/bin/sh", "-c", "exec head -c 3000000 /dev/zero > large"];
    // SIGXFSZ, number 25.
    sandbox.within("ulimit -c 0; ulimit -f 4096", &args).exits(128 + 25).says("SIGXFSZ ended it");
    // Unless whoever starts hapax would rather have the error.
    let args = [&["once", "ignored"], &args[2..]].concat();
    sandbox.within("trap '' XFSZ; ulimit -f 4096", &args).exits(1).says("large");
}

#[test]
fn too_few_open_files_are_said_and_nothing_is_run() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "warm"], "exit 0").exits(0);
    let said = |ran: Ran| {
        ran.says("too many open files").says("raise `ulimit -n`").says("store.unavailable");
    };
    said(store_failed(&sandbox, sandbox.within("ulimit -n 8", ONCE)));
    sandbox.write("a.jsonl", "");
    said(sandbox.within("ulimit -n 8", &["mail", "send", "a.jsonl"]).exits(69));
    said(sandbox.within("ulimit -n 8", &["keys", "list"]).exits(69));
    // At any other number, too: either all of it goes well, or it is said before anything has begun.
    let mut enough = false;
    for limit in 5..64 {
        let ran = sandbox.within(&format!("ulimit -n {limit}"), ONCE);
        if ran.code == 0 {
            assert!(!ran.stderr.contains("warning"), "{limit}: {ran:?}");
            enough = true;
            break;
        }
        said(store_failed(&sandbox, ran));
    }
    assert!(enough);
}

const MAIL: &str = r#"{"from":"a@example.com","to":"b@example.com","text":"x","idempotency_key":"m"}"#;

/// A disk of its own for a store.
struct Disk(PathBuf);

impl Disk {
    fn new(place: PathBuf) -> Self {
        fs::create_dir(&place).unwrap();
        let disk = Self(place);
        disk.call(&["mount", "-t", "tmpfs", "-o", "size=1m", "none"]);
        disk
    }

    fn call(&self, command: &[&str]) {
        let status = Command::new(command[0]).args(&command[1..]).arg(&self.0).status().unwrap();
        assert!(status.success(), "{command:?}");
    }

    /// Leaves no room on it.
    fn fill(&self) {
        let error = io::copy(&mut io::repeat(0), &mut fs::File::create(self.0.join("filler")).unwrap());
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    fn make_room(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Also of a test that fails.
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
#[ignore = "mounts a file system, which root alone may"]
fn a_disk_that_is_full_refuses_what_is_new_and_answers_what_was_kept() {
    let sandbox = Sandbox::new();
    let disk = Disk::new(sandbox.path("disk"));
    let store = format!("sqlite:{}", disk.0.join("x.db").display());
    let once = |key: &str| {
        let script = format!("echo x >> ran-{key}");
        sandbox.sh(&["--store", &store, "once", key, "--lease", "1s"], &script)
    };
    once("first").exits(0);
    disk.fill();
    // What there is of the log may hold a few more.
    let keys: Vec<_> = (0..20).map(|n| format!("k{n}")).collect();
    let (mut kept, mut refused) = (vec!["first"], None);
    for key in &keys {
        let ran = once(key);
        if ran.code == 69 {
            refused = Some((key, ran));
            break;
        }
        let stored = !ran.exits(0).stderr.contains("complete_failed");
        kept.extend(stored.then_some(key.as_str()));
    }
    let (key, ran) = refused.unwrap();
    assert!(!sandbox.path(&format!("ran-{key}")).exists());
    ran.says("is full: make room");
    sandbox.write("a.jsonl", MAIL);
    let mail = ["--store", &store, "mail", "send", "a.jsonl"];
    let ran = sandbox.hapax(&mail).exits(1).says("idempotency.store_failed").says("make room");
    assert!(ran.stderr.ends_with("sent 0, replayed 0, failed 1, unknown 0, in flight 0\n"), "{ran:?}");
    assert!(!sandbox.path("outbox").exists());
    for key in kept {
        once(key).exits(0).says("replayed");
        assert_eq!(sandbox.read(&format!("ran-{key}")).lines().count(), 1);
    }
    disk.make_room();
    once(key).exits(0);
    sandbox.hapax(&mail).exits(0);
}
