//! `hapax lock run`: a command that runs while a lock is held.

use super::{Name, open};
use crate::{
    child::{Ended, EndedBy, LeaseState, NotStarted},
    commands::{
        Context,
        program::{self, Program, Written},
    },
    duration,
    exit::Exit,
    failure::Failure,
    interrupt::Interrupts,
    output, store, text,
};
use clap::{Args, ValueEnum};
use hapax::{Fence, Hapax, Key, LockError, LockGuard};
use serde::Serialize;
use std::{convert::Infallible, ffi::OsString, future::pending, time::Duration};
use tokio::sync::watch;

/// How long a call that ran nothing waits for what it has to give back.
const GIVE_BACK: Duration = Duration::from_secs(1);

/// Run a command while a lock is held
///
/// Where another holds the lock, nothing is run and the exit code is 75. The lock is renewed as long as the command runs, and
/// given back when it ends. It is ended when the lock cannot be renewed, also when hapax itself is killed or frozen, before
/// another can hold the lock. What a command leaves running in the background is no part of it: the lock is free when the
/// command itself has ended.
///
/// No shell is involved. The command finds HAPAX_LOCK_NAME, HAPAX_FENCE and HAPAX_LOCK_DEADLINE_MS in its environment: the
/// deadline, in milliseconds since 1970, is that of the first lease, which is renewed. HAPAX_NAMESPACE is there, too, and
/// HAPAX_STORE where it was set: a --store, which may hold a password, is not passed on.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax lock run deploy -- ./deploy.sh
  hapax lock run deploy --wait 10m -- ./deploy.sh             waits for the one that runs
  hapax lock run report --ttl 10s -- ./report.sh              a crash frees it after 10 s at most
  hapax lock run tail --on-lost warn -- ./tail-logs           only a warning where it is lost
  hapax lock run sync --json -- ./sync.sh | jq .outcome
  hapax lock run close -- sh -c 'psql -v fence=\"$HAPAX_FENCE\" -f close.sql'

A FENCED WRITE refuses a holder that was paused for too long, in whatever it writes to:
  UPDATE account SET state = 'closed', fence = :fence WHERE id = 7 AND fence < :fence

EXIT CODES:
  that of the command; 128+N where signal N ended it
  69        the store failed, nothing was run
  75        another holds the lock, or --wait is over
  79        the lock was lost (with --on-lost warn: the command's code, and a warning)
  129, 130, 143  SIGHUP, SIGINT, SIGTERM came before the command was started
  126, 127  the command could not be executed, was not found
  --json tells them apart from the command's own")]
pub(super) struct RunUnder {
    #[command(flatten)]
    name: Name,
    /// How long a crash keeps the lock from others: renewed while the command runs
    #[arg(long, value_name = "DUR", default_value = "30s", value_parser = duration::parse_lease, allow_hyphen_values = true)]
    ttl: Duration,
    /// Waits so long for the lock before it answers 75
    #[arg(long, value_name = "DUR", default_value = "0s", value_parser = duration::parse, allow_hyphen_values = true)]
    wait: Duration,
    /// What becomes of the command when the lock is lost
    #[arg(long, value_name = "WHAT", default_value = "kill")]
    on_lost: OnLost,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnLost {
    /// It is ended before another can hold the lock
    Kill,
    /// It goes on while hapax lives, and a warning says that another may hold the lock
    Warn,
}

/// How a call ended. The words are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Ran,
    NotStarted,
    Busy,
    Lost,
    StoreFailed,
}

/// The end of a call. The names of its fields are stable.
#[derive(Debug, Serialize)]
struct Report {
    name: String,
    outcome: Outcome,
    exit_code: u8,
    fence: Option<u64>,
    held_ms: Option<u64>,
    retry_after_ms: Option<u64>,
    code: Option<&'static str>,
    #[serde(flatten)]
    written: Written,
    #[serde(skip)]
    exit: Exit,
    /// Said on stderr.
    #[serde(skip)]
    failure: Option<Failure>,
}

impl RunUnder {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let call = Call {
            key: self.name.key(context)?,
            given: self.name.name,
            program: Program::new(self.command)?,
            interrupts: program::listen()?,
            context,
            ttl: self.ttl,
            wait: self.wait,
            on_lost: self.on_lost,
        };
        let report = call.run().await?;
        if context.output.json {
            context.output.object(&report);
        }
        if let Some(failure) = &report.failure {
            failure.explain();
        }
        Ok(report.exit)
    }
}

