//! hapax killed by SIGKILL at random moments, and run again.

use crate::sandbox::{Sandbox, lines_of, pause, until};
use std::{collections::hash_map::RandomState, hash::BuildHasher, time::Duration};
use tokio::time::Instant;

/// How often: `HAPAX_TEST_LONG` asks for the full count.
fn rounds() -> u32 {
    if std::env::var_os("HAPAX_TEST_LONG").is_some() { 1000 } else { 25 }
}

/// What a kill met.
#[derive(Debug, Default)]
struct Met {
    before_the_reserve: u32,
    before_the_command: u32,
    between_command_and_receipt: u32,
    after_the_receipt: u32,
}

#[test]
fn killed_at_random_moments_it_appends_no_second_line_once_the_receipt_is_stored() {
    let sandbox = Sandbox::new();
    let script = "echo \"$HAPAX_KEY\" >> \"line-$HAPAX_KEY\"";
    // How long a run takes here; the store is made on the way.
    let took = (0..5).map(|n| {
        let begun = Instant::now();
        sandbox.sh(&["once", &format!("warm-{n}")], script).exits(0);
        begun.elapsed()
    });
    let typical = took.min().unwrap();
    let seed = RandomState::new();
    let line = |key: &str| sandbox.path(&format!("line-{key}"));

    let keys: Vec<_> = (0..rounds()).map(|round| format!("k-{round}")).collect();
    let mut met = Met::default();
    let mut stored = Vec::new();
    for (round, key) in keys.iter().enumerate() {
        let mut call = sandbox.sh_command(&["once", key, "--lease", "1s"], script).spawn().unwrap();
        let moment = |most: Duration| {
            most.mul_f64(f64::from(u16::try_from(seed.hash_one(key) % 1000).unwrap()) / 1000.0)
        };
        if round.is_multiple_of(2) {
            // Somewhere from its start to somewhat beyond its end.
            pause(moment(typical * 5 / 4));
        } else {
            // Around the end of the command: a short part of it, and the one that matters.
            let end = Instant::now() + typical * 20;
            while lines_of(&line(key)) == 0 && Instant::now() < end {
                pause(Duration::from_micros(50));
            }
            pause(moment(typical / 3));
        }
        call.kill().unwrap();
        call.wait().unwrap();
        let state = sandbox.state(key);
        match state.as_str() {
            // No reservation, or one that is over by now.
            "vacant" => met.before_the_reserve += 1,
            "pending" => {}
            "done" => {
                met.after_the_receipt += 1;
                assert_eq!(lines_of(&line(key)), 1, "{key}");
            }
            other => panic!("{key}: {other}"),
        }
        stored.push(state);
    }

    // By the end of its lease what is left of a call is gone, and the key is free.
    for (key, state) in keys.iter().zip(&stored) {
        let file = line(key);
        if state == "pending" {
            until("the lease is over", || sandbox.state(key) != "pending");
        }
        let before = lines_of(&file);
        sandbox.sh(&["once", key, "--wait", "50s"], script).exits(0);
        let after = lines_of(&file);
        match (state.as_str(), before) {
            ("done", _) => assert_eq!((before, after), (1, 1), "{key}"),
            (_, 1) => {
                met.between_command_and_receipt += 1;
                assert_eq!(after, 2, "{key}");
            }
            (_, 0) => {
                met.before_the_command += u32::from(state == "pending");
                assert_eq!(after, 1, "{key}");
            }
            _ => panic!("{key}: {state}, {before} lines"),
        }
        // Now that the receipt is stored, for good.
        sandbox.sh(&["once", key], script).exits(0).says("replayed");
        assert_eq!(lines_of(&file), after, "{key}");
    }
    println!("{} kills: {met:?}", keys.len());
}
