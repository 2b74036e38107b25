//! The documents say what is there: every code, and only tests that exist.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn doc(name: &str) -> String {
    fs::read_to_string(root().join("docs").join(name)).unwrap()
}

fn ticked(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_code_is_in_the_list_of_errors() {
    let text = doc("errors.md");
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let listed: BTreeSet<&str> = rows
        .filter_map(|row| ticked(row).next())
        .filter(|code| code.contains('.'))
        // Those of the command alone: `hapax codes` has them.
        .filter(|code| !code.starts_with("command."))
        .collect();
    let codes = hapax::codes();
    let compiled: BTreeSet<&str> = codes.iter().map(|info| info.code).collect();
    let missing: Vec<_> = compiled.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&compiled).collect();
    assert!(missing.is_empty() && gone.is_empty(), "missing: {missing:?}; gone: {gone:?}");
    assert_eq!(compiled.len(), codes.len(), "a code stands twice");
}

#[test]
fn every_test_that_a_document_names_exists() {
    let mut sources = String::new();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                sources.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }
    let is_test_name = |word: &&str| {
        word.matches('_').count() >= 3
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    for name in
        ["seeds.md", "guarantees.md", "queue-faults.md", "lock-faults.md", "mail-faults.md", "http.md"]
    {
        let text = doc(name);
        let named: Vec<_> = ticked(&text).filter(is_test_name).collect();
        let gone: Vec<_> = named.iter().filter(|test| !sources.contains(&format!("fn {test}("))).collect();
        assert!(!named.is_empty() && gone.is_empty(), "{name} names tests that do not exist: {gone:?}");
    }
}
