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
use super::{
    Found,
    drive::{self, Ended, Working, parse_concurrency},
};
use crate::{commands::Context, duration, exit::Exit, failure::Failure, limits};
use clap::Args;
use hapax::queue::{OnError, WorkerBuilder};
use std::{ffi::OsString, sync::Arc, time::Duration};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

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

AS A SERVICE (systemd): Type=exec, KillMode=mixed, Restart=on-failure, TimeoutStopSec above --drain, and
  ExecStart=/usr/bin/hapax --store sqlite:/var/lib/shop/jobs.db queue work thumbs -- /usr/bin/make-thumb

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
    #[command(flatten)]
    working: Working,
    /// So many commands run at once
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_concurrency)]
    concurrency: usize,
    /// How long a job stays with a worker that has died; renewed while it lives
    #[arg(long, value_name = "DUR", default_value = "30s", value_parser = duration::parse_lease)]
    claim_idle: Duration,
    /// A command may take so long: SIGTERM, and SIGKILL 5 s later. A job's own --timeout may be shorter
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive)]
    timeout: Option<Duration>,
    /// Runs each job once per job key, in scope job:QUEUE:GROUP: by the table of `hapax once`
    #[arg(long)]
    idempotent: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl Work {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut command = self.command.iter().cloned();
        let program = command.next().filter(|program| !program.is_empty());
        let program = program.ok_or_else(|| Failure::usage("the command to run is empty"))?;
        self.working.check()?;
        limits::check_open_files_of(self.concurrency)?;
        let mut interrupts = drive::interrupts()?;
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
        let worker = self.builder(found.raw.worker(program), &found);
        let ran = match self.working.drive(worker, &found, &stop, &mut interrupts, context).await? {
            Ended::By(ran) => ran,
            Ended::AtOnce(signal) => return Ok(Exit::Signal(signal)),
        };
        copies.close();
        tokio::select! {
            () = copies.wait() => {}
            _ = interrupts.next() => {}
        }
        drive::close(&found, self.claim_idle).await;
        if let Some(failure) = fatal.get() {
            return Err(failure.clone());
        }
        Ok(self.working.report(ran, &found, context).await)
    }

    fn builder(&self, worker: WorkerBuilder, found: &Found) -> WorkerBuilder {
        let mut worker = worker.concurrency(self.concurrency).claim_idle(self.claim_idle);
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
}
