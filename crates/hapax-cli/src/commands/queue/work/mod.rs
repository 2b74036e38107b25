//! `hapax queue work`: runs a command for each job.
//!
//! | module | what it does |
//! |---|---|
//! | `program` | one job: runs the command under its lease |
//! | `verdict` | from the end of the command to what becomes of the job |
#![expect(clippy::doc_markdown, reason = "help texts are read without markup")]

mod program;
mod verdict;

use self::program::Program;
use super::{Found, group};
use crate::{
    commands::Context, duration, exit::Exit, failure::Failure, interrupt::Interrupts, limits, output, text,
};
use clap::Args;
use hapax::{
    core::queue::{Group, MOST, Subscribed},
    queue::{OnError, QueueError, Ran, Worker, WorkerBuilder},
};
use serde_json::json;
use std::{ffi::OsString, sync::Arc, time::Duration};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Keys and receipts that the store has refused are retried for this long, and never longer than a lease.
const CLOSE: Duration = Duration::from_mins(1);

/// Run a command for each job, its payload on stdin
///
/// The command finds HAPAX_JOB_ID, HAPAX_JOB_KEY (the job id, or else the id that hapax gave: the same each time the job runs),
/// HAPAX_ATTEMPT, HAPAX_MAX_ATTEMPTS, HAPAX_FENCE (a number that grows with every run), HAPAX_LEASE_UNTIL, HAPAX_QUEUE,
/// HAPAX_GROUP and HAPAX_NAMESPACE in its environment. No shell is involved.
///
/// The first SIGINT or SIGTERM lets what runs end, for --drain at most; the second ends hapax at once. A worker that is killed
/// or frozen takes its commands with it before another can get their jobs.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue work thumbs -- ./make-thumb
  hapax queue work thumbs --concurrency 8 --timeout 1m -- ./make-thumb
  hapax queue work thumbs --until-empty -- sh -c 'convert \"$(jq -r .file)\" -resize 64 \"$HAPAX_JOB_KEY\"'
  hapax queue work orders --group billing --idempotent -- ./charge

WHAT THE COMMAND'S END MEANS:
  0       the job is done
  65      it is dead: its input is wrong
  69, 75  not now: it is put off, and no attempt is used
  76      it is dead, reason unknown: it may have had its effect
  others, and an end by a signal or by --timeout: it failed, and is tried again after its backoff
  with --idempotent an end by a signal or by --timeout is unknown, as for `hapax once`

EXIT CODES:
  0         stopped, or (--once, --until-empty) nothing is left
  1         with --once or --until-empty: a job that it ran went dead
  69        the store failed at the start
  126, 127  the command could not be executed, was not found: its job is put back
  130, 143  ended at once by a second signal")]
pub(super) struct Work {
    /// The queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// Workers of one group share the jobs; each group has its own copy of all
    #[arg(long, value_name = "G", default_value = "main")]
    group: String,
    /// A name for this worker in lists [default: its process id]
    #[arg(long, value_name = "C")]
    consumer: Option<String>,
    /// So many commands run at once
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_concurrency)]
    concurrency: usize,
    /// How long a job stays with a worker that has died; renewed while it lives
    #[arg(long, value_name = "DUR", default_value = "30s", value_parser = duration::parse_lease)]
    claim_idle: Duration,
    /// A command may take so long: SIGTERM, and SIGKILL 5 s later. A job's own --timeout may be shorter
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive)]
    timeout: Option<Duration>,
    /// How long a stop waits for the commands that run; what is not through by then is ended and given back
    #[arg(long, value_name = "DUR", default_value = "30s", value_parser = duration::parse)]
    drain: Duration,
    /// Takes one job, if there is one, and ends
    #[arg(long, conflicts_with = "until_empty")]
    once: bool,
    /// Ends when nothing is ready or running; what is delayed is left
    #[arg(long)]
    until_empty: bool,
    /// Runs each job once per job key, in scope job:QUEUE:GROUP: by the table of `hapax once`
    #[arg(long)]
    idempotent: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

fn parse_concurrency(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|n| (1..=MOST).contains(n));
    number.ok_or_else(|| format!("`{text}` commands cannot run at once: write 1 to {MOST}"))
}

/// How the work ended.
enum Ended {
    By(Ran),
    /// A second signal came.
    AtOnce(i32),
}

