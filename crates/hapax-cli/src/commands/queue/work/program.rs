//! One job: runs the command under the lease of its job.

use super::verdict::{self, Facts};
use crate::{
    child::{Ended, Input, LeaseState, NotStarted, Output as Recording, Prepared, Spec},
    exit::Exit,
    failure::Failure,
    receipt::{self, Bytes, Run},
    text,
};
use hapax::{
    Clock,
    core::{BootTime, SystemClock, async_trait, idempotency::Receipt},
    queue::{
        Control, Halt,
        raw::{Handler, Outcome, RawJob},
    },
};
use std::{
    ffi::OsString,
    future::pending,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::sync::watch;
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};

/// So much of stdout, and of stderr, is kept as a result, or told as the reason of a failure.
const RECORD: usize = 64 << 10;
/// A job whose command could not begin is put off for so long; no attempt is used.
const NOT_BEGUN: Duration = Duration::from_secs(1);
/// The margin of a lease of this length is half a second. Once the drain time is over, what still runs has that between SIGTERM and
/// SIGKILL: it is gone before the worker gives its job back, a second later.
const STOPPING: Duration = Duration::from_secs(2);

/// What runs for each job.
pub(super) struct Program {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) namespace: String,
    /// For how long a job is granted.
    pub(super) lease: Duration,
    /// Whether results are kept under keys.
    pub(super) keeps: bool,
    pub(super) max_receipt: Option<usize>,
    /// stdout is for objects.
    pub(super) json: bool,
    /// Output that our own stdout and stderr have not taken yet.
    pub(super) copies: TaskTracker,
    /// Why no job can be run at all.
    pub(super) fatal: Arc<OnceLock<Failure>>,
    /// Cancelled with it.
    pub(super) stop: CancellationToken,
}

#[async_trait]
impl Handler for Program {
    /// The job is not over before what the command has started is gone.
    fn keeps_time(&self) -> bool {
        true
    }

    async fn handle(&self, job: RawJob) -> Outcome {
        let (lease, _follower) = follow(&job.control, self.lease);
        let begun = SystemClock.boot();
        let ended = match Prepared::start(self.spec(&job)) {
            Ok(prepared) => prepared.run(&[], lease).await,
            Err(not_started) => Err(not_started),
        };
        match ended {
            Ok(ended) => self.ended(&job, ended, SystemClock.boot().since(begun)).await,
            Err(not_started) => self.not_started(&not_started),
        }
    }
}

impl Program {
    fn spec(&self, job: &RawJob) -> Spec {
        let until = SystemClock.read().wall_of(*job.control.deadline().borrow());
        let env = [
            ("HAPAX_JOB_ID", job.taken.uid.to_string()),
            ("HAPAX_JOB_KEY", job.key().as_str().to_owned()),
            ("HAPAX_ATTEMPT", job.attempt().to_string()),
            ("HAPAX_MAX_ATTEMPTS", job.settings.max_attempts.to_string()),
            ("HAPAX_FENCE", job.taken.fence.to_string()),
            ("HAPAX_QUEUE", job.queue.as_str().to_owned()),
            ("HAPAX_GROUP", job.group.as_str().to_owned()),
            ("HAPAX_NAMESPACE", self.namespace.clone()),
            ("HAPAX_LEASE_UNTIL", text::time(until).unwrap_or_default()),
        ];
        Spec {
            program: self.program.clone(),
            args: self.args.clone(),
            env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            stdin: Input::Bytes(job.taken.payload.clone()),
            output: if self.json {
                Recording::Record { limit: RECORD }
            } else {
                Recording::Copy { limit: RECORD }
            },
            timeout: job.limit,
            foreground: false,
        }
    }

    async fn ended(&self, job: &RawJob, ended: Ended, took: Duration) -> Outcome {
        let halt = job.control.halt();
        let facts = Facts { exit: ended.exit, by: ended.by, halt, limit: job.limit };
        let run = Run {
            exit_code: ended.exit.code(),
            ended: receipt::Ended::Exited,
            recorded: true,
            stdout_bytes: ended.stdout.is_cut().then_some(ended.stdout.total),
            stderr_bytes: ended.stderr.is_cut().then_some(ended.stderr.total),
            stdout: Bytes(ended.stdout.head),
            stderr: Bytes(ended.stderr.head),
            took_ms: u64::try_from(took.as_millis()).ok(),
        };
        self.copies.spawn(ended.copied.wait());
        let outcome = verdict::of(&facts, &run.stderr.0);
        if halt == Some(Halt::Stopping) && !self.keeps && matches!(outcome, Outcome::Broken { .. }) {
            // The worker gives the job back as soon as it has waited for this long enough.
            return pending().await;
        }
        match outcome {
            Outcome::Done { .. } if self.keeps || job.settings.keep_result_ms.is_some() => {
                Outcome::Done { result: Some(self.receipt(run)) }
            }
            outcome => outcome,
        }
    }

    fn receipt(&self, mut run: Run) -> Receipt {
        if let Some(most) = self.max_receipt {
            run.cut_to(most.saturating_sub(receipt::CODEC.len()));
        }
        // Strings and numbers always have a form in JSON.
        run.encode().unwrap_or_else(|_| Receipt::new(receipt::CODEC, Vec::new()))
    }

    fn not_started(&self, not_started: &NotStarted) -> Outcome {
        // Otherwise the job was another's by then, or its worker was frozen: there is nothing wrong with the command.
        if !not_started.lease_passed {
            let code = if not_started.code == 127 { "command.not_found" } else { "command.not_executable" };
            self.fatal.get_or_init(|| {
                Failure::new(Exit::Command(not_started.code), code, &not_started.reason)
                    .help("the job is put back: no attempt was used")
            });
            self.stop.cancel();
        }
        Outcome::Snooze { by: NOT_BEGUN }
    }
}

/// Tells the guard of the command each new deadline, and when the job should not go on.
fn follow(control: &Control, length: Duration) -> (watch::Receiver<LeaseState>, AbortOnDropHandle<()>) {
    let held = move |until: BootTime| LeaseState::held(until.as_millis(), length);
    let (control, mut deadline) = (control.clone(), control.deadline());
    let (tell, lease) = watch::channel(held(*deadline.borrow_and_update()));
    let follower = tokio::spawn(async move {
        loop {
            tokio::select! {
                halt = control.halted() => {
                    tell.send_modify(|lease| {
                        lease.lost = true;
                        lease.length = if halt == Halt::Stopping { STOPPING.min(length) } else { length };
                    });
                    return;
                }
                Ok(()) = deadline.changed() => {
                    tell.send_replace(held(*deadline.borrow_and_update()));
                }
            }
        }
    });
    (lease, AbortOnDropHandle::new(follower))
}
