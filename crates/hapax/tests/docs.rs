//! `docs/errors.md` lists every code of this build, and nothing else.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeSet, path::Path};

#[test]
fn every_code_is_in_the_list() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md"));
    let text = std::fs::read_to_string(path).unwrap();
    let listed: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|rest| rest.split('`').next())
        .filter(|code| code.contains('.'))
        .collect();
    let codes = hapax::codes();
    let compiled: BTreeSet<&str> = codes.iter().map(|info| info.code).collect();
    let missing: Vec<_> = compiled.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&compiled).collect();
    assert!(missing.is_empty() && gone.is_empty(), "missing: {missing:?}; gone: {gone:?}");
    assert_eq!(compiled.len(), codes.len(), "a code stands twice");
}