impl Work {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut command = self.command.iter().cloned();
        let program = command.next().filter(|program| !program.is_empty());
        let program = program.ok_or_else(|| Failure::usage("the command to run is empty"))?;
        let group = group(&self.group)?;
        limits::check_open_files_of(self.concurrency)?;
        let mut interrupts = Interrupts::listen().map_err(|error| {
            Failure::new(Exit::Bug, "command.internal", format!("signals cannot be heard: {error}"))
        })?;
        let found = Found::open(&self.queue, context).await?;
        let program = Program {
            name: program,
            args: command.collect(),
            namespace: context.settings.namespace.clone(),
            lease: self.claim_idle,
            keeps: self.idempotent,
            max_receipt: found.hapax.backend().max_receipt,
            json: context.output.json,
            copies: TaskTracker::new(),
            fatal: Arc::default(),
            stop: CancellationToken::new(),
        };
        let (copies, fatal, stop) =
            (program.copies.clone(), Arc::clone(&program.fatal), program.stop.clone());
        let worker = self.start(self.builder(found.raw.worker(program), &found)).await?;
        if worker.subscribed() == Subscribed::Another {
            output::warn(&format!(
                "the group {} is new to {}: it has what is added from now on, and a copy of each job (drop it with hapax queue \
                 unsubscribe)",
                text::shown(&self.group),
                text::shown(&self.queue),
            ));
        }
        let ran = match follow(&worker, &stop, &mut interrupts, context).await {
            Ended::By(ran) => ran,
            Ended::AtOnce(signal) => {
                output::warn("ended at once: the jobs that ran are taken over when their lease is over");
                return Ok(Exit::Signal(signal));
            }
        };
        copies.close();
        tokio::select! {
            () = copies.wait() => {}
            _ = interrupts.next() => {}
        }
        let closed = found.hapax.close().within(self.claim_idle.min(CLOSE)).await;
        if !closed.is_clean() {
            output::warn("the store has not taken all that there was to keep (idempotency.complete_failed)");
        }
        if let Some(failure) = fatal.get() {
            return Err(failure.clone());
        }
        self.report(ran, &found, &group, context).await;
        let goes_on = !self.once && !self.until_empty;
        Ok(if goes_on || ran.dead == 0 { Exit::Done } else { Exit::ItemFailed })
    }

    fn builder(&self, worker: WorkerBuilder, found: &Found) -> WorkerBuilder {
        let mut worker = worker
            .group(&self.group)
            .concurrency(self.concurrency)
            .claim_idle(self.claim_idle)
            .drain(self.drain);
        if let Some(name) = &self.consumer {
            worker = worker.consumer(name);
        }
        if let Some(limit) = self.timeout {
            worker = worker.max_runtime(limit);
        }
        if self.idempotent {
            // Its scope is the worker's, whatever the handle's.
            let keys = found.hapax.idempotency("job").with_lease(self.claim_idle);
            worker = worker.idempotent(&keys, OnError::Retry);
        }
        worker
    }

    async fn start(&self, worker: WorkerBuilder) -> Result<Worker, QueueError> {
        if self.once {
            worker.start_once().await
        } else if self.until_empty {
            worker.start_until_empty().await
        } else {
            worker.start().await
        }
    }

    async fn report(&self, ran: Ran, found: &Found, group: &Group, context: &Context) {
        let id = found.raw.id();
        let left = if self.until_empty {
            let stats = found.store.stats(&id.namespace, Some(&id.name)).await.unwrap_or_default();
            stats.into_iter().find(|stats| stats.group.as_ref() == Some(group))
        } else {
            None
        };
        let output = &context.output;
        if output.json {
            output.object(&json!({
                "queue": self.queue,
                "group": self.group,
                "done": ran.done,
                "replayed": ran.replayed,
                "retried": ran.retried,
                "snoozed": ran.snoozed,
                "dead": ran.dead,
                "cancelled": ran.cancelled,
                "lost": ran.lost,
                "given_back": ran.given_back,
                "delayed": left.as_ref().map(|stats| stats.delayed),
            }));
        }
        if let Some(left) = left {
            let name = text::shown(&self.queue);
            if left.paused {
                output.note(&format!("{name} is paused, with {} ready", left.ready));
            }
            if left.delayed > 0 {
                output.note(&format!("{} delayed in {name}, left for later", left.delayed));
            }
        }
        let replayed = if ran.replayed > 0 { format!(" ({} replayed)", ran.replayed) } else { String::new() };
        let some =
            |number: u64, what: &str| if number > 0 { format!(", {what} {number}") } else { String::new() };
        output.note(&format!(
            "done {}{replayed}, to be retried {}, put off {}, dead {}{}{}{}",
            ran.done,
            ran.retried,
            ran.snoozed,
            ran.dead,
            some(ran.cancelled, "cancelled"),
            some(ran.lost, "lost"),
            some(ran.given_back, "given back"),
        ));
    }
}

/// Until it ends, or is told to.
async fn follow(
    worker: &Worker,
    stop: &CancellationToken,
    interrupts: &mut Interrupts,
    context: &Context,
) -> Ended {
    tokio::select! {
        ran = worker.ended() => return Ended::By(ran),
        () = stop.cancelled() => {}
        _ = interrupts.next() => context.output.note("stopping: what runs may end, nothing more is taken"),
    }
    tokio::select! {
        ran = worker.stop() => Ended::By(ran),
        signal = interrupts.next() => Ended::AtOnce(signal),
    }
}
