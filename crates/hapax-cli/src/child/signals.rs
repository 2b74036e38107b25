//! The signals that a process which runs another one has to hear.

use rustix::process::Signal;
use std::{future::poll_fn, io, sync::OnceLock, task::Poll};
use tokio::signal::unix::{self, SignalKind};

/// Passed on to CMD, as often as they come.
const PASSED_ON: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

/// Job control: a key that stops the job reaches CMD only through us where it reads no terminal (without this, hapax
/// alone would stop, and the guard would end a CMD that still runs), and a job that is continued wants the terminal.
const JOB_CONTROL: [Signal; 2] = [Signal::TSTP, Signal::CONT];

/// From here to the end of the process these signals no longer do what they do by default.
pub(super) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// Listens for the ends and stops of children and, for a command that stands in for us, to all the others.
    ///
    /// Signals that were ignored when this process began stay ignored, for us and for CMD: that is what `nohup`, and a
    /// shell that starts a job with `&`, want.
    pub(super) fn listen(foreground: bool) -> io::Result<Self> {
        let mut wanted = vec![Signal::CHILD];
        if foreground {
            let ignored = ignored();
            let heard = |signal: &Signal| !ignored.contains(signal.as_raw());
            wanted.extend(PASSED_ON.into_iter().filter(heard));
            wanted.extend(JOB_CONTROL.into_iter().filter(heard));
        }
        let listen = |signal: Signal| Ok((signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?));
        wanted.into_iter().map(listen).collect::<io::Result<_>>().map(Self)
    }

    /// The next signal. Cancel safe.
    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            for (signal, stream) in &mut self.0 {
                if stream.poll_recv(cx).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Forgets a SIGCONT that has come already.
    pub(super) fn forget_continued(&mut self) {
        use futures_util::FutureExt;
        while self.continued().now_or_never().is_some() {}
    }

    /// The next SIGCONT; others wait their turn.
    pub(super) async fn continued(&mut self) {
        match self.0.iter_mut().find(|(signal, _)| *signal == Signal::CONT) {
            Some((_, stream)) => {
                stream.recv().await;
            }
            None => std::future::pending().await,
        }
    }
}

/// From here on this signal does nothing to this process. By a handler, which ends with `exec`: to ignore it would also
/// hold for every program that is started. Needs a runtime.
pub(crate) fn catch(signal: Signal) -> io::Result<()> {
    unix::signal(SignalKind::from_raw(signal.as_raw())).map(drop)
}

/// The signals that this process ignores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ignored(u64);

impl Ignored {
    pub(crate) fn contains(self, signal: i32) -> bool {
        self.0 & (1 << (signal - 1)) != 0
    }
}

/// Which they are. They are read once: nothing here ignores another later.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn ignored() -> Ignored {
    static IGNORED: OnceLock<Ignored> = OnceLock::new();
    *IGNORED.get_or_init(read)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn read() -> Ignored {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    Ignored(mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0))
}

/// No safe call tells: none, then.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn ignored() -> Ignored {
    Ignored(0)
}
