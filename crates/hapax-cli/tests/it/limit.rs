//! `hapax limit`: so much in such a time, for scripts.

use crate::sandbox::{Ran, Sandbox};
use serde_json::{Value, json};

/// Five an hour: no test takes that long.
const FIVE: [&str; 7] = ["limit", "check", "login", "--limit", "5", "--window", "1h"];
const ONE: [&str; 7] = ["limit", "run", "api", "--limit", "1", "--window", "1h"];

fn check(sandbox: &Sandbox, args: &[&str]) -> Ran {
    sandbox.hapax(&[&FIVE[..], args].concat())
}

#[test]
fn five_pass_and_the_sixth_is_told_when() {
    let sandbox = Sandbox::new();
    for left in (0..5).rev() {
        let allowed = check(&sandbox, &["--json"]).exits(0).json();
        assert_eq!((&allowed["allowed"], &allowed["remaining"]), (&json!(true), &json!(left)));
    }
    check(&sandbox, &[]).exits(75).says("(limit.limited)").says("help: try again in");
    let refused = check(&sandbox, &["--json"]).exits(75).json();
    let retry = refused["retry_after_ms"].as_u64().unwrap();
    assert!(retry > 0 && retry <= 3_600_000, "{refused}");
    let expected = json!({
        "allowed": false, "limit": 5, "remaining": 0, "cost": 1, "retry_after_ms": retry,
        "reset_after_ms": refused["reset_after_ms"], "dry_run": false, "never": false, "violated": ["login"], "degraded": null,
    });
    assert_eq!(refused, expected);
    // What cannot pass in that time is not waited for.
    check(&sandbox, &["--wait", "1m"]).exits(75);
    // Another name, another namespace, another algorithm: another count.
    let args = ["limit", "check", "other", "--limit", "5", "--window", "1h"];
    assert_eq!(sandbox.hapax(&args).exits(0).stdout, "allowed: 4 of 5 left\n");
    check(&sandbox, &["--namespace", "shop"]).exits(0);
    for algorithm in ["sliding-window", "sliding-counter", "token-bucket"] {
        let left = check(&sandbox, &["--algorithm", algorithm, "--cost", "3", "--json"]).exits(0).json();
        assert_eq!(left["remaining"], 2, "{algorithm}");
    }
    sandbox.hapax(&["limit", "reset", "login"]).exits(0);
    assert_eq!(check(&sandbox, &["--json"]).exits(0).json()["remaining"], 4);
}

#[test]
fn a_dry_run_counts_nothing_and_a_cost_above_the_limit_never_passes() {
    let sandbox = Sandbox::new();
    for _ in 0..2 {
        let dry = check(&sandbox, &["--dry-run", "--cost", "5", "--json"]).exits(0).json();
        assert_eq!((&dry["dry_run"], &dry["allowed"], &dry["cost"]), (&json!(true), &json!(true), &json!(5)));
    }
    check(&sandbox, &["--cost", "6"]).exits(65).says("the cost 6 is above the limit 5 (limit.never)");
    let never = check(&sandbox, &["--cost", "6", "--wait", "1h", "--json"]).exits(65).json();
    assert_eq!((&never["never"], &never["allowed"]), (&json!(true), &json!(false)));
    check(&sandbox, &["--cost", "5"]).exits(0);
    check(&sandbox, &["--dry-run"]).exits(75);
}

#[test]
fn a_store_out_of_reach_is_answered_as_it_was_said() {
    let sandbox = Sandbox::new();
    let nobody = ["--store", "redis://127.0.0.1:1?timeout=200ms", "--json"];
    check(&sandbox, &nobody).exits(69);
    let answer = |word: &str, more: &[&str], code| {
        check(&sandbox, &[&nobody[..], &["--when-down", word], more].concat()).exits(code).json()
    };
    let open = answer("open", &[], 0);
    assert_eq!((&open["allowed"], &open["degraded"]), (&json!(true), &json!("open")));
    let closed = answer("closed", &[], 75);
    assert_eq!((&closed["allowed"], &closed["degraded"]), (&json!(false), &json!("closed")));
    check(&sandbox, &[&nobody[..2], &["--when-down", "closed"]].concat())
        .exits(75)
        .says("bring the store back");
    assert_eq!(answer("open", &["--cost", "6"], 65)["never"], true);
    check(&sandbox, &["--when-down", "local:3"]).exits(2).says("`closed` nothing");
    // A store that answers is asked.
    let asked = check(&sandbox, &["--when-down", "closed", "--json"]).exits(0).json();
    assert_eq!((&asked["remaining"], &asked["degraded"]), (&json!(4), &json!(null)));
    let run = [
        "limit",
        "run",
        "api",
        "--limit",
        "1",
        "--window",
        "1h",
        "--store",
        nobody[1],
        "--when-down",
        "open",
    ];
    assert_eq!(sandbox.hapax(&[&run[..], &["--", "echo", "ran"]].concat()).exits(0).stdout, "ran\n");
}

