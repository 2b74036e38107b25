//! `hapax lock`: one holder at a time, and what becomes of one that is frozen, killed, or has its lock taken.

use crate::{
    child::processes::is_alive,
    guard::{BEGUN, Room, WAITS},
    sandbox::{Begun, until},
};
use hapax::{Clock, core::SystemClock};
use rustix::process::Signal;
use serde_json::{Value, json};

const RUN: [&str; 3] = ["lock", "run", "deploy"];
/// Waits for the lock, if need be.
const NEXT: [&str; 5] = ["lock", "run", "deploy", "--wait", "50s"];
/// A lease that is soon over.
const SHORT: [&str; 5] = ["lock", "run", "deploy", "--ttl", "1s"];
const FENCE: &str = "echo $HAPAX_FENCE > fence";
/// Leaves a trace of each moment that it lives.
const BEATS: &str = "while :; do echo first >> beats; sleep 0.02; done";

/// The second command keeps its fence, and marks where it began.
fn next(room: &Room) {
    room.sh(&NEXT, "echo next >> beats; echo $HAPAX_FENCE > next-fence").exits(0);
}

fn fence_in(room: &Room, file: &str) -> u64 {
    room.read(file).trim().parse().unwrap()
}

#[track_caller]
fn show(room: &Room) -> Value {
    room.hapax(&["lock", "show", "deploy", "--json"]).exits(0).json()
}

/// The first command wrote nothing any more when the next one began, and its fence is the smaller one.
#[track_caller]
fn was_gone_before_the_next(room: &Room) {
    let beats = room.read("beats");
    let after: Vec<_> = beats.lines().skip_while(|line| *line != "next").collect();
    assert_eq!(after, ["next"]);
    assert!(fence_in(room, "next-fence") > fence_in(room, "fence"));
}

#[test]
fn one_runs_and_the_other_is_told_to_come_again() {
    let room = Room::new();
    assert_eq!(show(&room)["held"], false);
    assert!(!room.database().exists());
    let first = room.begin(&RUN, &format!("{FENCE}; {BEGUN}; {WAITS}; exit 3"));
    let second = room.sh(&RUN, "echo x > second").exits(75);
    second.says("another holds the lock deploy (lock.busy)").says("hapax lock show deploy");
    let second = room.sh(&[&RUN[..], &["--json"]].concat(), "echo x > second").exits(75).json();
    assert_eq!((&second["outcome"], &second["code"]), (&json!("busy"), &json!("lock.busy")));
    assert!(second["retry_after_ms"].as_u64().unwrap() <= 30_000, "{second}");
    // Another name is another lock.
    room.sh(&["lock", "run", "other"], "exit 0").exits(0);

    let held = show(&room);
    assert_eq!(
        (held["held"].as_bool(), held["fence"].as_u64()),
        (Some(true), Some(fence_in(&room, "fence")))
    );
    let pid = format!("pid {}", first.id());
    assert!(held["holder"].as_str().unwrap().ends_with(&pid), "{held}");
    let listed = room.hapax(&["lock", "list", "--json"]).exits(0).lines();
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!((&listed[0]["name"], &listed[0]["holder"]), (&json!("deploy"), &held["holder"]));
    assert!(room.hapax(&["lock", "list", "--prefix", "x"]).exits(0).stdout.is_empty());

    room.write("go", "");
    first.end().exits(3);
    assert!(!room.path("second").exists());
    let free = show(&room);
    assert_eq!((&free["held"], &free["last_fence"]), (&json!(false), &held["fence"]));
    room.sh(&RUN, "exit 0").exits(0);
}

