//! `hapax doctor`: what it finds, and how it ends.

use crate::sandbox::Sandbox;
use serde_json::{Value, json};
use std::{
    fs,
    io::{Seek, SeekFrom, Write},
    os::unix::fs::PermissionsExt,
};

/// Check and severity of each finding.
fn findings(object: &Value) -> Vec<(String, String)> {
    let text = |finding: &Value, name: &str| finding[name].as_str().unwrap().to_owned();
    let findings = object["findings"].as_array().unwrap().iter();
    findings.map(|finding| (text(finding, "check"), text(finding, "severity"))).collect()
}

fn found(check: &str, severity: &str) -> Vec<(String, String)> {
    vec![(check.to_owned(), severity.to_owned())]
}

#[test]
fn a_sound_store_has_facts_and_no_findings() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "k"], "exit 0").exits(0);
    let object = sandbox.hapax(&["doctor", "--json"]).exits(0).json();
    assert_eq!(
        (&object["store"], &object["severity"], findings(&object)),
        (&json!("sqlite"), &Value::Null, vec![])
    );
    assert_eq!(object["facts"]["place"], json!(sandbox.database().to_str().unwrap()));
    assert_eq!(object["facts"]["synchronous"], json!("full"));
    assert!(object["facts"]["version"].as_str().unwrap().starts_with("SQLite 3."), "{object}");
    assert!(object["round_trip_us"].as_u64() <= object["round_trip_max_us"].as_u64(), "{object}");
    let text = sandbox.hapax(&["doctor"]).exits(0).stdout;
    assert!(text.contains("round trip") && text.ends_with("nothing found\n"), "{text}");
}

#[test]
fn a_store_that_is_not_there_is_not_made() {
    let sandbox = Sandbox::new();
    let object = sandbox.hapax(&["doctor", "--json"]).exits(0).json();
    assert_eq!(findings(&object), found("presence", "info"));
    let text = sandbox.hapax(&["doctor"]).exits(0).stdout;
    assert!(text.contains("not there yet"), "{text}");
    assert!(!sandbox.database().exists());
}

#[test]
fn what_costs_a_promise_in_rare_cases_is_a_warning() {
    let sandbox = Sandbox::new();
    let url = format!("sqlite:{}?synchronous=normal", sandbox.path("a.db").display());
    sandbox.sh(&["once", "k", "--store", &url], "exit 0").exits(0);
    let object = sandbox.hapax(&["doctor", "--json", "--store", &url]).exits(0).json();
    assert_eq!(findings(&object), found("synchronous", "warning"));
    let object = sandbox.hapax(&["doctor", "--json", "--store", "memory:"]).exits(0).json();
    assert_eq!(findings(&object), found("persistence", "warning"));
}

#[test]
fn a_store_that_others_may_read_is_a_warning_with_the_remedy() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "k"], "exit 0").exits(0);
    fs::set_permissions(sandbox.database(), fs::Permissions::from_mode(0o644)).unwrap();
    let object = sandbox.hapax(&["doctor", "--json"]).exits(0).json();
    assert_eq!(findings(&object), found("permissions", "warning"));
    let remedy = object["findings"][0]["remedy"].as_str().unwrap();
    assert_eq!(remedy, format!("chmod 600 {}", sandbox.database().display()));
}

#[test]
fn a_damaged_store_is_an_error() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "k"], "exit 0").exits(0);
    let database = rusqlite::Connection::open(sandbox.database()).unwrap();
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let root: i64 =
        database.query_row("SELECT max(rootpage) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
    drop(database);
    let mut file = fs::OpenOptions::new().write(true).open(sandbox.database()).unwrap();
    file.seek(SeekFrom::Start((u64::try_from(root).unwrap() - 1) * 4096)).unwrap();
    file.write_all(&[0xff; 4096]).unwrap();
    drop(file);
    let ran = sandbox.hapax(&["doctor", "--json"]).exits(1);
    assert_eq!(findings(&ran.json()), found("integrity", "error"));
    sandbox.hapax(&["doctor"]).exits(1);
}

#[test]
fn the_books_of_queues_are_looked_at() {
    let sandbox = Sandbox::new();
    sandbox.hapax(&["queue", "add", "q", "1"]).exits(0);
    let object = sandbox.hapax(&["doctor", "--json"]).exits(0).json();
    assert_eq!((&object["facts"]["queues"], findings(&object)), (&json!("1"), vec![]));
    sandbox.sh(&["queue", "work", "q", "--until-empty"], "exit 65").exits(1);
    let object = sandbox.hapax(&["doctor", "--json"]).exits(0).json();
    assert_eq!(findings(&object), found("queue_dead", "info"));
    let remedy = object["findings"][0]["remedy"].as_str().unwrap();
    assert!(remedy.starts_with("hapax queue dead list q"), "{remedy}");
    let database = rusqlite::Connection::open(sandbox.database()).unwrap();
    database.execute_batch("UPDATE hapax_queue_group SET done = 7").unwrap();
    let ran = sandbox.hapax(&["doctor"]).exits(1);
    assert!(
        ran.stdout.contains("error: queue_books: queue `q`") && ran.stdout.contains("7 are too many"),
        "{}",
        ran.stdout
    );
    // A store whose books tell of the past is still fit.
    sandbox.hapax(&["queue", "add", "q", "2"]).exits(0);
}
