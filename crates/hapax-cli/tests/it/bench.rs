//! `bench`: figures of the right form, and nothing left behind.

use crate::sandbox::Sandbox;

#[test]
fn figures_have_the_form_that_comparisons_read() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "mine"], "exit 0").exits(0);
    for (store, inline, name, sync) in [
        ("memory:", false, "idem-memory", "none"),
        ("memory:", true, "idem-memory", "none"),
        ("", false, "idem-sqlite", "FULL"),
        ("", true, "idem-sqlite", "FULL"),
        ("sqlite:other.db?synchronous=normal", false, "idem-sqlite", "NORMAL"),
    ] {
        let mut args = vec!["bench", "--json", "--time", "50ms", "--conc", "3"];
        if !store.is_empty() {
            args.extend(["--store", store]);
        }
        if inline {
            args.push("--inline");
        }
        let rows = sandbox.hapax(&args).exits(0).lines();
        let ops: Vec<_> =
            rows.iter().map(|row| (row["op"].as_str().unwrap(), row["conc"].as_u64().unwrap())).collect();
        assert_eq!(ops, [("fresh", 3), ("replay", 3)]);
        for row in &rows {
            assert_eq!((row["bench"].as_str(), row["sync"].as_str()), (Some(name), Some(sync)));
            assert_eq!(row["inline"], inline);
            for field in ["n", "secs", "ops_s", "client_us_op", "p50_us", "p99_us", "threads"] {
                assert!(row[field].as_f64().unwrap() > 0.0, "{field}: {row}");
            }
            assert_eq!(row.get("fdatasync_us").is_some(), name == "idem-sqlite");
        }
    }
    assert_eq!(sandbox.hapax(&["keys", "list", "--json"]).lines().len(), 1);
}

#[test]
fn figures_are_readable_and_can_use_several_threads() {
    let sandbox = Sandbox::new();
    let table = sandbox
        .hapax(&["bench", "--store", "memory:", "--time", "50ms", "--threads", "2", "--conc", "1,8"])
        .exits(0);
    assert!(table.stdout.starts_with("memory, synchronous none, threads 2\nop "), "{table:?}");
    assert_eq!(table.stdout.lines().count(), 6);
}

#[test]
fn one_operation_can_be_measured_alone() {
    let sandbox = Sandbox::new();
    let args = ["bench", "--store", "memory:", "--time", "50ms", "--conc", "1", "--op", "replay", "--json"];
    let rows = sandbox.hapax(&args).exits(0).lines();
    assert_eq!(rows.iter().map(|row| row["op"].as_str().unwrap()).collect::<Vec<_>>(), ["replay"]);
}

#[test]
fn queues_can_be_measured() {
    let sandbox = Sandbox::new();
    sandbox.hapax(&["queue", "add", "mine", "x"]).exits(0);
    for store in ["memory:", "sqlite:own.db?synchronous=normal", ""] {
        let mut args = vec!["bench", "--queue", "--json", "--conc", "3", "--jobs", "40", "--rate", "400"];
        if !store.is_empty() {
            args.extend(["--store", store]);
        }
        let rows = sandbox.hapax(&args).exits(0).lines();
        let ops: Vec<_> = rows.iter().map(|row| row["op"].as_str().unwrap()).collect();
        assert_eq!(ops, ["add", "add-bulk", "drain", "end-to-end", "latency"]);
        for row in &rows {
            assert_eq!((row["n"].as_u64(), row["conc"].as_u64()), (Some(40), Some(3)));
            assert!(
                row["ops_s"].as_f64().unwrap() > 0.0 && row["bench"].as_str().unwrap().starts_with("queue-")
            );
            assert_eq!(row.get("p50_us").is_some(), row["op"] != "drain", "{row}");
            assert_eq!(row.get("rate").is_some(), row["op"] == "latency");
        }
    }
    // Nothing is left, and nothing of others is touched.
    assert_eq!(sandbox.hapax(&["queue", "list", "mine", "--json"]).exits(0).lines().len(), 1);
    sandbox.hapax(&["bench", "--queue", "--op", "fresh"]).exits(2);
    sandbox.hapax(&["bench", "--jobs", "3"]).exits(2);
    sandbox.hapax(&["bench", "--queue=drian"]).exits(2).says("drain");
}

#[test]
fn locks_and_limits_can_be_measured() {
    let sandbox = Sandbox::new();
    for (store, inline) in
        [("memory:", false), ("memory:", true), ("sqlite:own.db?synchronous=normal", false)]
    {
        let rows = |what: &str| {
            let mut args = vec!["bench", what, "--json", "--time", "20ms", "--conc", "3", "--store", store];
            args.extend(inline.then_some("--inline"));
            sandbox.hapax(&args).exits(0).lines()
        };
        let (locks, limits) = (rows("--lock"), rows("--limit"));
        let ops: Vec<_> = locks.iter().chain(&limits).map(|row| row["op"].as_str().unwrap()).collect();
        assert_eq!(ops, ["lock", "fixed-window", "sliding-counter", "token-bucket"]);
        for row in locks.iter().chain(&limits) {
            assert!(row["ops_s"].as_f64().unwrap() > 0.0 && row["p50_us"].as_f64().is_some(), "{row}");
        }
        assert!(locks[0]["bench"].as_str().unwrap().starts_with("lock-"), "{locks:?}");
        assert_eq!(rows("--limit=token-bucket").len(), 1);
    }
    assert!(
        sandbox.hapax(&["lock", "list", "--store", "sqlite:own.db", "--json"]).exits(0).lines().is_empty()
    );
    sandbox.hapax(&["bench", "--lock", "--limit"]).exits(2);
    sandbox.hapax(&["bench", "--limit=leaky"]).exits(2).says("token-bucket");
}
