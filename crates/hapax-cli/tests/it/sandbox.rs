//! The real command, in a home of its own.
#![expect(clippy::indexing_slicing, reason = "tests")]

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    thread,
    time::Duration,
};
use tempfile::TempDir;
use tokio::time::Instant;

/// Far more than anything here takes on a slow machine.
fn patience() -> Duration {
    let is_long = std::env::var_os("HAPAX_TEST_LONG").is_some();
    Duration::from_mins(if is_long { 30 } else { 1 })
}

/// A home, a working directory and a store that nobody else has.
pub(crate) struct Sandbox(TempDir);

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A file in the working directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// What a command has written to a file of the working directory.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// A file in the working directory that may be executed.
    pub(crate) fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.write(name, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// The database of the default store.
    pub(crate) fn database(&self) -> PathBuf {
        self.path("data/hapax/hapax.db")
    }

    /// `hapax ARGS`, ready to be started.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.of(Command::new(env!("CARGO_BIN_EXE_hapax")));
        command.args(args);
        command
    }

    fn of(&self, mut command: Command) -> Command {
        command.current_dir(self.0.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HOME", self.path("home")).env("XDG_DATA_HOME", self.path("data"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs `hapax ARGS` to its end.
    pub(crate) fn hapax(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    /// Runs `hapax ARGS` to its end, under limits of the shell such as `ulimit -n 8`.
    pub(crate) fn within(&self, limits: &str, args: &[&str]) -> Ran {
        let hapax = self.command(args);
        let mut shell = self.of(Command::new("/bin/sh"));
        shell.args(["-c", &format!("{limits}; exec \"$0\" \"$@\"")]);
        Ran::of(shell.arg(hapax.get_program()).args(hapax.get_args()).output().unwrap())
    }

    /// Runs `hapax ARGS… -- /bin/sh -c SCRIPT` to its end.
    pub(crate) fn sh(&self, args: &[&str], script: &str) -> Ran {
        Ran::of(self.sh_command(args, script).output().unwrap())
    }

    pub(crate) fn sh_command(&self, args: &[&str], script: &str) -> Command {
        let mut command = self.command(args);
        command.args(["--", "/bin/sh", "-c", script]);
        command
    }

    /// Starts it, and returns when its script has written the file `begun`.
    pub(crate) fn begin(&self, args: &[&str], script: &str) -> Begun {
        let _ = fs::remove_file(self.path("begun"));
        let child = self.sh_command(args, script).spawn().unwrap();
        let begun = Begun(child);
        until("the command begins", || self.path("begun").exists());
        begun
    }

    /// The state of a key.
    pub(crate) fn state(&self, key: &str) -> String {
        let shown = self.hapax(&["keys", "get", key, "--json"]);
        assert_eq!(shown.code, 0, "{shown:?}");
        shown.json()["state"].as_str().unwrap().to_owned()
    }
}

impl Drop for Sandbox {
    /// What a test that fails has left running ends with it.
    fn drop(&mut self) {
        let (Ok(home), Ok(all)) = (self.0.path().canonicalize(), fs::read_dir("/proc")) else { return };
        for process in all.flatten() {
            let is_here = fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(&home));
            let pid = process.file_name().to_str().and_then(|pid| Pid::from_raw(pid.parse().ok()?));
            if let Some(pid) = pid.filter(|_| is_here) {
                // It may be gone by now.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// A command that runs.
pub(crate) struct Begun(Child);

impl Begun {
    /// Starts it.
    pub(crate) fn of(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Whoever stops it goes on when it stands.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, signal).unwrap();
        if signal == Signal::STOP {
            // A thread goes on until it next leaves the system, by then perhaps with a lock.
            let stops = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            waitid(WaitId::Pid(pid), stops).unwrap();
        }
    }

    /// What it writes to stdout, as it comes.
    pub(crate) fn lines(&mut self) -> impl Iterator<Item = String> + use<> {
        let stdout = self.0.stdout.take().unwrap();
        BufReader::new(stdout).lines().map(Result::unwrap)
    }

    pub(crate) fn end(self) -> Ran {
        Ran::of(self.0.wait_with_output().unwrap())
    }
}

/// The end of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: code_of(output.status),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The one object on stdout.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// The objects on stdout.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Has to have ended so.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// Has to have said so on stderr.
    #[track_caller]
    pub(crate) fn says(self, words: &str) -> Self {
        assert!(self.stderr.contains(words), "{words}: {self:?}");
        self
    }
}

pub(crate) fn code_of(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    // A signal that ended hapax itself is never what a test wants, and no code of its own.
    status.code().unwrap_or_else(|| -status.signal().unwrap())
}

/// Looks until it is so.
#[track_caller]
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + patience();
    while !so() {
        assert!(Instant::now() < end, "{what}: not in time");
        pause(Duration::from_millis(5));
    }
}

/// Lets a moment pass.
pub(crate) fn pause(moment: Duration) {
    let end = Instant::now() + moment;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        thread::park_timeout(left);
    }
}

/// Whether the tests run as a user for whom permissions do not count.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// How many lines a file has.
pub(crate) fn lines_of(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}
