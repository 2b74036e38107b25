//! `hapax once`: runs a command unless its key has run already.
//!
//! | module | what it does |
//! |---|---|
//! | `plan` | what was asked for, checked before anything is opened |
//! | `verdict` | from the end of the command to what becomes of the key, and the exit code |
//! | `report` | what is said about it: replay, notes, the object of `--json` |
#![expect(clippy::doc_markdown, reason = "help texts are read without markup")]

mod plan;
mod report;
mod verdict;

use self::{
    plan::Plan,
    report::{Now, Outcome, Report},
    verdict::{Fate, Verdict},
};
use super::{Context, program};
use crate::{
    args::KeyArg,
    child::{Ended, Input, Output as Recording, Prepared, Spec},
    duration,
    exit::Exit,
    failure::Failure,
    interrupt::Interrupts,
    output,
    receipt::{self, Bytes, Run},
    size,
    store::Sharing,
    text,
};
use clap::Args;
use futures_util::FutureExt;
use hapax::{
    Clock, Hapax, IdempotencyError,
    core::{SystemClock, idempotency::Receipt},
    protocol::{Begun, Closed, Kept, Reservation},
};
use std::{
    ffi::OsString,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::Instant;

/// A receipt or a release that the store refuses is retried for this long, and never longer than the lease.
const CLOSE: Duration = Duration::from_mins(1);
/// How long a call that ran nothing waits for what it has to give back.
const GIVE_BACK: Duration = Duration::from_secs(1);

/// Run a command unless its key has run already
///
/// A second call prints what the first printed and exits as it exited. A command that fails frees its key, so that the next
/// call runs it again; one that is killed, times out or exits with 76 may have had its effect: its key is kept as unknown,
/// and later calls exit with 76, until `hapax keys resolve` settles it or --unknown-ttl is over.
///
/// No shell is involved. The command finds HAPAX_KEY, HAPAX_NAMESPACE and HAPAX_LEASE_UNTIL in its environment. It is ended
/// when the lease cannot be renewed, also when hapax itself is killed, before another call can get the key.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax once nightly-report -- ./report.sh --all
  hapax once backup --every 1d -- ./backup.sh          once a day, however often cron calls
  hapax once charge:o-17 --wait 2m -- ./charge o-17    waits for a call in flight
  hapax once import --timeout 1h --keep-failures -- ./import.sh
  hapax once etl --fingerprint none -- ./etl \"$RANDOM\" whatever the arguments are
  hapax once sync --json -- ./sync.sh | jq .outcome

EXIT CODES:
  that of the command, also when it is replayed; 128+N where signal N ended it
  65        the key was used for another command
  69        the store failed, nothing was run
  75        a call under the key is in flight
  76        the outcome is unknown
  79        the lease was lost
  124       --timeout ran out
  129, 130, 143  SIGHUP, SIGINT, SIGTERM: stderr says whether nothing was run or the outcome is unknown
  126, 127  the command could not be executed, was not found
  --json tells them apart from the command's own")]
pub(crate) struct Once {
    #[command(flatten)]
    key: KeyArg,
    /// How long a crash keeps the key from others; renewed while the command runs
    #[arg(long, value_name = "DUR", default_value = "60s", value_parser = duration::parse_lease)]
    lease: Duration,
    /// How long a result answers
    #[arg(long, value_name = "DUR", default_value = "24h", value_parser = duration::parse_positive)]
    ttl: Duration,
    /// How long an unknown outcome keeps the key [default: 24h, or the window of --every where that is longer]
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive)]
    unknown_ttl: Option<Duration>,
    /// Waits so long for a call in flight before it answers 75
    #[arg(long, value_name = "DUR", default_value = "0s", value_parser = duration::parse)]
    wait: Duration,
    /// What tells one use of the key from another; `none` accepts any [default: the command line]
    #[arg(long, value_name = "TEXT")]
    fingerprint: Option<String>,
    /// Once in each window of this length, counted from 1970-01-01 UTC: the window becomes part of the key, and --ttl is at
    /// least as long
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive)]
    every: Option<Duration>,
    /// An exit code other than 0 is kept and replayed, too
    #[arg(long)]
    keep_failures: bool,
    /// Exit codes by which the command says that its outcome is unknown
    #[arg(long, value_name = "CODE", value_delimiter = ',', default_value = "76", value_parser = clap::value_parser!(u8).range(1..))]
    unknown_exit: Vec<u8>,
    /// Ends the command after this long: SIGTERM, and SIGKILL 5 s later. Its outcome is then unknown
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive)]
    timeout: Option<Duration>,
    /// So much of stdout, and of stderr, is kept for replays
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = parse_limit)]
    record_limit: u64,
    /// Keeps no output, and hands stdout and stderr to the command as they are
    #[arg(long)]
    no_record: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// A receipt is read and written whole.
const MAX_RECORD: u64 = 16 << 20;

fn parse_limit(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        limit if limit > MAX_RECORD => Err(format!("at most {} are recorded", size::format(MAX_RECORD))),
        limit => Ok(limit),
    }
}

