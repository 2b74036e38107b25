//! Real servers for the tests of hapax: on free ports, in folders of their own, gone with the test.
//!
//! Each server runs under a small shell that reads a pipe from the test. When the test ends, in whatever way, the pipe
//! closes, and the shell ends the server and removes its folder. What takes long to start is shared by test processes,
//! and goes a moment after the last of them.
//!
//! Everything here panics where a server cannot be had: a test has nothing better to do.
#![expect(clippy::panic, clippy::expect_used, clippy::missing_panics_doc, reason = "for tests alone")]

pub mod https;
pub mod mail;
pub mod mongodb;
pub mod postgres;
mod proxy;
pub mod redis;
mod rotation;
mod shared;
pub mod smtp;
mod supervised;
mod wait;
mod wrong_clock;

pub use crate::{
    proxy::{Fault, Proxy},
    rotation::{Rotation, skips_cut_queues},
    wait::until,
    wrong_clock::{check_clock, run_off_by_an_hour},
};

use std::{
    collections::BTreeMap,
    env,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

/// Why tests that need these programs cannot run here; none where they can. With `CI` set they always run, so that a
/// missing server is a failure there.
pub fn missing(programs: &[&str]) -> Option<String> {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    if is_set("CI") {
        return None;
    }
    let gone: Vec<_> = programs.iter().filter(|program| !is_installed(program)).copied().collect();
    (!gone.is_empty()).then(|| format!("not installed: {}", gone.join(", ")))
}

/// The Python that has clients for HTTP: `scripts/servers` installs it.
///
/// # Errors
/// Why tests that need it cannot run here. With `CI` set they always run.
pub fn python_with_http_clients() -> Result<PathBuf, String> {
    let missing = || "not installed: Python with requests and httpx (`scripts/servers`)".to_owned();
    match cached("http-clients/bin/python") {
        Some(python) => Ok(python),
        None if env::var_os("CI").is_some_and(|value| !value.is_empty()) => panic!("{}", missing()),
        None => Err(missing()),
    }
}

/// What `scripts/servers` has installed there.
fn cached(path: &str) -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
    Some(cache?.join("hapax").join(path)).filter(|path| path.is_file())
}

/// Whether the environment asks for the full counts: `HAPAX_TEST_LONG=1`.
pub fn is_long() -> bool {
    env::var_os("HAPAX_TEST_LONG").is_some_and(|value| value == "1")
}

fn is_installed(program: &str) -> bool {
    in_path(program).is_some()
}

/// Where a program lies. Each is looked for once: whoever lists a thousand cases asks for each of them.
fn in_path(program: &str) -> Option<PathBuf> {
    static FOUND: Mutex<BTreeMap<String, Option<PathBuf>>> = Mutex::new(BTreeMap::new());
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let look = || {
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
    };
    found.entry(program.to_owned()).or_insert_with(look).clone()
}
