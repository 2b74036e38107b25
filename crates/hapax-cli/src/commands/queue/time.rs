//! `hapax queue run-now` and `hapax queue reschedule`.

use super::{Found, OneJob, add::options::parse_time, show};
use crate::{commands::Context, duration, exit::Exit, failure::Failure, text};
use clap::Args;
use hapax::{
    Timestamp,
    core::Span,
    queue::{Due, JobState},
};
use std::time::Duration;

/// Let a job that waits start at once
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue run-now thumbs a.png")]
pub(super) struct RunNow {
    #[command(flatten)]
    job: OneJob,
}

/// Give a job that waits another time
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue reschedule thumbs a.png --delay 2h
  hapax queue reschedule thumbs a.png --run-at 2026-12-24T18:00:00Z")]
pub(super) struct Reschedule {
    #[command(flatten)]
    job: OneJob,
    #[command(flatten)]
    when: When,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct When {
    /// In so long from now
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    delay: Option<Duration>,
    /// At this time, RFC 3339
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    run_at: Option<Timestamp>,
}

impl RunNow {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        reschedule(&self.job, Due::Now, context).await
    }
}

impl Reschedule {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let due = match (self.when.delay, self.when.run_at) {
            (_, Some(at)) => Due::At(at),
            (None | Some(Duration::ZERO), None) => Due::Now,
            (Some(delay), None) => {
                Due::After(Span::new(delay).map_err(|error| Failure::usage(format!("--delay: {error}")))?)
            }
        };
        reschedule(&self.job, due, context).await
    }
}

async fn reschedule(job: &OneJob, due: Due, context: &Context) -> Result<Exit, Failure> {
    let found = Found::of_job(job, context).await?;
    let (named, infos) = found.find(&job.id).await?;
    if found.store.reschedule(found.raw.id(), &named, due).await? == 0 {
        let state = infos.first().map_or("gone", |info| info.state.as_str());
        let failure = Failure::input(format!("{} is {state}: it does not wait", text::shown(&job.id)));
        let dead = infos.iter().any(|info| info.state == JobState::Dead);
        return Err(if dead { failure.help("`hapax queue dead redrive` takes it back") } else { failure });
    }
    context.output.changed();
    let infos = found.store.find(found.raw.id(), &named).await?;
    show::print(found.name(), &infos, &context.output);
    Ok(Exit::Done)
}
