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
    // How long a run takes that has next to nothing to do, and how long each message takes.
    let begun = Instant::now();
    send(&sandbox, &["one.jsonl", "--via", "stub:"]).exits(0);
    let start = begun.elapsed();
    let args = ["mail", "send", "a.jsonl", "--lease", "1s"];
    let random = RandomState::new();
    let mut met = 0;
    let mut seen = 0;
    for kill in 0..kills {
        let mut run = sandbox.command(&args).spawn().unwrap();
        // From before it begins to well into the sending.
        let moment = start.mul_f64(1.0 / 2.0) + Duration::from_micros(random.hash_one(kill) % 250_000);
        pause(moment);
        run.kill().unwrap();
        met += u32::from(run.wait().unwrap().code().is_none());
        let now = recipients(&sandbox.path("outbox")).len();
        assert!(now >= seen && now <= messages, "{now} after {seen}");
        seen = now;
    }
    assert!(met > kills / 4, "only {met} kills met a run that was at work");
    // What the last run held is free after its lease, and is waited for.
    let ran = end(sandbox.command(&args).spawn().unwrap()).exits(0);
    assert!(ran.stderr.ends_with("failed 0, unknown 0, in flight 0\n"), "{ran:?}");
    assert_eq!(recipients(&sandbox.path("outbox")).len(), messages);
    super::counts(
        &send(&sandbox, &["a.jsonl"]).exits(0),
        &format!("sent 0, replayed {messages}, failed 0, unknown 0, in flight 0"),
    );
    println!("{met} of {kills} kills met a run at work; before the last run {seen} of {messages} were sent");
}
