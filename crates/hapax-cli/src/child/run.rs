//! From the start of CMD to its end.

use super::{
    Ended, EndedBy, Exit, LeaseState, NotStarted, boot,
    exec::Variable,
    guard::Order,
    helper::Helper,
    prepared::{Begun, Prepared, not_started},
    signals::Signals,
    terminal::{self, Terminal},
    watcher::{Event, Watcher},
};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid};
use std::{os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};

/// Between SIGTERM and SIGKILL after a time-out.
const GRACE: Duration = Duration::from_secs(5);
/// The guard's SIGKILL is this late before we send our own.
const GUARD_IS_LATE: Duration = Duration::from_secs(1);
/// At most so many guards in a row, where they are killed.
const GUARDS: u32 = 3;
/// A stop of this process begins within this time, if at all.
const STOP_BEGINS: Duration = Duration::from_secs(2);

impl Prepared {
    /// Runs the program, for as long as the lease is held, with variables that were not known before.
    ///
    /// It has ended when this returns. If the future is dropped before, the guard ends it, as if this process had died.
    pub(crate) async fn run(
        self,
        env: &[Variable],
        mut lease: watch::Receiver<LeaseState>,
    ) -> Result<Ended, NotStarted> {
        let (name, limit, foreground) = (self.spec.program.clone(), self.spec.timeout, self.spec.foreground);
        let begun = self.begin(env, &mut lease).await.map_err(|failed| not_started(&name, &failed))?;
        let Begun { process, guard, streams, signals, terminal } = begun;
        let mut running = Running {
            group: process.pid(),
            process,
            guard,
            guards: 1,
            lease,
            signals,
            foreground,
            terminal,
            passed_on: None,
            ended_by: None,
            kill_at: None,
        };
        let exit = running.until_end(limit).await;
        running.terminal.take_back();
        let (stdout, stderr, copied) = streams.finish().await;
        Ok(Ended { exit, by: running.ended_by, passed_on: running.passed_on, stdout, stderr, copied })
    }
}

/// A program that runs.
struct Running {
    /// The leader of the group. Waited for only after the good-bye to the guard.
    process: Helper,
    group: Pid,
    guard: Watcher,
    guards: u32,
    lease: watch::Receiver<LeaseState>,
    signals: Signals,
    foreground: bool,
    terminal: Terminal,
    passed_on: Option<i32>,
    ended_by: Option<EndedBy>,
    /// Set when the group is being ended: it is gone by then, or we kill it ourselves.
    kill_at: Option<Instant>,
}

impl Running {
    async fn until_end(&mut self, limit: Option<Duration>) -> Exit {
        let out_of_time = sleep(limit.unwrap_or(Duration::ZERO));
        tokio::pin!(out_of_time);
        while !self.has_ended() {
            if let Some(by) = self.has_stopped() {
                self.stopped(by).await;
                continue;
            }
            tokio::select! {
                biased;
                signal = self.signals.next() => self.heard(signal),
                event = self.guard.event() => self.told(event).await,
                Ok(()) = self.lease.changed() => self.renewed(),
                () = &mut out_of_time, if limit.is_some() && self.ended_by.is_none() => {
                    self.end(EndedBy::Timeout, GRACE);
                }
                () = sleep_until(self.kill_at.unwrap_or_else(Instant::now)), if self.kill_at.is_some() => self.kill(),
            }
        }
        self.close().await
    }

    /// CMD itself is gone; its group may not be.
    async fn close(&mut self) -> Exit {
        // It speaks before it acts: if CMD's end was its doing, this has arrived.
        while let Some(event) = self.guard.arrived() {
            self.note(event);
            if event == Event::Gone {
                break;
            }
        }
        if self.ended_by.is_none() {
            self.guard.tell(Order::Bye);
        }
        let exit = self.process.wait().await;
        // The lease was worth ending CMD, so it is worth ending what CMD leaves behind: the guard stays for that.
        while self.ended_by.is_some() && !self.guard.is_gone() {
            let late = self.kill_at.unwrap_or_else(Instant::now);
            tokio::select! {
                event = self.guard.event() => self.note(event),
                () = sleep_until(late) => break,
            }
        }
        exit.map_or(Exit::Signal(Signal::KILL.as_raw()), exit_of)
    }