impl Once {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, Failure> {
        if context.output.json && self.no_record {
            let reason = "--no-record hands stdout to the command, and --json keeps it for one object";
            return Err(Failure::usage(reason));
        }
        let plan = Plan::new(self, &context.settings.namespace, SystemClock.now())?;
        let report = match super::block_on(call(&plan, context)) {
            Ok(report) => report,
            // Too few open files, for one: the store was not even tried.
            Err(failure) if failure.exit == Exit::Unreachable => {
                Report::refused(Outcome::StoreFailed, failure)
            }
            Err(failure) => return Err(failure),
        };
        Ok(report.say(&plan, context))
    }
}

async fn call(plan: &Plan, context: &Context) -> Result<Report, Failure> {
    let mut interrupts = program::listen()?;
    let (opened, prepared) = tokio::select! {
        biased;
        signal = interrupts.next() => return Ok(Report::interrupted(signal)),
        opened = open(plan, context) => opened,
    };
    match opened {
        Ok(hapax) => Ok(Call { plan, context, hapax: &hapax, interrupts, prepared }.run().await),
        // A wrong URL is usage, whatever was to be run.
        Err(failure) if failure.exit == Exit::Usage => Err(failure),
        Err(failure) => Ok(Report::refused(Outcome::StoreFailed, failure)),
    }
}

/// Opens the store. That takes another thread, or a server: meanwhile this one starts what becomes the command, if it is to
/// run. A call that may wait long for another does not have a process wait with it.
async fn open(plan: &Plan, context: &Context) -> (Result<Hapax, Failure>, Option<Prepared>) {
    let mut opening = pin!(crate::store::open_inline(&context.settings, Sharing::Needed));
    let opened = opening.as_mut().now_or_never();
    if let Some(Err(failure)) = opened {
        return (Err(failure), None);
    }
    // What is wrong here is of interest to those calls only that run the command: they try again, and say it.
    let prepared = plan.terms.wait.is_none().then(|| Prepared::start(spec(plan, context)).ok()).flatten();
    let opened = match opened {
        Some(opened) => opened,
        None => opening.await,
    };
    (opened, prepared)
}

/// Reserves the key. An answer that takes time is hardly ever one of an earlier call: meanwhile the guard starts.
async fn reserve(
    hapax: &Hapax,
    plan: &Plan,
    prepared: &mut Option<Prepared>,
) -> Result<Begun, IdempotencyError> {
    // A file is written by this thread. What it holds under the key is seen without that.
    let writes_here = hapax.backend().name == hapax::sqlite::DRIVER.name;
    if writes_here && hapax.keeper().store().peek(&plan.name).is_none() {
        prepared.iter_mut().for_each(Prepared::guard);
    }
    let mut reserving = pin!(hapax.keeper().reserve(&plan.name, plan.fingerprint, &plan.terms));
    if let Some(begun) = reserving.as_mut().now_or_never() {
        return begun;
    }
    prepared.iter_mut().for_each(Prepared::guard);
    reserving.await
}

/// One call, with its store.
struct Call<'a> {
    plan: &'a Plan,
    context: &'a Context,
    hapax: &'a Hapax,
    interrupts: Interrupts,
    prepared: Option<Prepared>,
}

