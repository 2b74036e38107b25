//! A process of ours: started, read, signalled, waited for.

use rustix::process::{Pid, Signal, kill_process};
use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

/// The variable that makes a child of this program.
pub(crate) const PROGRAM: &str = "HAPAX_SERVICE_PROGRAM";

/// Longer than anything takes here.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Process {
    child: Child,
    out: BufReader<ChildStdout>,
}

/// How one ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<String>,
    pub(crate) err: String,
}

pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(PROGRAM, name).env_remove("NOTIFY_SOCKET");
    command
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// Waits until it says so.
    pub(crate) fn expect(&mut self, line: &str) {
        let mut next = String::new();
        self.out.read_line(&mut next).unwrap();
        assert_eq!(next.trim_end(), line);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// As somebody does who wants it to end now: again and again, until it has.
    pub(crate) fn insist(&mut self, signal: Signal) {
        while self.child.try_wait().unwrap().is_none() {
            self.signal(signal);
            thread::yield_now();
        }
    }

    /// What it said after the last line that was expected, and its exit code. One that does not end is killed, and has none.
    pub(crate) fn ended(self) -> Ended {
        let Self { mut child, out } = self;
        let pid = Pid::from_child(&child);
        let (tell, told) = mpsc::channel::<()>();
        let guard = thread::spawn(move || {
            if told.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        let out = out.lines().map(Result::unwrap).collect();
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        let code = child.wait().unwrap().code();
        drop(tell);
        guard.join().unwrap();
        Ended { code, out, err }
    }
}