#[test]
fn a_command_runs_if_it_may() {
    let sandbox = Sandbox::new();
    let first = sandbox.sh(&ONE, "echo $HAPAX_LIMIT_NAME $HAPAX_LIMIT_REMAINING; exit 3").exits(3);
    assert_eq!((first.stdout.as_str(), first.stderr.as_str()), ("api 0\n", ""));
    sandbox.sh(&ONE, "echo x > second").exits(75).says("(limit.limited)");
    let json = |args: &[&str], script| sandbox.sh(&[&ONE[..], &["--json"], args].concat(), script);
    let refused = json(&[], "echo x > second").exits(75).json();
    assert_eq!((&refused["outcome"], &refused["exit_code"]), (&json!("limited"), &json!(75)));
    assert_eq!(refused["decision"]["violated"], json!(["api"]));
    let never = json(&["--cost", "2"], "echo x > second").exits(65).json();
    assert_eq!((&never["outcome"], &never["decision"]["never"]), (&json!("never"), &json!(true)));
    assert!(!sandbox.path("second").exists());
    sandbox.hapax(&["limit", "reset", "api"]).exits(0);
    let ran = json(&[], "echo out; exit 4").exits(4).json();
    assert_eq!(
        (&ran["outcome"], &ran["stdout"], &ran["code"]),
        (&json!("ran"), &json!("out\n"), &Value::Null)
    );
}

#[test]
fn a_command_waits_until_it_may_run() {
    let sandbox = Sandbox::new();
    let args = ["limit", "run", "api", "--limit", "1", "--window", "300ms", "--wait", "50s"];
    for _ in 0..3 {
        sandbox.sh(&args, "echo x >> runs").exits(0);
    }
    assert_eq!(sandbox.read("runs"), "x\nx\nx\n");
}

#[test]
fn a_command_that_cannot_begin_has_been_counted() {
    let sandbox = Sandbox::new();
    let args = [&ONE[..], &["--", "no-such-program"]].concat();
    sandbox.hapax(&args).exits(127).says("the limit has counted it");
    sandbox.hapax(&args).exits(75);
}

#[cfg(target_os = "linux")]
#[test]
fn a_killed_hapax_takes_its_command_along_though_it_ignores_sigterm() {
    use crate::{
        child::processes::is_alive,
        guard::{BEGUN, Room, WAITS},
        sandbox::until,
    };
    let room = Room::new();
    let script = format!("exec 2> /dev/null; trap 'echo 1 > term' TERM; {BEGUN}; {WAITS}");
    let call = room.begin(&ONE, &script);
    let pid = room.pid();
    call.signal(rustix::process::Signal::KILL);
    call.end().exits(-9);
    until("the command is gone", || !is_alive(pid));
    assert_eq!(room.number("term"), Some(1));
}

#[test]
fn how_exact_an_algorithm_is_can_be_asked() {
    let sandbox = Sandbox::new();
    let all =
        sandbox.hapax(&["limit", "explain", "--limit", "5", "--window", "1m", "--json"]).exits(0).lines();
    let most: Vec<_> =
        all.iter().map(|line| (line["algorithm"].as_str().unwrap(), line["most"].as_u64())).collect();
    let nine = Some(9);
    let expected = [
        ("fixed-window", nine),
        ("sliding-window", Some(5)),
        ("sliding-counter", nine),
        ("token-bucket", nine),
    ];
    assert_eq!(most, expected);
    assert!(!sandbox.path("data").exists());
}

#[test]
fn bad_input_is_refused_with_the_way_out() {
    let sandbox = Sandbox::new();
    let with = |limit, window, rest: &[&'static str]| {
        [&["limit", "check", "login", "--limit", limit, "--window", window], rest].concat()
    };
    let long = "n".repeat(65_537);
    for (args, code, says) in [
        (with("0", "1m", &[]), 2, "a limit is from 1 to 2147483648"),
        (with("-1", "1m", &[]), 2, "5 per minute is --limit 5 --window 1m"),
        (with("1.5", "1m", &[]), 2, "`1.5` is no whole number"),
        (with("5/m", "1m", &[]), 2, "5 per minute is --limit 5 --window 1m"),
        (with("99999999999999999999", "1m", &[]), 2, "a limit is from 1 to 2147483648"),
        (with("5", "0s", &[]), 2, "a window is from 1ms to 400d"),
        (with("5", "0.5ms", &[]), 2, "`0.5ms` is no duration"),
        (with("5", "500us", &[]), 2, "`us` is no unit of time"),
        (with("5", "60", &[]), 2, "write 60s"),
        (with("5", "-1m", &[]), 2, "`-1m` is no duration"),
        (with("5", "401d", &[]), 2, "400d is the longest"),
        (with("5", "1m", &["--cost", "0"]), 2, "--dry-run asks without taking anything"),
        (with("5", "1m", &["--cost", "-1"]), 2, "`-1` is no whole number"),
        (with("5", "1m", &["--cost", "99999999999"]), 2, "a cost is from 1 to 4294967295"),
        (with("5", "1m", &["--algorithm", "slidng-window"]), 2, "similar value exists: 'sliding-window'"),
        (
            with("10001", "1m", &["--algorithm", "sliding-window"]),
            2,
            "use a sliding counter for larger limits",
        ),
        (with("2000000000", "400d", &["--algorithm", "token-bucket"]), 2, "use a shorter window"),
        (with("5", "1m", &["--store", "memory:"]), 2, "ends with this process"),
        (vec!["limit", "check", "login", "--limit", "5"], 2, "--window <DUR>"),
        (
            vec!["limit", "check", "", "--limit", "5", "--window", "1m"],
            65,
            "the name of the limit: the key is empty",
        ),
        (vec!["limit", "reset", &long], 65, "(limit.invalid)"),
        (
            vec!["limit", "run", "api", "--limit", "5", "--window", "1m", "--", ""],
            2,
            "the command to run is empty",
        ),
        (vec!["limit", "run", "api", "--limit", "5", "--window", "1m", "true"], 2, "goes behind `--`"),
    ] {
        sandbox.hapax(&args).exits(code).says(says);
    }
    assert!(!sandbox.database().exists());
}
