//! A process of hapax's own, beside the command.

use rustix::{
    io::Errno,
    process::{Pid, WaitId, WaitIdOptions, waitid},
};
use std::{io, process::ExitStatus};
use tokio::process::{Child, Command};

/// Ended when dropped, unless it [stays](Self::stays).
pub(super) struct Helper {
    process: Child,
    pid: Pid,
    stays: bool,
}

impl Helper {
    pub(super) fn spawn(mut command: Command) -> io::Result<Self> {
        let process = command.spawn()?;
        let pid = process.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let pid = pid.ok_or_else(|| io::Error::other("a process without an id"))?;
        Ok(Self { process, pid, stays: false })
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// From here on its end is no longer ours to bring about.
    pub(super) fn stays(&mut self) {
        self.stays = true;
    }

    /// Whether it has ended. Its id stays taken.
    pub(super) fn is_gone(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        !matches!(waitid(WaitId::Pid(self.pid), look), Ok(None))
    }

    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        let _ = self.process.start_kill();
        // It is gone within moments. Not waited for, it would be left to whoever adopts it, and not everyone does.
        while let Ok(None) = self.process.try_wait() {
            let ended = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            if ended.is_err_and(|error| error != Errno::INTR) {
                return;
            }
        }
    }
}