#[test]
fn who_waits_gets_it_next_and_who_has_waited_long_enough_goes() {
    let room = Room::new();
    let first = room.begin(&RUN, &format!("{FENCE}; {BEGUN}; {WAITS}; echo first >> beats"));
    room.sh(&[&RUN[..], &["--wait", "50ms"]].concat(), "echo x > second").exits(75).says("also after --wait");
    let script = "echo next >> beats; echo $HAPAX_FENCE > next-fence";
    let waits = Begun::of(&mut room.sh_command(&NEXT, script));
    room.write("go", "");
    first.end().exits(0);
    waits.end().exits(0);
    assert_eq!(room.read("beats"), "first\nnext\n");
    was_gone_before_the_next(&room);
    assert!(!room.path("second").exists());
}

#[test]
fn a_frozen_holder_is_gone_before_the_next_one_begins() {
    let room = Room::new();
    let first = room.begin(&SHORT, &format!("{FENCE}; {BEGUN}; {BEATS}"));
    first.signal(Signal::STOP);
    next(&room);
    assert!(!is_alive(room.pid()));
    was_gone_before_the_next(&room);
    first.signal(Signal::CONT);
    first.end().exits(79).says("so it was ended (lock.lost)");
    until("nothing is left", || room.processes().is_empty());
    was_gone_before_the_next(&room);
}

#[test]
fn a_holder_whose_store_is_moved_away_is_told_within_a_renewal() {
    let room = Room::new();
    // Longer than the test may take.
    let first = room.begin(&["lock", "run", "deploy", "--ttl", "3s"], &format!("{BEGUN}; {BEATS}"));
    std::fs::rename(room.database(), room.path("away.db")).unwrap();
    first.end().exits(79).says("so it was ended (lock.lost)");
    room.sh(&RUN, "exit 0").exits(0);
}

#[test]
fn a_killed_hapax_takes_its_command_along_and_the_lock_can_be_broken() {
    let room = Room::new();
    let script = format!("exec 2> /dev/null; trap 'echo 1 > term; exit 0' TERM; {FENCE}; {BEGUN}; {BEATS}");
    let first = room.begin(&RUN, &script);
    let pid = room.pid();
    first.signal(Signal::KILL);
    first.end().exits(-9);
    until("the command is gone", || !is_alive(pid));
    assert_eq!(room.number("term"), Some(1));
    room.sh(&RUN, "exit 0").exits(75);
    room.hapax(&["lock", "break", "deploy"]).exits(2).says("--force");
    let broken = room.hapax(&["lock", "break", "deploy", "--force", "--json"]).exits(0).json();
    assert_eq!((&broken["broken"], broken["fence"].as_u64()), (&json!(true), Some(fence_in(&room, "fence"))));
    next(&room);
    was_gone_before_the_next(&room);
    room.hapax(&["lock", "break", "deploy", "--force"]).exits(0);
}

#[test]
fn a_broken_lock_ends_the_command_or_warns() {
    let room = Room::new();
    let first = room.begin(&SHORT, &format!("{BEGUN}; {BEATS}"));
    room.hapax(&["lock", "break", "deploy", "--force"]).exits(0);
    first.end().exits(79).says("lock.lost");
    assert!(!is_alive(room.pid()));

    let warned = [&SHORT[..], &["--on-lost", "warn"]].concat();
    let first = room.begin(&warned, &format!("{BEGUN}; {WAITS}; exit 4"));
    room.hapax(&["lock", "break", "deploy", "--force"]).exits(0);
    room.sh(&RUN, "exit 0").exits(0);
    room.write("go", "");
    first.end().exits(4).says("warning: the lock deploy").says("lock.lost");
}