impl Call<'_> {
    async fn run(mut self) -> Report {
        let plan = self.plan;
        let begun = tokio::select! {
            biased;
            begun = reserve(self.hapax, plan, &mut self.prepared) => begun,
            signal = self.interrupts.next() => return self.interrupted(signal).await,
        };
        match begun {
            Ok(Begun::Settled(record)) => {
                tracing::info!(key = ?plan.name, version = %record.version(), "settled by an earlier call");
                Report::replayed(&record)
            }
            Ok(Begun::Mine(reservation)) => match reservation.ready().await {
                Ok(reservation) => {
                    tracing::info!(key = ?plan.name, fingerprint = %plan.fingerprint, "reserved, the command is run");
                    self.start(reservation).await
                }
                Err(error) => self.refused(error).await,
            },
            Err(error) => self.refused(error).await,
        }
    }

    /// Nothing was run. A reservation that may have been granted all the same is given back, where that does not take long.
    async fn refused(&self, error: IdempotencyError) -> Report {
        let _ = self.hapax.close().within(GIVE_BACK).await;
        refused(error)
    }

    async fn start(mut self, reservation: Reservation) -> Report {
        // The command hears of later ones. Nothing is awaited in between.
        if let Some(signal) = self.interrupts.arrived() {
            reservation.release().await;
            return self.interrupted(signal).await;
        }
        // Should anything below panic: the command may have begun.
        reservation.began().store(true, Ordering::Release);
        let first_at = reservation.first_at();
        let length = reservation.terms().lease.get();
        let (lease, _follower) = program::follow(reservation.lease().watch(), length);
        let clock = Arc::clone(self.hapax.keeper().clock());
        let started = clock.boot();
        let until = clock.read().wall_of(reservation.lease().watch().borrow().deadline);
        let until = [("HAPAX_LEASE_UNTIL".into(), text::time(until).unwrap_or_default().into())];
        let prepared = match self.prepared.take() {
            Some(prepared) => Ok(prepared),
            None => Prepared::start(spec(self.plan, self.context)),
        };
        let ended = match prepared {
            Ok(prepared) => prepared.run(&until, lease).await,
            Err(not_started) => Err(not_started),
        };
        let took = clock.boot().since(started);
        // Those that came meanwhile were passed on. One that came behind the end of the command is for us.
        if !matches!(&ended, Ok(Ended { passed_on: None, .. })) {
            self.interrupts.forget();
        }
        match ended {
            Ok(ended) => self.ended(reservation, ended, took).await.at(first_at),
            Err(not_started) => {
                let rest = rest_of_lease(&reservation);
                reservation.release().await;
                self.finish(rest, std::future::ready(())).await;
                Report::not_started(&not_started)
            }
        }
    }

    async fn ended(&mut self, reservation: Reservation, ended: Ended, took: Duration) -> Report {
        let verdict = Verdict::of(ended.exit, ended.by, ended.passed_on, &self.plan.rules);
        let mut run = Run {
            exit_code: verdict.exit,
            ended: verdict.ended,
            recorded: self.plan.record_limit.is_some(),
            stdout_bytes: ended.stdout.is_cut().then_some(ended.stdout.total),
            stderr_bytes: ended.stderr.is_cut().then_some(ended.stderr.total),
            stdout: Bytes(ended.stdout.head),
            stderr: Bytes(ended.stderr.head),
            took_ms: u64::try_from(took.as_millis()).ok(),
        };
        let rest = rest_of_lease(&reservation);
        let (mut stored, mut now) = (true, Now::Ours);
        tracing::info!(key = ?self.plan.name, exit = verdict.exit, fate = ?verdict.fate, "the command has ended");
        match verdict.fate {
            Fate::Freed => reservation.release().await,
            Fate::Kept(kind) => {
                if let Some(most) = self.hapax.backend().max_receipt {
                    run.cut_to(most.saturating_sub(receipt::CODEC.len()));
                }
                // Strings and numbers always have a form in JSON. An empty receipt would be unreadable: never run again.
                let receipt = run.encode().unwrap_or_else(|_| Receipt::new(receipt::CODEC, Vec::new()));
                match reservation.complete(kind, receipt).await {
                    Kept::Deferred(_) => stored = false,
                    kept => now = Now::after(&kept),
                }
            }
        }
        let closed = self.finish(rest, ended.copied.wait()).await;
        stored = stored || closed.is_some_and(|closed| closed.unstored == 0);
        Report::ran(verdict, run, stored, now)
    }

    /// Waits until our own output is written, as long as that takes (someone may be reading page by page), and gives the
    /// store time for what it has refused. `None` when a signal ended the wait.
    async fn finish(&mut self, rest_of_lease: Duration, output: impl Future<Output = ()>) -> Option<Closed> {
        let all = async {
            output.await;
            self.hapax.close().within(rest_of_lease.min(CLOSE)).await
        };
        let closed = tokio::select! {
            biased;
            closed = all => closed,
            _ = self.interrupts.next() => return None,
        };
        if closed.unreleased > 0 {
            output::warn("the key could not be freed: it is free when its lease is over");
        }
        Some(closed)
    }

    /// A signal came before the command began.
    async fn interrupted(&mut self, signal: i32) -> Report {
        self.prepared = None;
        let _ = self.hapax.close().within(Duration::from_secs(5)).await;
        Report::interrupted(signal)
    }
}

/// What is known of the command before the key is reserved.
fn spec(plan: &Plan, context: &Context) -> Spec {
    let env = [("HAPAX_KEY", &plan.key), ("HAPAX_NAMESPACE", &context.settings.namespace)];
    Spec {
        program: plan.program.name.clone(),
        args: plan.program.args.clone(),
        env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        stdin: Input::Inherit,
        output: match plan.record_limit {
            None => Recording::Inherit,
            Some(limit) if context.output.json => Recording::Record { limit },
            Some(limit) => Recording::Copy { limit },
        },
        timeout: plan.timeout,
        foreground: true,
    }
}

fn refused(error: IdempotencyError) -> Report {
    let (outcome, retry_after) = match &error {
        IdempotencyError::InFlight { retry_after, .. } => (Outcome::InFlight, Some(*retry_after)),
        IdempotencyError::KeyReused { .. } => (Outcome::KeyReused, None),
        IdempotencyError::Unknown { .. } | IdempotencyError::Unreadable { .. } => (Outcome::Unknown, None),
        _ => (Outcome::StoreFailed, None),
    };
    Report::refused(outcome, error.into()).retry_after(retry_after)
}

fn rest_of_lease(reservation: &Reservation) -> Duration {
    reservation.lease().deadline().saturating_duration_since(Instant::now().into_std())
}