    fn has_ended(&self) -> bool {
        // Not waited for: its id, the group's number, has to stay taken.
        !matches!(self.look(WaitIdOptions::EXITED | WaitIdOptions::NOWAIT), Ok(None))
    }

    fn has_stopped(&self) -> Option<Signal> {
        let status = self.look(WaitIdOptions::STOPPED).ok()??;
        let by = Signal::from_named_raw(status.stopping_signal()?);
        // A worker's job is not ours to stop with.
        by.filter(|_| self.foreground)
    }

    fn look(&self, at: WaitIdOptions) -> rustix::io::Result<Option<WaitIdStatus>> {
        waitid(WaitId::Pid(self.group), at | WaitIdOptions::NOHANG)
    }

    fn heard(&mut self, signal: Signal) {
        match signal {
            // Only wakes the loop.
            Signal::CHILD => {}
            // The shell may have put us into the foreground.
            Signal::CONT => self.terminal.give(self.group),
            Signal::TSTP => {
                let _ = kill_process_group(self.group, signal);
            }
            _ => {
                if kill_process_group(self.group, signal).is_ok() {
                    self.passed_on = Some(signal.as_raw());
                }
            }
        }
    }

    fn renewed(&mut self) {
        let lease = *self.lease.borrow_and_update();
        if lease.lost {
            self.end(EndedBy::LeaseLost, Duration::from_millis(lease.margin_ms()));
        } else {
            self.guard.renew(lease);
        }
    }

    async fn told(&mut self, event: Event) {
        self.note(event);
        // A guard that has ended the group is gone as well.
        if event != Event::Gone || self.ended_by.is_some() {
            return;
        }
        while self.guards < GUARDS {
            self.guards += 1;
            let lease = *self.lease.borrow();
            // One that is killed before it watches counts, too.
            if let Ok(guard) = Watcher::start(self.group, lease).await {
                self.guard = guard;
                return;
            }
        }
        tracing::warn!("the guard of the command was killed, so the command is killed too");
        self.kill();
    }

    fn note(&mut self, event: Event) {
        if event == Event::Ending {
            let kill_ms = self.lease.borrow().kill_ms();
            self.ending(EndedBy::LeaseLost, kill_ms);
        }
    }

    /// Has the group ended.
    fn end(&mut self, by: EndedBy, grace: Duration) {
        if self.ended_by.is_none() {
            let kill_ms = boot::now_ms().saturating_add(u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
            self.guard.tell(Order::End { kill_ms });
            self.ending(by, kill_ms);
        }
    }

    fn ending(&mut self, by: EndedBy, kill_ms: u64) {
        self.ended_by.get_or_insert(by);
        let left = Duration::from_millis(kill_ms.saturating_sub(boot::now_ms()));
        self.kill_at.get_or_insert(Instant::now() + left + GUARD_IS_LATE);
    }

    fn kill(&mut self) {
        let _ = kill_process_group(self.group, Signal::KILL);
        self.kill_at = None;
    }

    /// CMD was stopped: so are we, until someone continues us.
    async fn stopped(&mut self, by: Signal) {
        // It wanted the terminal, and we have it: we were in the background then, or had not been asked yet.
        let wants_terminal = by == Signal::TTIN || by == Signal::TTOU;
        if !(wants_terminal && self.terminal.is_ours()) {
            self.terminal.take_back();
            self.signals.forget_continued();
            if terminal::stop(by) {
                let _ = timeout(STOP_BEGINS, self.signals.continued()).await;
            }
        }
        // Much time may have passed.
        let lease = *self.lease.borrow();
        if lease.is_over() {
            self.end(EndedBy::LeaseLost, Duration::from_millis(lease.margin_ms()));
        } else {
            self.terminal.give(self.group);
            let _ = kill_process_group(self.group, Signal::CONT);
        }
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, signal) => Exit::Signal(signal.unwrap_or(Signal::KILL.as_raw())),
    }
}
