//! `hapax mail send` killed by SIGKILL at random moments, and run again until it is done.

use super::{end, lines, recipients, send};
use crate::sandbox::{Sandbox, pause};
use std::{collections::hash_map::RandomState, hash::BuildHasher, time::Duration};
use tokio::time::Instant;

/// So many kills and messages: `HAPAX_TEST_LONG` asks for the full count.
fn counts() -> (u32, usize) {
    if std::env::var_os("HAPAX_TEST_LONG").is_some() { (50, 2000) } else { (25, 500) }
}

#[test]
fn killed_at_random_moments_it_sends_each_message_once_and_none_is_missing() {
    let (kills, messages) = counts();
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(messages));
    sandbox.write("one.jsonl", lines(1));
    // How long a run takes that has next to nothing to do.
    let begun = Instant::now();
    send(&sandbox, &["one.jsonl", "--via", "stub:"]).exits(0);
    let start = begun.elapsed();
    let run = ["mail", "send", "a.jsonl", "--lease", "1s"];
    // Two of three runs last, and send slowly enough for all to have their share; the third is short and hurries.
    let rate = format!("{}/s", messages * 5 / (kills as usize));
    let slow = [&run[..], &["--rate", &rate]].concat();
    let random = RandomState::new();
    let (mut met, mut seen) = (0, 0);
    for kill in 0..kills {
        let (args, most) = if kill % 3 == 2 { (&run[..], 60_000) } else { (&slow[..], 600_000) };
        let mut run = sandbox.command(args).spawn().unwrap();
        pause(start / 2 + Duration::from_micros(random.hash_one(kill) % most));
        run.kill().unwrap();
        met += u32::from(run.wait().unwrap().code().is_none());
        let now = recipients(&sandbox.path("outbox")).len();
        assert!(now >= seen && now <= messages, "{now} after {seen}");
        seen = now;
    }
    assert!(met > kills / 4, "only {met} kills met a run that was at work");
    // What the last run held is free after its lease, and is waited for.
    let ran = end(sandbox.command(&run).spawn().unwrap()).exits(0);
    assert!(ran.stderr.ends_with("failed 0, unknown 0, in flight 0\n"), "{ran:?}");
    assert_eq!(recipients(&sandbox.path("outbox")).len(), messages);
    let again = send(&sandbox, &["a.jsonl"]).exits(0);
    super::counts(&again, &format!("sent 0, replayed {messages}, failed 0, unknown 0, in flight 0"));
    println!("{met} of {kills} kills met a run at work; before the last run {seen} of {messages} were sent");
}
