//! Job control: who may read the terminal, and stopping with CMD.
//!
//! When stdin is our controlling terminal and our group is its foreground group, CMD's group takes that place, so that
//! it can read and so that the keys for interrupt and stop go to it. We take it back when CMD ends or stops.

use nix::sys::signal::{SigSet, SigmaskHow, Signal as NixSignal};
use rustix::{
    io::Errno,
    process::{
        Pid, Signal, getpgrp, getpid, getsid, kill_current_process_group, kill_process,
        test_kill_process_group,
    },
    termios::{tcgetpgrp, tcsetpgrp},
};
use std::io::stdin;

/// The terminal on stdin, if it is ours. Given back when dropped.
pub(super) struct Terminal {
    /// CMD's group, while it is in the foreground by our doing.
    given: Option<Pid>,
    usable: bool,
}

impl Terminal {
    /// `usable` is false for a command that reads something else, or runs in the background by design.
    pub(super) fn new(usable: bool) -> Self {
        // Only a controlling terminal has a foreground group.
        Self { given: None, usable: usable && tcgetpgrp(stdin()).is_ok() }
    }

    /// Whether our own group is in the foreground.
    pub(super) fn is_ours(&self) -> bool {
        self.usable && tcgetpgrp(stdin()) == Ok(getpgrp())
    }

    /// Puts a group into the foreground, if ours is there.
    pub(super) fn give(&mut self, group: Pid) {
        if self.is_ours() && set_foreground(group) {
            self.given = Some(group);
        }
    }

    /// Takes the foreground back, unless someone else (the shell) has it by now. A group that no longer exists was
    /// CMD's: a shell, for one, that had put its own child there.
    pub(super) fn take_back(&mut self) {
        let Some(given) = self.given.take() else { return };
        if let Ok(now) = tcgetpgrp(stdin())
            && (now == given || test_kill_process_group(now) == Err(Errno::SRCH))
        {
            set_foreground(getpgrp());
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
    }
}

fn set_foreground(group: Pid) -> bool {
    // Who is not in the foreground is stopped by SIGTTOU for asking, unless the thread that asks blocks it.
    let Ok(before) = mask_ttou() else { return false };
    let done = tcsetpgrp(stdin(), group).is_ok();
    let _ = before.thread_set_mask();
    done
}

/// From here on this thread may write to a terminal from the background, even one set to refuse that (`stty tostop`).
/// Not for threads that start programs: they would inherit it.
pub(super) fn mask_ttou() -> nix::Result<SigSet> {
    let mut ttou = SigSet::empty();
    ttou.add(NixSignal::SIGTTOU);
    ttou.thread_swap_mask(SigmaskHow::SIG_BLOCK)
}

/// Stops this process as CMD was stopped. Says whether it did; the stop itself may come a moment after the return.
pub(super) fn stop(by: Signal) -> bool {
    if by == Signal::STOP {
        // Aimed at CMD alone, so at us alone.
        return kill_process(getpid(), Signal::STOP).is_ok();
    }
    // From the terminal. It would have reached all of a job, had CMD not a group of its own: the shell waits for all of
    // them to stop. There is no shell to continue us where our group is the session leader's: such a job is not
    // stopped by a terminal either.
    getsid(None) != Ok(getpgrp()) && kill_current_process_group(Signal::STOP).is_ok()
}
