//! `hapax queue wait`.

use super::{Found, OneJob, unknown};
use crate::{
    commands::{Context, keys::json_of},
    duration,
    exit::Exit,
    failure::Failure,
    output,
    receipt::{self, Run},
    text,
};
use clap::Args;
use hapax::{
    core::{
        idempotency::Receipt,
        queue::{JobInfo, JobRef},
    },
    queue::{DeadReason, JobState},
};
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// From one look to the next.
const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(1);

/// Wait for the end of a job, in all groups, and print its result
///
/// A result is kept where the job was added with --keep-result: what the command wrote, or what a handler answered as JSON.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue wait thumbs a.png
  id=$(hapax queue add thumbs '{\"file\":\"a.png\"}' --keep-result 1h)
  hapax queue wait thumbs \"$id\" --timeout 5m

EXIT CODES:
  0    the job is done
  1    it is dead, or was cancelled
  65   no such job is known, or not any more
  76   it is dead, and nobody knows whether it had its effect
  124  --timeout ran out")]
pub(super) struct Wait {
    #[command(flatten)]
    job: OneJob,
    /// At most so long [default: as long as it takes]
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    timeout: Option<Duration>,
}

impl Wait {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let until = self.timeout.map(|limit| Instant::now() + limit);
        let found = Found::of_job(&self.job, context).await?;
        let (job, mut infos) = found.find(&self.job.id).await?;
        // Its job id is free again once it is cancelled.
        let job = infos.first().map_or(job, |info| JobRef::Uid(info.uid));
        let ending = async {
            let mut pause = FIRST;
            while infos.iter().any(|info| !info.state.is_end()) {
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST);
                infos = found.store.find(found.raw.id(), &job).await?;
            }
            Ok::<_, Failure>(infos)
        };
        let infos = match until {
            None => ending.await?,
            Some(until) => match timeout_at(until, ending).await {
                Ok(infos) => infos?,
                Err(_) => {
                    let message = format!("{} has not ended yet", text::shown(&self.job.id));
                    return Err(Failure::new(Exit::TimedOut, "command.timed_out", message));
                }
            },
        };
        // It ended, and was forgotten before the next look.
        let last = worst(&infos).ok_or_else(|| unknown(found.name(), &self.job.id))?;
        print(last, context);
        Ok(exit_of(last))
    }
}

/// The end that tells most: a dead letter before all.
fn worst(infos: &[JobInfo]) -> Option<&JobInfo> {
    infos.iter().min_by_key(|info| match info.state {
        JobState::Dead if info.reason == Some(DeadReason::Unknown) => 0,
        JobState::Dead => 1,
        JobState::Cancelled => 2,
        _ => 3,
    })
}

fn exit_of(info: &JobInfo) -> Exit {
    match (info.state, info.reason) {
        (JobState::Done, _) => Exit::Done,
        (JobState::Dead, Some(DeadReason::Unknown)) => Exit::Unknown,
        _ => Exit::ItemFailed,
    }
}

fn print(info: &JobInfo, context: &Context) {
    let output = &context.output;
    if output.json {
        output.object(&json!({
            "id": info.uid.to_string(),
            "job_id": info.job_id.as_ref().map(hapax::Key::as_str),
            "state": info.state.as_str(),
            "reason": info.reason.map(DeadReason::as_str),
            "error": info.error,
            "result": info.result.as_ref().map(json_of),
            "exit_code": exit_of(info).code(),
        }));
        return;
    }
    if let Some(result) = &info.result {
        return of_result(result, context);
    }
    if info.state != JobState::Done {
        let reason = info.reason.map_or_else(String::new, |reason| format!(", {}", reason.as_str()));
        let error = info.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
        output::say(&text::shown(&format!("the job is {}{reason}{error}", info.state.as_str())));
    }
}

fn of_result(result: &Receipt, context: &Context) {
    match Run::decode(result) {
        Ok(run) => {
            context.output.bytes(&run.stdout.0);
            output::stderr_bytes(&run.stderr.0);
            if run.is_cut() {
                output::say("output cut: its beginning was kept");
            }
        }
        Err(_) if result.codec == receipt::CODEC => output::warn("its result cannot be read"),
        Err(_) => context.output.line(&json_of(result).to_string()),
    }
}
