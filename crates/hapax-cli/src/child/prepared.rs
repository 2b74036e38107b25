//! From the start of the helpers to the begin of CMD.
//!
//! To start two processes takes longer than to reserve a key, and nothing of CMD runs in them: they can be there before it is
//! known whether CMD is to run at all. Not both at once: a small machine would only pass its processors around.

use super::{
    Input, LeaseState, NotStarted, Spec,
    exec::{self, Variable},
    guard::Order,
    hapax,
    helper::Helper,
    output::Streams,
    signals::Signals,
    terminal::Terminal,
    watcher::Watcher,
};
use rustix::{
    io::Errno,
    process::{Signal, kill_process_group},
};
use std::{
    ffi::OsStr,
    io,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, net::UnixStream as Pair},
    },
    path::Path,
    process::Stdio,
    time::Duration,
};
use tokio::{io::AsyncReadExt, net::UnixStream, process, sync::watch, time::timeout};

/// CMD begins within this time after it may, if nothing stops it.
const GATE: Duration = Duration::from_millis(200);

/// `__exec` at its gate, and perhaps a guard that knows no deadline yet. Dropped, they are gone, and nothing of CMD has run.
pub(crate) struct Prepared {
    pub(super) spec: Spec,
    // Dropped first: a guard is gone before the group that it would end.
    guard: Option<Watcher>,
    process: Helper,
    gate: Pair,
}

/// A program that has begun.
pub(super) struct Begun {
    pub(super) process: Helper,
    pub(super) guard: Watcher,
    pub(super) streams: Streams,
    pub(super) signals: Signals,
    pub(super) terminal: Terminal,
}

/// Why a program did not begin.
pub(super) enum Failed {
    LeasePassed,
    Io(io::Error),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Prepared {
    /// Starts what becomes CMD. Needs a runtime.
    pub(crate) fn start(spec: Spec) -> Result<Self, NotStarted> {
        match wait_at_gate(&spec) {
            Ok((process, gate)) => Ok(Self { spec, guard: None, process, gate }),
            Err(error) => Err(not_started(&spec.program, &error.into())),
        }
    }

    /// Starts the guard, too, unless it was. Without this it starts when the deadline is known.
    pub(crate) fn guard(&mut self) {
        if self.guard.is_none() {
            self.guard = Watcher::spawn(self.process.pid(), None).ok();
        }
    }

    /// Lets CMD begin, with these variables, too.
    pub(super) async fn begin(
        mut self,
        env: &[Variable],
        lease: &mut watch::Receiver<LeaseState>,
    ) -> Result<Begun, Failed> {
        let state = *lease.borrow_and_update();
        if state.is_over() {
            return Err(Failed::LeasePassed);
        }
        if self.process.is_gone() {
            // Somebody has killed it while it waited.
            self.guard = None;
            (self.process, self.gate) = wait_at_gate(&self.spec)?;
        }
        let mut group = self.process.pid();
        // It answers while the rest is made ready.
        let mut guard = match self.guard.take() {
            Some(guard) => {
                guard.renew(state);
                guard
            }
            None => Watcher::spawn(group, Some(state))?,
        };
        // Before CMD begins, so that no end and no signal is missed.
        let signals = Signals::listen(self.spec.foreground)?;
        let mut terminal = Terminal::new(self.spec.foreground && matches!(self.spec.stdin, Input::Inherit));
        let (streams, stdio) = Streams::open(self.spec.stdin.clone(), self.spec.output)?;

        // The guard ends what waits at the gate, too: where this process was frozen, it has. Then the gate is closed.
        let passed = |error| if lease.borrow().is_over() { Failed::LeasePassed } else { Failed::Io(error) };
        if let Err(error) = guard.watches().await {
            if state.is_over() {
                return Err(passed(error));
            }
            // Somebody has killed it while it waited.
            guard = Watcher::start(group, state).await.map_err(passed)?;
        }
        terminal.give(group);
        let mut opened = exec::open(&self.gate, &stdio, env);
        if opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
            && !lease.borrow().is_over()
        {
            // Killed between the look at it and here. It has not heard all that it needs, so nothing of CMD has begun.
            (self.process, self.gate) = wait_at_gate(&self.spec)?;
            group = self.process.pid();
            guard = Watcher::start(group, state).await.map_err(passed)?;
            terminal.give(group);
            opened = exec::open(&self.gate, &stdio, env);
        }
        opened.map_err(passed)?;
        let Self { mut process, gate, .. } = self;
        process.stays();
        guard.stays();
        drop(stdio);

        gate.set_nonblocking(true)?;
        let (mut gate, mut answer) = (UnixStream::from_std(gate)?, Vec::new());
        while let Err(_late) = timeout(GATE, gate.read_to_end(&mut answer)).await {
            // A key that stops the job came before CMD did. It is lost.
            let _ = kill_process_group(group, Signal::CONT);
        }
        if let Some(error) = exec::error(&answer) {
            guard.tell(Order::Bye);
            return Err(error.into());
        }
        Ok(Begun { process, guard, streams, signals, terminal })
    }
}

fn wait_at_gate(spec: &Spec) -> io::Result<(Helper, Pair)> {
    let (gate, theirs) = Pair::pair()?;
    let mut command = process::Command::from(hapax(exec::SUBCOMMAND)?);
    command.arg(&spec.program).args(&spec.args).stdin(OwnedFd::from(theirs));
    // Who reads our own stderr to its end does not wait for it.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let env = spec.env.iter().filter(|(_, value)| !value.as_bytes().contains(&0));
    command.envs(env.map(|(name, value)| (name, value)));
    // The command is dropped with it: it holds a copy of their end, which would hide that CMD has begun.
    Ok((Helper::spawn(command)?, gate))
}

/// The words and the codes that shells use.
pub(super) fn not_started(program: &OsStr, failed: &Failed) -> NotStarted {
    let path = Path::new(program);
    let Failed::Io(error) = failed else {
        let reason = format!("the lease was over before {} could begin", path.display());
        return NotStarted { code: 126, lease_passed: true, reason };
    };
    let there = program.as_bytes().contains(&b'/') && path.exists();
    let reason = match error.kind() {
        io::ErrorKind::NotFound if there => "its interpreter was not found".into(),
        io::ErrorKind::NotFound => "command not found".into(),
        io::ErrorKind::PermissionDenied if path.is_dir() => "is a directory".into(),
        _ if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => {
            "exec format error: it is no program of this system and has no `#!` line: add one, such as `#!/bin/sh`, or \
             run its interpreter"
                .into()
        }
        _ => error.to_string(),
    };
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    NotStarted { code, lease_passed: false, reason: format!("{}: {reason}", path.display()) }
}
