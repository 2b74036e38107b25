//! `hapax queue`.
//!
//! | module | what happens |
//! |---|---|
//! | `adding` | jobs are added, and what is wrong is refused |
//! | `cron` | schedules are put, listed and removed, and workers add their jobs |
//! | `working` | commands run for jobs, and end in all ways |
//! | `managing` | jobs and queues are looked at and changed |
//! | `letters` | dead letters leave as lines, and come back |
//! | `mistakes` | what a newcomer runs into |
//! | `faults` | workers are killed, frozen, and told to stop |

mod adding;
mod cron;
#[cfg(target_os = "linux")]
mod faults;
mod letters;
mod managing;
mod mistakes;
mod working;

use crate::sandbox::{Ran, Sandbox};
use serde_json::Value;
use std::{io::Write, process::Stdio};

/// Adds a job, and answers its id.
#[track_caller]
fn add(sandbox: &Sandbox, args: &[&str]) -> String {
    let added = sandbox.hapax(&[&["queue", "add"], args].concat()).exits(0);
    assert_eq!(added.stdout.trim().len(), 32, "{added:?}");
    added.stdout.trim().to_owned()
}

/// Runs `hapax ARGS` with this on its stdin.
fn with_input(sandbox: &Sandbox, args: &[&str], input: &[u8]) -> Ran {
    let mut child = sandbox.command(args).stdin(Stdio::piped()).spawn().unwrap();
    // One that has refused it already reads no more.
    let _ = child.stdin.take().unwrap().write_all(input);
    Ran::of(child.wait_with_output().unwrap())
}

/// The figures of the queue's only group.
#[track_caller]
fn stats(sandbox: &Sandbox, queue: &str) -> Value {
    sandbox.hapax(&["queue", "stats", queue, "--json"]).exits(0).json()
}

#[track_caller]
fn show(sandbox: &Sandbox, queue: &str, id: &str) -> Value {
    sandbox.hapax(&["queue", "show", queue, id, "--json"]).exits(0).json()
}

/// Works on the queue `q` until it is empty.
fn work(sandbox: &Sandbox, args: &[&str], script: &str) -> Ran {
    sandbox.sh(&[&["queue", "work", "q", "--until-empty"], args].concat(), script)
}
