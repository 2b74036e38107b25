//! Runs a program under a lease, and ends it before the lease can pass to another.
//!
//! # Who starts whom
//!
//! ```text
//!            lease: orders, good-bye
//!   hapax ─────────────────────────── guard (`hapax __guard GROUP`)    in a group of its own
//!     │  └────────────────────────┐
//!     │ gate: stdio and late      │
//!     │ variables, then the error │
//!     │ of `exec`, if any         │ stdout, stderr: pipes, unless handed through
//!   CMD ──────────────────────────┘                                    leads a group of its own
//!   (`hapax __exec CMD ARG…` until the gate opens, then CMD by `exec`)
//! ```
//!
//! CMD and the guard are both children of hapax. CMD starts as `hapax __exec`, which waits at the *gate*, a socket: so
//! its process group exists, is guarded and has the terminal before the first instruction of CMD runs. Both may start before
//! there is a lease, or anyone knows whether CMD is to run ([`Prepared`]): the gate opens when the guard has said that it
//! knows the deadline. The guard is a dead man's switch and nothing else: it knows the group and the deadline, and ends the
//! group when the other end of its socket is closed without a good-bye or when no new deadline arrives in time. hapax waits
//! for CMD itself, passes signals on itself, and leaves only the *ending* of a group to the guard, so that there is one
//! place that does it.
//!
//! Both sockets close on `exec` and each end has one holder, so that a closed end means a dead process (or, at the
//! gate, that CMD has begun).
//!
//! # How a group is ended
//!
//! SIGTERM and, for a stopped one, SIGCONT; then SIGKILL for what is left of the group at the *kill time*:
//!
//! | why | SIGTERM | SIGKILL |
//! |---|---|---|
//! | no new deadline arrived | deadline − margin | end |
//! | hapax is gone (its socket closed) | at once | end; after 5 s where there is no lease |
//! | the owner says that the lease is lost | at once | after the margin, at the end at the latest |
//! | time-out | at once | after 5 s, at the end at the latest |
//!
//! The end is a fifth of the margin before the deadline: a signal takes a moment to arrive, and at the deadline another
//! may begin. The margin is max(2 s, lease/10), but never more than lease/4. All times are on the boot clock, which also counts
//! while the machine is suspended; a guard that slept with the machine looks at it again within half a second.
//!
//! # What happens when one of them dies or freezes
//!
//! | when | SIGKILL | SIGSTOP |
//! |---|---|---|
//! | hapax, `__exec` started and no guard yet | the gate closes, `__exec` exits, CMD never began | nothing began; hapax, continued, goes on where it was, and looks at the deadline before it sends it |
//! | hapax, guard started and no deadline sent | as above; the guard kills `__exec` | as above; a deadline that has passed meanwhile makes the guard end `__exec` instead of saying that it is ready |
//! | hapax, guard ready, gate not open | as above; the guard finds the group gone | the guard ends `__exec` at the deadline; hapax, continued, finds the gate closed: nothing was run |
//! | hapax, CMD running | the guard's socket closes: the group is ended | no deadline arrives: the group is ended; hapax, continued, learns that it was |
//! | guard | hapax sees its socket close and starts another with the same deadline; after three, or if none can be started, it kills the group | nothing, as long as hapax lives: it kills the group itself one second after the kill time |
//! | `__exec` or the guard, no deadline sent | hapax starts another when the lease is there | the gate stays shut until the guard answers, and after ten seconds another is started; `__exec` is continued |
//! | CMD | hapax is told, like any parent | hapax gives up the terminal and stops itself (see `terminal`); not for jobs of a worker |
//!
//! A group number stays reserved while its leader is not waited for, and hapax says good-bye to the guard *before* it waits.
//! So neither ever signals a group that is not CMD's: if hapax dies, the guard acts at once and then looks every 20 ms
//! whether the group still exists.
//!
//! What was started and is not needed is killed and waited for before hapax ends, so nothing is left to whoever adopts it.
//!
//! Outside of this: hapax *and* guard killed together; what leaves the process group; what runs under another user.
//!
//! # Output
//!
//! CMD's outcome is known when CMD itself ends. What it wrote is then already in the pipes and is read whole; its children
//! may write for another 200 ms. After that, and when hapax has died, nobody reads the pipes any more.
//!
//! Reading and writing are apart ([`Ended::copied`]): a reader of our stdout that does not read holds up neither the
//! record nor the receipt, only CMD, as it would without hapax.

mod boot;
mod exec;
mod guard;
mod helper;
mod output;
mod prepared;
mod run;
mod signals;
mod terminal;
mod watcher;

pub(crate) use boot::now_ms;
pub(crate) use output::{Copied, Recorded};
pub(crate) use prepared::Prepared;
pub(crate) use signals::{catch, ignored};

use bytes::Bytes;
use std::{
    ffi::OsString,
    io,
    path::PathBuf,
    process::{Command, ExitCode},
    time::Duration,
};
use tokio::sync::watch;

/// What to run, and how.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    /// The program, looked up in `PATH` unless it holds a slash.
    pub(crate) program: OsString,
    /// Its arguments, without its own name.
    pub(crate) args: Vec<OsString>,
    /// Added to the environment of this process. A value with a NUL byte cannot be passed to any program and is left
    /// out.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// What CMD reads.
    pub(crate) stdin: Input,
    /// What happens to its stdout and stderr.
    pub(crate) output: Output,
    /// Ends CMD this long after it began.
    pub(crate) timeout: Option<Duration>,
    /// CMD stands in for this process: signals are passed on to it, it gets the terminal, and when it is stopped this
    /// process stops. False for the jobs of a worker, which decides itself what a signal means.
    pub(crate) foreground: bool,
}

