//! Tests in a process whose wall clock is wrong.

use hapax_conformance::Outcome;
use std::{
    env,
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Sets the wall clock of one process off.
const PROGRAM: &str = "faketime";
/// What the child's clock has to show, in seconds.
const SHOWS: &str = "HAPAX_TEST_CLOCK_SHOWS";
/// By so much the clock is wrong.
const HOUR: u64 = 60 * 60;

/// Runs the tests of this program that have `filter` in their names, in a child whose wall clock is an hour ahead, or
/// behind. Their server has to run before, and is named by the variable: what the child starts has its clock.
pub fn run_off_by_an_hour(ahead: bool, filter: &str, (variable, url): (&str, &str)) -> Outcome {
    if let Some(why) = crate::missing(&[PROGRAM]) {
        return Outcome::Ignored(why);
    }
    let (off, shows) = if ahead { ("+1h", now() + HOUR) } else { ("-1h", now() - HOUR) };
    let mut child = Command::new(PROGRAM);
    child.args(["--exclude-monotonic", "-f", off]);
    child.arg(env::current_exe().expect("this program")).arg(filter);
    child.env(SHOWS, shows.to_string()).env(variable, url);
    let ended = child.output().expect("it starts");
    let said = String::from_utf8_lossy(&ended.stdout);
    if ended.status.success() && said.contains("test result: ok") && !said.contains(" 0 passed") {
        return Outcome::Passed;
    }
    Outcome::Failed(format!("{}: {said}{}", ended.status, String::from_utf8_lossy(&ended.stderr)))
}

/// To be called first in a program that [`run_off_by_an_hour`] runs: in the child, that its clock is off.
pub fn check_clock() {
    if let Ok(shows) = env::var(SHOWS) {
        let shows: u64 = shows.parse().expect("seconds");
        assert!(now().abs_diff(shows) < HOUR / 2, "the clock shows {}, and not {shows}", now());
    }
}

#[expect(clippy::disallowed_methods, reason = "it is about the wall clock of this process")]
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}
