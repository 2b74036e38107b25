//! Servers that many test processes share, because starting them takes longer than most tests.
//!
//! Needs the programs `flock` and `mkfifo`. Whoever uses the servers holds a shared lock. A keeper, a shell that belongs
//! to no test, waits until nobody does, and a moment longer, and ends them.

use crate::supervised::folder;
use std::{
    env, fs,
    fs::File,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Holds the pipe open. The last lock is taken without waiting: who came meanwhile keeps the servers.
const KEEPER: &str = r#"
exec 8<>"$PIPE" 9>>"$USERS"
echo ready
exec >/dev/null
while :; do
  flock -x 9
  flock -u 9
  sleep 3
  if flock -n -x 9; then
    rm -f "$STATE"
    exit
  fi
done
"#;

/// A part of servers that others may use too.
#[derive(Debug)]
pub(crate) struct Shared {
    /// What `start` said of them.
    pub(crate) state: String,
    /// The lock goes with it.
    _users: File,
}

/// Finds the servers of a kind, or starts them: `start` gets the pipe that they are to live by.
pub(crate) fn join(kind: &str, is_up: impl Fn(&str) -> bool, start: impl FnOnce(&File) -> String) -> Shared {
    let place = place(kind);
    fs::create_dir_all(&place).expect("a folder for locks");
    let file = |name: &str| File::options().create(true).append(true).open(place.join(name)).expect("a lock");
    let starting = file("starting");
    starting.lock().expect("the lock");
    let users = file("users");
    users.lock_shared().expect("the lock");
    let state_file = place.join("state");
    let found = fs::read_to_string(&state_file).ok().filter(|state| is_up(state));
    let state = found.unwrap_or_else(|| {
        let state = start(&pipe(&place, &state_file));
        fs::write(&state_file, &state).expect("the state");
        state
    });
    Shared { state, _users: users }
}

/// Programs of another checkout, or of another build, do not meet.
fn place(kind: &str) -> PathBuf {
    let program = env::current_exe().expect("this program");
    let name: String = program.display().to_string().chars().filter(char::is_ascii_alphanumeric).collect();
    let tail = name.get(name.len().saturating_sub(80)..).unwrap_or_default();
    env::temp_dir().join("hapax-testkit-shared").join(format!("{kind}-{tail}"))
}

#[expect(clippy::zombie_processes, reason = "the keeper outlives whoever started it")]
/// Starts a keeper, and opens the pipe that it holds.
fn pipe(place: &Path, state: &Path) -> File {
    assert!(crate::is_installed("flock"), "`flock` is not installed: nothing would end the servers");
    let folder = folder().keep();
    let pipe = folder.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo starts");
    assert!(made.success(), "no pipe");
    let mut keeper = Command::new("sh")
        .args(["-c", KEEPER])
        .env("PIPE", &pipe)
        .env("USERS", place.join("users"))
        .env("STATE", state)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("sh starts");
    let mut ready = String::new();
    let said = keeper.stdout.take().expect("the keeper's words");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut ready).expect("the keeper speaks");
    let opened = File::open(&pipe).expect("the pipe");
    // Its ends stay open; nobody else looks for it.
    let _ = fs::remove_dir_all(&folder);
    opened
}
