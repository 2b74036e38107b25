//! Our end of the guard's socket.

use super::{
    LeaseState,
    guard::{ENDING, Order, READY, SUBCOMMAND},
    hapax,
    helper::Helper,
};
use rustix::process::Pid;
use std::{
    io,
    os::{fd::OwnedFd, unix::net::UnixStream as Pair},
    process::Stdio,
    time::Duration,
};
use tokio::{io::AsyncReadExt, net::UnixStream, process};

/// A guard is ready within milliseconds. One that is not will not be.
const START: Duration = Duration::from_secs(10);

/// A guard that watches.
pub(super) struct Watcher {
    /// Dropped before the channel, whose end means something to it. Waited for by the runtime where it stays.
    guard: Helper,
    channel: UnixStream,
    gone: bool,
}

/// What a guard says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Event {
    /// It watches.
    Ready,
    /// The lease is over: it is about to end the group.
    Ending,
    /// It is gone: killed, or done with ending the group.
    Gone,
}

impl Watcher {
    /// Starts a guard for a group, which is told the deadline later if it is not known yet.
    pub(super) fn spawn(group: Pid, lease: Option<LeaseState>) -> io::Result<Self> {
        let (ours, theirs) = Pair::pair()?;
        ours.set_nonblocking(true)?;
        if let Some(lease) = lease {
            // The first order is there before the guard is: it cannot wait for one that never comes.
            rustix::io::write(&ours, deadline(lease).to_string().as_bytes())?;
        }
        let mut command = process::Command::from(hapax(SUBCOMMAND)?);
        command
            .arg(group.to_string())
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // The command is dropped with it: it holds a copy of their end, which would hide that the guard is gone.
        let guard = Helper::spawn(command)?;
        Ok(Self { guard, channel: UnixStream::from_std(ours)?, gone: false })
    }

    /// Starts a guard for a group that runs, and returns when it watches.
    pub(super) async fn start(group: Pid, lease: LeaseState) -> io::Result<Self> {
        let mut watcher = Self::spawn(group, Some(lease))?;
        watcher.stays();
        watcher.watches().await?;
        Ok(watcher)
    }

    /// Waits until it knows the first deadline.
    pub(super) async fn watches(&mut self) -> io::Result<()> {
        match tokio::time::timeout(START, self.event()).await {
            Ok(Event::Ready) => Ok(()),
            Ok(Event::Ending) => Err(io::Error::other("the lease has passed")),
            Ok(Event::Gone) => Err(io::Error::other("the guard did not start")),
            Err(_) => Err(io::Error::other("the guard did not start in time")),
        }
    }

    /// From here on it outlives us, to end what we leave behind.
    pub(super) fn stays(&mut self) {
        self.guard.stays();
    }

    /// Never blocks: a guard that does not read is frozen, and the caller has a plan for that.
    pub(super) fn tell(&self, order: Order) {
        let _ = rustix::io::write(&self.channel, order.to_string().as_bytes());
    }

    pub(super) fn renew(&self, lease: LeaseState) {
        self.tell(deadline(lease));
    }

    /// The next event; pending for ever once the guard is gone. Cancel safe.
    pub(super) async fn event(&mut self) -> Event {
        if self.gone {
            return std::future::pending().await;
        }
        let mut byte = [0];
        let read = self.channel.read(&mut byte).await;
        self.take(read.map_err(|_| ()), byte)
    }

    /// An event that has arrived already. The runtime may not know of it yet, so the socket itself is asked.
    pub(super) fn arrived(&mut self) -> Option<Event> {
        let mut byte = [0];
        match rustix::io::read(&self.channel, &mut byte) {
            Err(rustix::io::Errno::AGAIN) => None,
            read => Some(self.take(read.map_err(|_| ()), byte)),
        }
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    fn take(&mut self, read: Result<usize, ()>, byte: [u8; 1]) -> Event {
        match (read, byte) {
            (Ok(1), [READY]) => Event::Ready,
            (Ok(1), [ENDING]) => Event::Ending,
            _ => {
                self.gone = true;
                Event::Gone
            }
        }
    }
}

fn deadline(lease: LeaseState) -> Order {
    Order::Lease { term_ms: lease.term_ms(), kill_ms: lease.kill_ms() }
}
