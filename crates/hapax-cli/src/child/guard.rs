//! `hapax __guard GROUP`: ends a process group when the process that owns the lease does not speak up in time.
//!
//! Alone in its process and without threads, so that what it does can be read from top to bottom. Its stdin is a socket;
//! orders come in as lines, and one byte for each event goes out.

use super::{NEVER, boot};
use nix::sys::signal::SigSet;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, Signal, kill_process_group, test_kill_process_group},
};
use std::{
    ffi::OsString,
    fmt, io,
    os::{fd::AsFd, unix::net::UnixStream},
    process::ExitCode,
};

/// The hidden subcommand.
pub(super) const SUBCOMMAND: &str = "__guard";

/// Event: the first deadline is known and watched.
pub(super) const READY: u8 = b'r';
/// Event: the lease is over, the group is being ended. Said before the first signal, so that whoever sees the
/// end of CMD can know why.
pub(super) const ENDING: u8 = b'e';

/// The clock of `poll` does not count while the machine is suspended: none of its waits is longer than this.
const TICK_MS: u64 = 500;
/// Between SIGTERM and SIGKILL where no lease says when the group has to be gone.
const GRACE_MS: u64 = 5_000;
/// How often a group that is being ended is looked at.
const LOOK_MS: u64 = 20;

/// What a guard is told. Times are milliseconds of the boot clock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Order {
    /// A new deadline.
    Lease { term_ms: u64, kill_ms: u64 },
    /// End the group now, with SIGKILL at this time unless the lease ends before.
    End { kill_ms: u64 },
    /// All is well, the group is none of your business any more.
    Bye,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lease { term_ms, kill_ms } => writeln!(f, "lease {term_ms} {kill_ms}"),
            Self::End { kill_ms } => writeln!(f, "end {kill_ms}"),
            Self::Bye => writeln!(f, "bye"),
        }
    }
}

impl Order {
    fn parse(line: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
        let order = words.next()?;
        let mut time = || words.next()?.parse().ok();
        match order {
            "lease" => Some(Self::Lease { term_ms: time()?, kill_ms: time()? }),
            "end" => Some(Self::End { kill_ms: time()? }),
            "bye" => Some(Self::Bye),
            _ => None,
        }
    }
}

/// The whole process.
pub(super) fn main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let group = args.next().and_then(|group| group.to_str()?.parse().ok());
    // 0 and 1 would mean our own group and everyone.
    let Some(group) = group.filter(|&group| group > 1).and_then(Pid::from_raw) else {
        return ExitCode::from(2);
    };
    // Nothing but SIGKILL and SIGSTOP reaches a guard.
    if SigSet::all().thread_block().is_err() {
        return ExitCode::FAILURE;
    }
    let channel = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from);
    let Ok(channel) = channel.and_then(|c| c.set_nonblocking(true).map(|()| c)) else {
        return ExitCode::FAILURE;
    };
    Guard::new(group, channel).run();
    ExitCode::SUCCESS
}

struct Guard {
    group: Pid,
    /// `None` when the other end is closed.
    channel: Option<UnixStream>,
    unread: Vec<u8>,
    ready: bool,
    term_ms: u64,
    kill_ms: u64,
    /// Set when the group has been asked to end: the time of SIGKILL.
    ending: Option<u64>,
}

impl Guard {
    /// Until the first deadline is known, a closed channel means SIGKILL at once.
    fn new(group: Pid, channel: UnixStream) -> Self {
        Self {
            group,
            channel: Some(channel),
            unread: Vec::new(),
            ready: false,
            term_ms: u64::MAX,
            kill_ms: 0,
            ending: None,
        }
    }

    fn run(&mut self) {
        loop {
            self.read();
            while let Some(order) = self.next_order() {
                match order {
                    Order::Lease { term_ms, kill_ms } => (self.term_ms, self.kill_ms) = (term_ms, kill_ms),
                    Order::End { kill_ms } => self.end(kill_ms),
                    Order::Bye => return,
                }
            }
            let now = boot::now_ms();
            if self.ending.is_none() && (self.channel.is_none() || now >= self.term_ms) {
                self.say(ENDING);
                let kill_ms = if self.kill_ms == NEVER { now.saturating_add(GRACE_MS) } else { self.kill_ms };
                self.end(kill_ms);
            }
            if let Some(kill_ms) = self.ending {
                if test_kill_process_group(self.group) == Err(Errno::SRCH) {
                    return;
                }
                if now >= kill_ms.min(self.kill_ms) {
                    self.signal(Signal::KILL);
                    return;
                }
            } else if !self.ready && self.term_ms != u64::MAX {
                self.ready = true;
                self.say(READY);
            }
            self.wait(now);
        }
    }

    fn end(&mut self, kill_ms: u64) {
        if self.ending.is_none() {
            self.ending = Some(kill_ms);
            self.signal(Signal::TERM);
            // A stopped process does not see SIGTERM.
            self.signal(Signal::CONT);
        }
    }

    // A group that is gone, or not ours to signal, is noticed by the loop or not at all.
    fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.group, signal);
    }

    // Nobody may be listening any more.
    fn say(&self, event: u8) {
        if let Some(channel) = &self.channel {
            let _ = rustix::io::write(channel, &[event]);
        }
    }

    fn read(&mut self) {
        let mut buffer = [0; 512];
        while let Some(channel) = &self.channel {
            match rustix::io::read(channel, &mut buffer) {
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Ok(n) if n > 0 => self.unread.extend(buffer.iter().take(n)),
                Ok(_) | Err(_) => self.channel = None,
            }
        }
    }

    fn next_order(&mut self) -> Option<Order> {
        while let Some(end) = self.unread.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            if let Some(order) = Order::parse(&line) {
                return Some(order);
            }
        }
        None
    }

    fn wait(&self, now: u64) {
        let ms = match self.ending {
            Some(kill_ms) => kill_ms.min(self.kill_ms).saturating_sub(now).clamp(1, LOOK_MS),
            None => self.term_ms.saturating_sub(now).clamp(1, TICK_MS),
        };
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::try_from(ms * 1_000_000).unwrap_or(0) };
        // Whatever it returns, the loop looks at everything again.
        let _ = match &self.channel {
            Some(channel) => poll(&mut [PollFd::new(channel, PollFlags::IN)], Some(&timeout)),
            None => poll(&mut [], Some(&timeout)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_survive_the_channel() {
        for order in [Order::Lease { term_ms: 1, kill_ms: u64::MAX }, Order::End { kill_ms: 0 }, Order::Bye] {
            assert_eq!(Order::parse(order.to_string().as_bytes()), Some(order));
        }
        assert_eq!(Order::parse(b"lease 1"), None);
    }
}
