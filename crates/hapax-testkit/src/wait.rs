//! Waiting for a condition.

use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(30);

/// Waits until there is a value; fails after 30 s, or at once where `given_up` says why.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "a server of another process says nothing when it is ready")]
pub(crate) fn for_value<T>(
    what: &str,
    mut value: impl FnMut() -> Option<T>,
    mut given_up: impl FnMut() -> Option<String>,
) -> Result<T, String> {
    let start = Instant::now();
    while start.elapsed() < LIMIT {
        if let Some(value) = value() {
            return Ok(value);
        }
        if let Some(reason) = given_up() {
            return Err(reason);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Err(format!("never so: {what}"))
}

/// Waits until a condition holds; fails after 30 s.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    if let Err(why) = for_value(what, || holds().then_some(()), || None) {
        panic!("{why}");
    }
}
