//! The crates depend on each other as `ARCHITECTURE.md` says, and a driver belongs to one of them.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

type Names = BTreeSet<String>;

/// What each of our crates depends on normally: (ours, others).
fn edges() -> BTreeMap<String, (Names, Names)> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let edges_of = |package: &serde_json::Value| {
        let normal = package["dependencies"].as_array().unwrap().iter().filter(|dep| dep["kind"].is_null());
        let names = normal.map(|dep| dep["name"].as_str().unwrap().to_owned());
        let edges = names.partition(|name| name == "hapax" || name.starts_with("hapax-"));
        (package["name"].as_str().unwrap().to_owned(), edges)
    };
    packages.iter().map(edges_of).collect()
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The table in `ARCHITECTURE.md`: `| crate | depends on | … |`.
fn table() -> BTreeMap<String, Names> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let ticked = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let row = |line: &str| {
        let cells: Vec<_> = line.split('|').collect();
        (ticked(cells[1]).remove(0), ticked(cells[2]).into_iter().collect())
    };
    text.lines().filter(|line| line.starts_with("| `hapax")).map(row).collect()
}

#[test]
fn crates_depend_on_each_other_as_the_table_says() {
    let found: BTreeMap<_, _> = edges().into_iter().map(|(name, (ours, _))| (name, ours)).collect();
    assert_eq!(found, table());
}

#[test]
fn a_driver_stays_in_its_backend() {
    let drivers = [
        ("mongodb", "hapax-mongodb"),
        ("redis", "hapax-redis"),
        ("rusqlite", "hapax-sqlite"),
        ("sqlx", "hapax-postgres"),
    ];
    // The facade's module of a backend takes the caller's transaction, which is a type of the driver.
    let exception = ("sqlx", "hapax");
    for (name, (_, others)) in edges() {
        for (driver, backend) in drivers {
            let expected = name == backend || (driver, &*name) == exception;
            assert_eq!(others.contains(driver), expected, "{driver} in {name}");
        }
    }
}