#[test]
fn the_command_finds_its_lock_in_the_environment_and_its_output_in_the_object() {
    let room = Room::new();
    let script = "echo $HAPAX_LOCK_NAME $HAPAX_FENCE $HAPAX_LOCK_DEADLINE_MS $HAPAX_NAMESPACE ${HAPAX_STORE-unset}; echo err >&2; exit 5";
    let given = ["--namespace", "shop", "--store", "sqlite:own.db", "--json"];
    let ran = room.sh(&[&RUN[..], &given].concat(), script).exits(5).json();
    let words: Vec<_> = ran["stdout"].as_str().unwrap().split_whitespace().collect();
    // A store may have a password in its URL.
    assert_eq!((words[0], words[3], words[4]), ("deploy", "shop", "unset"));
    assert_eq!(words[1], ran["fence"].to_string());
    let now = SystemClock.now().as_millis();
    let deadline: i64 = words[2].parse().unwrap();
    assert!(deadline > now - 60_000 && deadline < now + 60_000, "{deadline} {now}");
    assert_eq!(
        (&ran["outcome"], &ran["stderr"], &ran["exit_code"]),
        (&json!("ran"), &json!("err\n"), &json!(5))
    );
    assert_eq!((&ran["code"], &ran["name"]), (&Value::Null, &json!("deploy")));
    // Its streams are handed through without that.
    let ran = room.sh(&RUN, "echo out").exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("out\n", ""));
}

#[test]
fn a_command_that_cannot_begin_leaves_the_lock_free() {
    let room = Room::new();
    room.hapax(&[&RUN[..], &["--", "no-such-program"]].concat()).exits(127).says("the lock is free");
    assert_eq!(show(&room)["held"], false);
}

#[test]
fn a_fence_is_shown_and_raised_and_never_made_smaller() {
    let room = Room::new();
    let fence = |args: &[&str]| {
        let args = [&["lock", "fence", "deploy", "--json"], args].concat();
        room.hapax(&args).exits(0).json()["fence"].as_u64()
    };
    assert_eq!(fence(&[]), None);
    let large = 9_000_000_000_000_000;
    assert_eq!(fence(&["--seed", "9000000000000000"]), Some(large));
    assert_eq!(fence(&["--seed", "5"]), Some(large));
    room.sh(&RUN, FENCE).exits(0);
    assert!(fence_in(&room, "fence") > large);
    assert_eq!(fence(&[]), Some(fence_in(&room, "fence")));
}

#[test]
fn bad_input_is_refused_with_the_way_out() {
    let room = Room::new();
    let long = "n".repeat(65_537);
    for (args, code, says) in [
        (&["lock", "run", "deploy"][..], 2, "CMD"),
        (&["lock", "run", "deploy", "echo"], 2, "goes behind `--`"),
        (&["lock", "run", "", "--", "true"], 65, "the name of the lock"),
        (&["lock", "run", &long, "--", "true"], 65, "(lock.invalid)"),
        (&["lock", "run", "deploy", "--", ""], 2, "the command to run is empty"),
        (&["lock", "run", "deploy", "--ttl", "0s", "--", "true"], 2, "at least 1s"),
        (&["lock", "run", "deploy", "--ttl", "30", "--", "true"], 2, "write 30s"),
        (&["lock", "run", "deploy", "--ttl", "-5s", "--", "true"], 2, "`-5s` is no duration"),
        (&["lock", "run", "deploy", "--ttl", "401d", "--", "true"], 2, "400d is the longest"),
        (&["lock", "run", "deploy", "--wait", "soon", "--", "true"], 2, "is no duration"),
        (&["lock", "run", "deploy", "--on-lost", "kil", "--", "true"], 2, "'kill'"),
        (&["lock", "run", "deploy", "--store", "memory:", "--", "true"], 2, "ends with this process"),
        (&["lock", "fence", "deploy", "--seed", "0"], 2, "1 to 9006099743113216"),
        (&["lock", "fence", "deploy", "--seed", "-1"], 2, "1 to 9006099743113216"),
        (&["lock", "fence", "deploy", "--seed", "9006099743113217"], 2, "1 to 9006099743113216"),
        (&["lock", "show", ""], 65, "the name of the lock"),
        (&["lock", "list", "--limit", "0"], 2, "--limit"),
        (&["lock", "brake", "deploy"], 2, "break"),
    ] {
        room.hapax(args).exits(code).says(says);
    }
    assert!(!room.database().exists());
}
