//! Stores that cannot be used: exit 69, the reason, nothing run and nothing written.
#![expect(clippy::indexing_slicing, reason = "tests")]

use crate::sandbox::{Ran, Sandbox, is_root};
use serde_json::json;
use std::{fs, os::unix::fs::PermissionsExt};

const ONCE: &[&str] = &["once", "k"];
const RUN: &str = "echo x > ran";

#[track_caller]
fn refused(sandbox: &Sandbox, ran: Ran, code: &str) {
    ran.exits(69).says(code);
    assert!(!sandbox.path("ran").exists());
    let object = sandbox.sh(&["once", "k", "--json"], RUN).exits(69).json();
    assert_eq!((&object["outcome"], &object["code"]), (&json!("store_failed"), &json!(code)));
}

#[test]
fn a_corrupt_store_is_left_as_it_is() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.database().parent().unwrap()).unwrap();
    let garbage = vec![b'x'; 8192];
    fs::write(sandbox.database(), &garbage).unwrap();
    refused(&sandbox, sandbox.sh(ONCE, RUN), "store.corrupt");
    sandbox.hapax(&["keys", "list"]).exits(69).says("store.corrupt");
    assert_eq!(fs::read(sandbox.database()).unwrap(), garbage);
}

#[test]
fn a_store_of_a_newer_version_names_the_version_it_needs() {
    let sandbox = Sandbox::new();
    sandbox.sh(ONCE, "exit 0").exits(0);
    let database = rusqlite::Connection::open(sandbox.database()).unwrap();
    database
        .execute_batch("UPDATE hapax_meta SET value = 7 WHERE name IN ('layout', 'min_reader', 'min_writer')")
        .unwrap();
    drop(database);
    refused(&sandbox, sandbox.sh(ONCE, RUN).says("layout 7"), "store.version");
    sandbox.hapax(&["store", "upgrade"]).exits(69).says("layout 7");
    sandbox.write(
        "a.jsonl",
        r#"{"from":"a@example.com","to":"b@example.com","text":"x","idempotency_key":"m"}"#,
    );
    for more in [&[][..], &["--dry-run"]] {
        let args = [&["mail", "send", "a.jsonl"], more].concat();
        sandbox.hapax(&args).exits(69).says("layout 7").says("store.version");
    }
    assert!(!sandbox.path("outbox").exists());
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.database().parent().unwrap()).unwrap();
    let database = rusqlite::Connection::open(sandbox.database()).unwrap();
    database.execute_batch("CREATE TABLE songs (title TEXT)").unwrap();
    drop(database);
    refused(&sandbox, sandbox.sh(ONCE, RUN).says("another program"), "store.config");
}

#[test]
fn a_store_that_cannot_be_made_says_why() {
    let sandbox = Sandbox::new();
    sandbox.write("data", "a file where a folder should be");
    refused(&sandbox, sandbox.sh(ONCE, RUN).says("XDG_DATA_HOME"), "store.unavailable");
    sandbox.write("file", "");
    let ran = sandbox.sh(&["--store", "sqlite:file/a.db", "once", "k"], RUN).exits(69);
    assert!(ran.stderr.contains("file/a.db"), "{ran:?}");
}

#[test]
fn a_folder_of_a_store_that_was_named_is_not_made() {
    let sandbox = Sandbox::new();
    let new = sandbox.path("new");
    let absolute = format!("sqlite:{}", new.join("deeper/a.db").display());
    for (url, folder) in
        [(absolute.as_str(), new.join("deeper")), ("sqlite:new/a.db?timeout=1s", new.clone())]
    {
        let missing = format!("`{}` is not there: make it (`mkdir -p`)", folder.display());
        sandbox.sh(&["--store", url, "once", "k"], RUN).exits(69).says("store.config").says(&missing);
        let object = sandbox.sh(&["--store", url, "once", "k", "--json"], RUN).exits(69).json();
        assert_eq!(object["outcome"], "store_failed");
        sandbox.write("a.jsonl", "");
        sandbox.hapax(&["--store", url, "mail", "send", "a.jsonl"]).exits(69).says(&missing);
        assert!(!new.exists() && !sandbox.path("ran").exists());
    }
    fs::create_dir_all(new.join("deeper")).unwrap();
    sandbox.sh(&["--store", &absolute, "once", "k"], RUN).exits(0);
}

#[test]
fn a_store_that_cannot_be_written_says_why() {
    if is_root() {
        // Permissions do not count for root.
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.sh(ONCE, "exit 0").exits(0);
    fs::set_permissions(sandbox.database(), fs::Permissions::from_mode(0o400)).unwrap();
    sandbox.sh(&["once", "other"], RUN).exits(69);
    assert!(!sandbox.path("ran").exists());
}

#[test]
fn a_store_that_stays_locked_is_given_up_in_time() {
    let sandbox = Sandbox::new();
    sandbox.sh(ONCE, "exit 0").exits(0);
    let lock = rusqlite::Connection::open(sandbox.database()).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let store = format!("sqlite:{}?timeout=300ms", sandbox.database().display());
    let object = sandbox.sh(&["--store", &store, "once", "other", "--json"], RUN).exits(69).json();
    assert_eq!(object["outcome"], "store_failed");
    assert!(!sandbox.path("ran").exists());
    // Reading needs no writer.
    sandbox.sh(&["--store", &store, "once", "k"], "exit 0").exits(0).says("replayed");
    lock.execute_batch("ROLLBACK").unwrap();
    assert_eq!(sandbox.state("other"), "vacant");
}

#[test]
fn the_layout_of_this_version_needs_no_upgrade() {
    let sandbox = Sandbox::new();
    sandbox.sh(ONCE, "exit 0").exits(0);
    let answer = sandbox.hapax(&["store", "upgrade", "--json"]).exits(0).json();
    assert_eq!((&answer["layout"], &answer["upgraded"]), (&json!(1), &json!(false)));
}
