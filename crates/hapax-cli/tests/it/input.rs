//! Bad input: refused with what is wrong and what is right, and nothing is run.

use crate::sandbox::Sandbox;
use serde_json::json;
use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt};

#[test]
fn a_bare_number_is_no_duration() {
    let sandbox = Sandbox::new();
    for flag in ["--lease", "--ttl", "--unknown-ttl", "--wait", "--timeout", "--every"] {
        sandbox.sh(&["once", "k", flag, "60"], "echo x > ran").exits(2).says("write 60s");
    }
    sandbox.sh(&["once", "k", "--record-limit", "64"], "echo x > ran").exits(2).says("write 64B");
    assert!(!sandbox.path("ran").exists());
}

#[test]
fn durations_have_bounds() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "k", "--lease", "999ms"], "exit 0").exits(2).says("at least 1s");
    sandbox.sh(&["once", "k", "--ttl", "0s"], "exit 0").exits(2);
    sandbox.sh(&["once", "k", "--ttl", "401d"], "exit 0").exits(2).says("400d");
    sandbox.sh(&["once", "k", "--record-limit", "1GiB"], "exit 0").exits(2).says("16 MiB");
}

#[test]
fn keys_that_cannot_be_used_are_refused() {
    let sandbox = Sandbox::new();
    let script = "echo x > ran";
    sandbox.sh(&["once", ""], script).exits(65).says("the key is empty");
    sandbox.sh(&["once", "", "--every", "1d"], script).exits(65).says("the key is empty");
    sandbox.sh(&["once", &"k".repeat(65_537)], script).exits(65).says("65537 bytes");
    sandbox.hapax(&["keys", "get", ""]).exits(65).says("the key is empty");
    let mut command = sandbox.command(&["once"]);
    let output =
        command.arg(OsStr::from_bytes(b"k\xff")).args(["--", "/bin/sh", "-c", script]).output().unwrap();
    crate::sandbox::Ran::of(output).exits(65).says("not UTF-8");
    let object = sandbox.sh(&["once", "", "--json"], script).exits(65).json();
    assert_eq!(object["error"]["code"], "idempotency.invalid");
    assert_eq!(object["error"]["exit_code"], 65);
    assert!(!sandbox.path("ran").exists());
}

#[test]
fn any_other_text_is_a_key() {
    let sandbox = Sandbox::new();
    for key in ["{a}", "a:b\\c", "🐘 naïve", " ", "a\nb", "#sha256:x"] {
        sandbox.sh(&["once", key], "exit 0").exits(0);
        sandbox.sh(&["once", key], "exit 0").exits(0).says("replayed");
        assert_eq!(sandbox.state(key), "done", "{key}");
    }
    assert_eq!(sandbox.hapax(&["keys", "list", "--json"]).lines().len(), 6);
}

#[test]
fn a_long_key_is_kept_and_shown_as_its_hash() {
    let sandbox = Sandbox::new();
    let key = "k".repeat(65_536);
    let first = sandbox.sh(&["once", &key, "--json"], "printf %s \"$HAPAX_KEY\" | wc -c").exits(0).json();
    let shown = first["key"].as_str().unwrap();
    assert!(shown.starts_with("#sha256:") && shown.len() == 72, "{shown}");
    assert_eq!(first["stdout"].as_str().unwrap().trim(), "65536");
    assert_eq!((sandbox.state(&key).as_str(), sandbox.state(shown).as_str()), ("done", "done"));
}

#[test]
fn a_file_holds_the_keys_that_no_command_line_can() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("key", "-a\0b\n");
    let file = file.to_str().unwrap();
    // What holds a NUL cannot be a variable of any program: it is left out.
    sandbox.sh(&["once", "--key-file", file], "exit 0").exits(0);
    sandbox.sh(&["once", "--key-file", file], "exit 0").exits(0).says("replayed");
    let shown = sandbox.hapax(&["keys", "get", "--key-file", file, "--json"]).exits(0).json();
    assert_eq!((&shown["key"], &shown["state"]), (&json!("-a\0b"), &json!("done")));
    sandbox.hapax(&["keys", "get", "--key-file", "nowhere"]).exits(65).says("nowhere");
    sandbox.sh(&["once", "k", "--key-file", file], "exit 0").exits(2);
    sandbox.sh(&["once"], "exit 0").exits(2).says("KEY");
}

