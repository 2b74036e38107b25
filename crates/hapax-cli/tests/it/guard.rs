//! `once` with a terminal, signals, and a hapax that is frozen or killed.
//!
//! | module | what happens |
//! |---|---|
//! | `early` | it ends before it is known whether the command runs |
//! | `ends` | the command leaves children behind, writes much, loses its shell, loses its guard |
//! | `signals` | hapax is signalled |
//! | `jobs` | the command has a terminal |
//! | `owners` | hapax itself is killed or frozen |
#![cfg(target_os = "linux")]

mod early;
mod ends;
mod jobs;
mod owners;
mod signals;

use crate::{
    child::processes::{marked, number_in},
    sandbox::Sandbox,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{ffi::OsStr, ops::Deref};

/// Says who runs, and that it does.
pub(crate) const BEGUN: &str = "echo $PPID > owner; echo $$ > pid; echo x > begun";
/// Waits for the file `go`.
pub(crate) const WAITS: &str = "until [ -e go ]; do sleep 0.02; done";

/// A sandbox, and the processes that come of it: none of them outlives it.
pub(crate) struct Room(Sandbox);

impl Room {
    pub(crate) fn new() -> Self {
        Self(Sandbox::new())
    }

    /// All that runs here: hapax, its helpers, the command and what came of it.
    pub(crate) fn processes(&self) -> Vec<i32> {
        // In the environment of each of them, and of nobody else.
        marked(&format!("XDG_DATA_HOME={}", self.path("data").display()))
    }

    /// A number that a command has written to a file.
    pub(crate) fn number(&self, name: &str) -> Option<i32> {
        number_in(&self.path(name))
    }

    /// The command, once it has begun.
    pub(crate) fn pid(&self) -> i32 {
        self.number("pid").unwrap()
    }

    /// Its hapax.
    pub(crate) fn owner(&self) -> i32 {
        self.number("owner").unwrap()
    }

    /// `hapax ARGS… -- /bin/sh -c SCRIPT` as a line for a shell. The process that the shell starts becomes hapax.
    fn line(&self, args: &[&str], script: &str) -> String {
        let command = self.sh_command(args, script);
        let text = |word: &OsStr| quoted(word.to_str().unwrap());
        let env = command.get_envs().map(|(name, value)| [name, value.unwrap()].map(text).join("="));
        let words = std::iter::once(command.get_program()).chain(command.get_args()).map(text);
        let words: Vec<_> = env.chain(words).collect();
        format!("cd {}; env -i {}", text(self.path("").as_os_str()), words.join(" "))
    }
}

impl Deref for Room {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.0
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // Of a test that failed, some may be left.
        for pid in self.processes() {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
