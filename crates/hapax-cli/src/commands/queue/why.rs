//! `hapax queue why`: what happened to a job.

use super::{Found, OneJob, show::Shown};
use crate::{commands::Context, exit::Exit, failure::Failure, output::Output, text};
use clap::Args;
use hapax::{
    Timestamp,
    core::queue::{
        JobInfo,
        history::{Event, What},
    },
    queue::{DeadReason, JobState},
};
use serde::Serialize;

/// Tell what happened to a job, and what it waits for
///
/// One line for each thing that happened beside the usual, as it happened: failures with the first 256 bytes of their texts, losses
/// of workers, and what people did. The first of them and the latest are kept, 20 in all, as long as the job or the dead letter.
/// Of a job that is done or cancelled only its beginning and its end are remembered, for as long as `hapax queue show` knows it.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue why thumbs a.png
  hapax queue why thumbs a.png --json | jq -r '.history[] | .at + \" \" + .what'")]
pub(super) struct Why {
    #[command(flatten)]
    job: OneJob,
}

impl Why {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let found = Found::of_job(&self.job, context).await?;
        let (_, infos) = found.find(&self.job.id).await?;
        let output = &context.output;
        for info in &infos {
            if output.json {
                output.object(&Story::new(found.name(), info));
            } else {
                if let (true, Some(group)) = (infos.len() > 1, &info.group) {
                    output.line(&format!("in group {}:", text::shown(group.as_str())));
                }
                tell(found.name(), info, output);
            }
        }
        Ok(Exit::Done)
    }
}

/// A job with what happened to it. The names of the fields are stable.
#[derive(Debug, Serialize)]
struct Story {
    #[serde(flatten)]
    job: Shown,
    /// Since when it runs.
    taken_at: Option<String>,
    history: Vec<Told>,
    /// How many events after the first are left out.
    history_dropped: u32,
}

#[derive(Debug, Serialize)]
struct Told {
    at: Option<String>,
    what: &'static str,
    attempts: u32,
    consumer: Option<String>,
    due: Option<String>,
    reason: Option<&'static str>,
    error: Option<String>,
}

impl Story {
    fn new(queue: &str, info: &JobInfo) -> Self {
        let told = |event: &Event| Told {
            at: text::time(event.at),
            what: event.what.as_str(),
            attempts: event.attempts,
            consumer: event.consumer.as_ref().map(|consumer| consumer.as_str().to_owned()),
            due: event.due.and_then(text::time),
            reason: event.reason.map(DeadReason::as_str),
            error: event.error.clone(),
        };
        Self {
            job: Shown::new(queue, info, false),
            taken_at: info.taken_at.and_then(text::time),
            history: info.history.events.iter().map(told).collect(),
            history_dropped: info.history.dropped,
        }
    }
}

/// For people: one line for each event, from the first to what is so now.
fn tell(queue: &str, info: &JobInfo, output: &Output) {
    let line = |at: Option<Timestamp>, said: &str| {
        let at = at.map_or_else(String::new, time);
        output.line(&format!("{at:<24}  {}", text::shown(said)));
    };
    line(Some(info.added_at), "added");
    for (n, event) in info.history.events.iter().enumerate() {
        line(Some(event.at), &of(event));
        if n == 0 && info.history.dropped > 0 {
            line(None, &format!("({} events are left out)", info.history.dropped));
        }
    }
    match info.state {
        JobState::Ready => line(Some(info.at), "ready; no worker has taken it since"),
        JobState::Delayed => line(None, &format!("now waiting; next attempt at {}", time(info.at))),
        JobState::Running => {
            line(
                info.taken_at,
                &format!("taken by {}", who(info.consumer.as_ref().map(ToString::to_string))),
            );
            let since = info.taken_at.map_or_else(String::new, |at| format!(" since {}", time(at)));
            line(None, &format!("now running{since}, lease until {}", time(info.at)));
        }
        JobState::Dead => {
            let reason = info.reason.map_or("unknown", DeadReason::as_str);
            let group = info.group.as_ref().filter(|group| group.as_str() != "main");
            let group =
                group.map_or_else(String::new, |group| format!(" --group {}", text::quoted(group.as_str())));
            line(
                None,
                &format!(
                    "now dead: {reason}; to take it back: hapax queue dead redrive {} {}{group}",
                    text::quoted(queue),
                    info.uid
                ),
            );
        }
        JobState::Done => line(Some(info.at), "done"),
        JobState::Cancelled => line(Some(info.at), "cancelled"),
    }
}

fn of(event: &Event) -> String {
    let who = who(event.consumer.as_ref().map(ToString::to_string));
    let error = event.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
    let due = event.due.map(time).unwrap_or_default();
    match event.what {
        What::Retried => format!("attempt {} failed at {who}{error}; next attempt at {due}", event.attempts),
        What::Snoozed => format!("put off by {who} until {due}"),
        What::Lost => format!("lost with its worker {who}; ready again"),
        What::GivenBack => format!("given back by {who}; ready again"),
        What::Dead => {
            let reason = event.reason.map_or("unknown", DeadReason::as_str);
            format!("dead after {} failed attempts, last at {who}: {reason}{error}", event.attempts)
        }
        What::Redriven => "taken back from the dead letters; its counters are at zero".to_owned(),
        What::Edited => "given another payload by hand".to_owned(),
        What::Cancelled => format!("cancelled while {who} had it; its worker is told"),
        What::Rescheduled => format!("given another time: {due}"),
        What::Replaced => format!("replaced by an add under its job id, due at {due}"),
        other => other.as_str().to_owned(),
    }
}

fn who(consumer: Option<String>) -> String {
    consumer.unwrap_or_else(|| "a worker".to_owned())
}

fn time(at: Timestamp) -> String {
    text::time(at).unwrap_or_else(|| "never".to_owned())
}