struct Call<'a> {
    context: &'a Context,
    key: Key,
    /// The name as it was given, for the command.
    given: String,
    program: Program,
    interrupts: Interrupts,
    ttl: Duration,
    wait: Duration,
    on_lost: OnLost,
}

impl Call<'_> {
    async fn run(mut self) -> Result<Report, Failure> {
        let opened = tokio::select! {
            biased;
            signal = self.interrupts.next() => return Ok(self.interrupted(signal)),
            opened = open(self.context) => opened,
        };
        match opened {
            Ok(hapax) => Ok(self.hold(&hapax).await),
            // A wrong URL is usage, whatever was to be run.
            Err(failure) if failure.exit == Exit::Usage => Err(failure),
            Err(failure) => Ok(self.refused(Outcome::StoreFailed, failure)),
        }
    }

    async fn hold(mut self, hapax: &Hapax) -> Report {
        let locks = hapax.locks().with_ttl(self.ttl).with_holder(&holder());
        let granted = tokio::select! {
            biased;
            granted = locks.lock(&self.key, self.wait) => granted,
            signal = self.interrupts.next() => {
                let _ = hapax.close().within(GIVE_BACK).await;
                return self.interrupted(signal);
            }
        };
        let guard = match granted {
            Ok(guard) => guard,
            Err(error) => {
                // A grant whose answer was lost is given back, where that does not take long.
                let _ = hapax.close().within(GIVE_BACK).await;
                return self.not_granted(error);
            }
        };
        // The command hears of later ones. Nothing is awaited in between.
        if let Some(signal) = self.interrupts.arrived() {
            drop(guard);
            let _ = hapax.close().within(GIVE_BACK).await;
            return self.interrupted(signal);
        }
        let clock = hapax.keeper().clock();
        let (fence, began) = (guard.fence(), clock.boot());
        let until = clock.read().wall_of(guard.watch().borrow().deadline);
        let env = [
            ("HAPAX_LOCK_NAME", self.given.clone()),
            ("HAPAX_FENCE", fence.to_string()),
            ("HAPAX_LOCK_DEADLINE_MS", until.as_millis().to_string()),
        ];
        tracing::info!(lock = ?self.key, %fence, "held, the command is run");
        let (ended, warned) = self.under(&guard, &env).await;
        let held = clock.boot().since(began);
        // Those that came meanwhile were passed on.
        self.interrupts.forget();
        let released = tokio::select! {
            biased;
            released = guard.release() => released.err().map(Failure::from),
            _ = self.interrupts.next() => Some(unproven()),
        };
        let closed = hapax.close().within(GIVE_BACK).await;
        if closed.unreleased > 0 {
            output::warn("the lock could not be given back: it is free when its lease is over");
        }
        let report = match ended {
            Ok(ended) => self.ended(&ended, released, warned),
            Err(not_started) => self.not_started(&not_started),
        };
        let held_ms = u64::try_from(held.as_millis()).ok();
        Report { fence: Some(fence.get()), held_ms, ..report }
    }

    /// Runs the command; whether the loss of the lock was told meanwhile.
    async fn under(&self, guard: &LockGuard, env: &[(&str, String)]) -> (Result<Ended, NotStarted>, bool) {
        if self.on_lost == OnLost::Kill {
            let (lease, _follower) = program::follow(guard.watch(), self.ttl);
            return (self.program.run(self.context, env, lease).await, false);
        }
        // Nothing ends it, but hapax's own end.
        let (_kept, lease) = watch::channel(LeaseState::none());
        let mut warned = false;
        let warner = async {
            let cause = guard.lost().await;
            tracing::debug!(lock = ?self.key, ?cause, "the lock is lost");
            warned = true;
            self.warn(guard.fence());
            pending::<Infallible>().await
        };
        let ended = tokio::select! {
            biased;
            ended = self.program.run(self.context, env, lease) => ended,
            never = warner => match never {},
        };
        (ended, warned)
    }

    fn warn(&self, fence: Fence) {
        output::warn(&format!(
            "the lock {} with fence {fence} is lost: another may hold it while the command goes on (lock.lost)",
            self.shown()
        ));
    }

    fn ended(&self, ended: &Ended, released: Option<Failure>, warned: bool) -> Report {
        let written = Written::of(&ended.stdout, &ended.stderr);
        let code = ended.exit.code();
        let was_ended = ended.by == Some(EndedBy::LeaseLost);
        if !was_ended && released.is_none() && !warned {
            return Report { written, ..self.report(Outcome::Ran, Exit::Command(code)) };
        }
        if self.on_lost == OnLost::Warn {
            if !warned {
                let shown = self.shown();
                output::warn(&format!(
                    "the lock {shown} was lost before the command had ended: another may have held it (lock.lost)"
                ));
            }
            let report = self.report(Outcome::Lost, Exit::Command(code));
            return Report { written, code: Some("lock.lost"), ..report };
        }
        let failure = if was_ended {
            let message =
                format!("the lock {} was lost while the command ran, so it was ended", self.shown());
            Failure::new(Exit::LeaseLost, "lock.lost", message)
                .help("find out what it did before it runs again; --on-lost warn lets it go on")
        } else {
            let message = format!("the command of the lock {} exited with {code}, and", self.shown());
            let why = released.unwrap_or_else(unproven);
            Failure::new(Exit::LeaseLost, "lock.lost", format!("{message} {}", why.message()))
                .help("another may have held the lock meanwhile: look at what the command did, and compare fences where it writes")
        };
        Report { written, ..self.refused(Outcome::Lost, failure) }
    }

    fn not_started(&self, not_started: &NotStarted) -> Report {
        if not_started.lease_passed {
            let failure = Failure::new(Exit::Unreachable, "lock.store_failed", &not_started.reason)
                .help("nothing was run: try again, if it happens often with a longer --ttl");
            return self.refused(Outcome::StoreFailed, failure);
        }
        self.refused(Outcome::NotStarted, program::not_started(not_started, "the lock is free"))
    }

    fn not_granted(&self, error: LockError) -> Report {
        let LockError::Busy { retry_after, .. } = error else {
            return self.refused(Outcome::StoreFailed, error.into());
        };
        let waited = if self.wait.is_zero() { String::new() } else { ", also after --wait".to_owned() };
        let message = format!("another holds the lock {}{waited}", self.shown());
        let help = format!(
            "`hapax lock show {}{}` says who: try again when it has ended, or wait for it with --wait 10m, say; should it be \
             dead, the lock is free in {}",
            text::quoted(self.key.as_str()),
            store::flags(&self.context.settings),
            duration::format_rough(retry_after)
        );
        let failure = Failure::new(Exit::TryAgain, "lock.busy", message).help(help);
        let retry_after_ms = u64::try_from(retry_after.as_millis()).ok();
        Report { retry_after_ms, ..self.refused(Outcome::Busy, failure) }
    }

    /// A signal came before the command began.
    fn interrupted(&self, signal: i32) -> Report {
        self.refused(Outcome::NotStarted, program::interrupted(signal))
    }

    fn refused(&self, outcome: Outcome, failure: Failure) -> Report {
        let report = self.report(outcome, failure.exit);
        Report { code: Some(failure.code), failure: Some(failure), ..report }
    }

    fn report(&self, outcome: Outcome, exit: Exit) -> Report {
        Report {
            name: self.key.as_str().to_owned(),
            outcome,
            exit_code: exit.code(),
            fence: None,
            held_ms: None,
            retry_after_ms: None,
            code: None,
            written: Written::default(),
            exit,
            failure: None,
        }
    }

    fn shown(&self) -> String {
        text::shown(self.key.as_str())
    }
}

fn unproven() -> Failure {
    let message = "the lock could not be given back: nobody can say whether it was held to the end";
    Failure::new(Exit::LeaseLost, "lock.lost", message)
}

/// What others see of this holder.
fn holder() -> String {
    let machine = rustix::system::uname();
    format!("{} pid {}", machine.nodename().to_string_lossy(), std::process::id())
}