/// The stdin of CMD.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// Our own.
    Inherit,
    /// Nothing.
    Null,
    /// These bytes, then the end.
    Bytes(Bytes),
}

/// The stdout and stderr of CMD.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Output {
    /// Our own, untouched and unrecorded.
    Inherit,
    /// Copied to our own as it comes, and the first `limit` bytes of each are recorded.
    Copy {
        /// Bytes kept of each stream.
        limit: usize,
    },
    /// Recorded only; ours stay clean.
    Record {
        /// Bytes kept of each stream.
        limit: usize,
    },
}

/// The deadline of what has none. (A guard that knows no deadline yet has a later one.)
const NEVER: u64 = u64::MAX - 1;

/// What the owner of the lease knows about it. Sent anew at each renewal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LeaseState {
    /// The lease is valid until then: milliseconds of the boot clock, counted from before the request that granted it.
    pub(crate) until_ms: u64,
    /// How long it was granted for; decides the margin.
    pub(crate) length: Duration,
    /// Another may own it already: CMD is ended.
    pub(crate) lost: bool,
}

impl LeaseState {
    /// A lease that is held.
    pub(crate) fn held(until_ms: u64, length: Duration) -> Self {
        Self { until_ms, length, lost: false }
    }

    /// There is none: CMD ends when it does, or when hapax is gone.
    pub(crate) fn none() -> Self {
        Self { until_ms: NEVER, length: Duration::ZERO, lost: false }
    }

    /// How long before its deadline a lease is given up.
    fn margin_ms(self) -> u64 {
        let margin = Duration::from_secs(2).max(self.length / 10).min(self.length / 4);
        u64::try_from(margin.as_millis()).unwrap_or(u64::MAX)
    }

    /// CMD is asked to end from here on.
    fn term_ms(self) -> u64 {
        self.until_ms.saturating_sub(self.margin_ms())
    }

    /// What is left of CMD is killed then. Before the deadline, because a signal takes a moment to arrive.
    fn kill_ms(self) -> u64 {
        self.until_ms.saturating_sub(self.margin_ms() / 5)
    }

    fn is_over(self) -> bool {
        self.lost || now_ms() >= self.term_ms()
    }
}

/// CMD never began.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct NotStarted {
    /// 127 if there is no such program, otherwise 126.
    pub(crate) code: u8,
    /// Nothing is wrong with the program: the lease was over before it could begin.
    pub(crate) lease_passed: bool,
    /// For people: names the program.
    pub(crate) reason: String,
}

/// CMD began, and is gone.
#[derive(Debug)]
pub(crate) struct Ended {
    /// How it ended.
    pub(crate) exit: Exit,
    /// Set when hapax or the guard ended it, whatever it then exited with.
    pub(crate) by: Option<EndedBy>,
    /// The last signal that was passed on.
    pub(crate) passed_on: Option<i32>,
    /// What was kept of its stdout.
    pub(crate) stdout: Recorded,
    /// What was kept of its stderr.
    pub(crate) stderr: Recorded,
    /// Waits until our own stdout and stderr have taken everything. Best awaited after the receipt is stored.
    pub(crate) copied: Copied,
}

/// The end of a process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exit {
    /// It exited with this code.
    Code(u8),
    /// This signal ended it.
    Signal(i32),
}

impl Exit {
    /// What a shell would show in `$?`.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => code_of_signal(signal),
        }
    }
}

/// The exit code for an end by a signal: 128 + N.
pub(crate) fn code_of_signal(signal: i32) -> u8 {
    u8::try_from(signal).unwrap_or(0).saturating_add(128)
}

/// Why a group was ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum EndedBy {
    /// [`Spec::timeout`] ran out.
    Timeout,
    /// The lease was lost, or not renewed in time.
    LeaseLost,
}

/// Runs a program whose lease is held already. As [`Prepared::run`].
pub(crate) async fn run(spec: Spec, lease: watch::Receiver<LeaseState>) -> Result<Ended, NotStarted> {
    Prepared::start(spec)?.run(&[], lease).await
}

/// Runs the hidden subcommand that the arguments of this process name, if they name one. Comes first in `main`: a
/// helper reads no configuration, and stays alone in its process.
pub(crate) fn hidden(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter();
    match args.next()?.to_str()? {
        exec::SUBCOMMAND => Some(exec::main(args)),
        guard::SUBCOMMAND => Some(guard::main(args)),
        _ => None,
    }
}

/// This program again, under a hidden subcommand, in a process group of its own.
fn hapax(subcommand: &str) -> io::Result<Command> {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(this_program()?);
    command.arg0("hapax").arg(subcommand).process_group(0);
    Ok(command)
}

fn this_program() -> io::Result<PathBuf> {
    // Set by cargo where it compiles integration tests: they include this module, but are not the program.
    if let Some(path) = option_env!("CARGO_BIN_EXE_hapax") {
        return Ok(path.into());
    }
    // Finds the running file even after an upgrade has put another one in its place. (It also gives the helpers another
    // name than `hapax` in the process table: `killall -9 hapax` leaves the guards alive.)
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() { Ok(running) } else { std::env::current_exe() }
}