#[test]
fn a_file_without_end_holds_no_key() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "--key-file", "/dev/zero"], "echo x > ran").exits(65).says("longer than 64 KiB");
    assert!(!sandbox.path("ran").exists());
    // The newline at the end does not count.
    let longest = sandbox.write("longest", format!("{}\n", "k".repeat(65_536)));
    sandbox.sh(&["once", "--key-file", longest.to_str().unwrap()], "exit 0").exits(0);
    let longer = sandbox.write("longer", "k".repeat(65_537));
    sandbox.sh(&["once", "--key-file", longer.to_str().unwrap()], "exit 0").exits(65).says("65537 bytes");
}

#[test]
fn unknown_flags_name_the_nearest() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "k", "--fingerprnt", "x"], "exit 0").exits(2).says("--fingerprint");
    sandbox.hapax(&["kyes", "list"]).exits(2).says("keys");
    let object = sandbox.hapax(&["keys", "list", "--statee", "done", "--json"]).exits(2).json();
    assert_eq!(object["error"]["code"], "command.usage");
}

#[test]
fn a_command_without_dashes_in_front_gets_the_hint() {
    let sandbox = Sandbox::new();
    sandbox.hapax(&["once", "k", "true"]).exits(2).says("hapax once KEY -- CMD");
    sandbox.hapax(&["once", "k"]).exits(2);
    sandbox.hapax(&["once", "k", "--"]).exits(2);
    sandbox.hapax(&["once", "k", "--", ""]).exits(2).says("empty");
    sandbox.hapax(&["once", "k", "--unknown-exit", "0", "--", "true"]).exits(2);
}

#[test]
fn flags_behind_the_dashes_belong_to_the_command() {
    let sandbox = Sandbox::new();
    let ran = sandbox.hapax(&["once", "k", "--", "echo", "--json", "-q", "--", "--help"]).exits(0);
    assert_eq!(ran.stdout, "--json -q -- --help\n");
}

#[test]
fn memory_is_refused_where_two_runs_would_have_to_share_it() {
    let sandbox = Sandbox::new();
    for args in [
        &["once", "k", "--", "true"][..],
        &["keys", "get", "k"],
        &["keys", "list"],
        &["keys", "prune"],
        &["store", "upgrade"],
    ] {
        let mut command = sandbox.command(&["--store", "memory:"]);
        crate::sandbox::Ran::of(command.args(args).output().unwrap()).exits(2).says("ends with this process");
    }
}

#[test]
fn wrong_urls_say_what_is_right() {
    let sandbox = Sandbox::new();
    let once = |url: &str| sandbox.sh(&["--store", url, "once", "k"], "echo x > ran").exits(2);
    once("sqlite:a.db?synchronus=normal").says("did you mean `synchronous`?");
    once("sqlite:a.db?timeout=5").says("5s");
    once("shop.db").says("sqlite:PATH");
    once("sqlite:").says("sqlite:PATH");
    once("");
    once("mysql://ada:secret@h/db").says("sqlite:");
    once("foo:x").says("`foo:`").says("store.config");
    #[cfg(not(feature = "mongodb"))]
    once("mongodb://h").says("`mongodb:`");
    once("redis://h?prefx=a").says("did you mean `prefix`?");
    once("redis://h?timeout=5").says("5s");
    once("postgres://h/d?prepard=on").says("did you mean `prepared`?");
    for url in ["shop.db", "foo:x", "redis://h?prefx=a", "sqlite:a.db?synchronus=normal", "sqlite:"] {
        for args in [&["keys", "list"][..], &["keys", "get", "k"], &["keys", "prune"], &["store", "upgrade"]]
        {
            let ran = sandbox.hapax(&[&["--store", url, "--json"], args].concat()).exits(2);
            assert_eq!(ran.json()["error"]["code"], "store.config", "{url}");
        }
    }
    let code = sandbox.hapax(&["codes", "store.config"]).exits(0).stdout;
    assert!(code.contains("exit code  2 (URL), 69 (place)"), "{code}");
    assert!(!sandbox.path("ran").exists());
    let files = fs::read_dir(sandbox.path("")).unwrap().count();
    assert_eq!(files, 0);
}

#[test]
fn passwords_are_never_shown() {
    let sandbox = Sandbox::new();
    let url = "mysql://ada:secret@h/db?secret=secret";
    for args in [
        &["once", "k", "--", "true"][..],
        &["keys", "list"],
        &["store", "upgrade"],
        &["bench"],
        &["--help"],
        &["keys", "--help"],
        &["keys", "lst"],
    ] {
        for json in [&[][..], &["--json"]] {
            let mut command = sandbox.command(&[&["--store", url], json].concat());
            command.env("HAPAX_STORE", url).args(args);
            let ran = crate::sandbox::Ran::of(command.output().unwrap());
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert!(!said.contains("secret"), "{args:?}: {said}");
            assert!(!said.is_empty());
        }
    }
}
