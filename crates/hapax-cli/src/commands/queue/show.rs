//! `hapax queue show`, and how a job is shown.

use super::{Found, OneJob, unsettled::Unsettled};
use crate::{
    commands::{Context, keys::json_of},
    exit::Exit,
    failure::Failure,
    output::Output,
    text,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use clap::Args;
use hapax::{
    core::queue::{JobInfo, Progress},
    queue::{DeadReason, JobState, Settings},
};
use serde::Serialize;
use serde_json::Value;

/// Show what is known of a job
///
/// One answer for each group that has it. A job that is over is remembered for a time: with a job id as long as that stands for
/// it (--dedupe-for), with --keep-result as long as its result is kept, otherwise for some minutes. Of one that is done or
/// cancelled neither its payload nor how often it failed is kept.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue show thumbs a.png
  hapax queue show thumbs 9f86d081884c7d659a2feaa0c55ad015 --json | jq .payload")]
pub(super) struct Show {
    #[command(flatten)]
    job: OneJob,
}

impl Show {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let found = Found::of_job(&self.job, context).await?;
        let (_, infos) = found.find(&self.job.id).await?;
        print(found.name(), &infos, &context.output);
        Ok(Exit::Done)
    }
}

/// Each of them, with its payload.
pub(super) fn print(queue: &str, infos: &[JobInfo], output: &Output) {
    print_dead(queue, infos, &[], output);
}

/// The same, with the keys that are to be settled.
pub(super) fn print_dead(queue: &str, infos: &[JobInfo], keys: &[Option<Unsettled>], output: &Output) {
    for (n, info) in infos.iter().enumerate() {
        let mut shown = Shown::new(queue, info, true);
        if let Some(Some(key)) = keys.get(n) {
            (shown.key, shown.scope) = (Some(key.key.clone()), Some(key.scope.clone()));
        }
        if output.json {
            output.object(&shown);
        } else {
            if n > 0 {
                output.line("");
            }
            shown.print(info, output);
        }
    }
}

/// A job. The names of its fields are stable.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Shown {
    queue: String,
    id: String,
    job_id: Option<String>,
    group: Option<String>,
    state: &'static str,
    priority: u8,
    /// Of a job that is over and no dead letter, the counts are not kept.
    attempts: Option<u32>,
    max_attempts: u32,
    losses: Option<u32>,
    snoozes: Option<u32>,
    given_back: Option<u32>,
    redriven: Option<u32>,
    added_at: Option<String>,
    /// When it may start, when its lease ends, or when it ended.
    at: Option<String>,
    consumer: Option<String>,
    /// How far it is, while it runs and has said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Far>,
    reason: Option<&'static str>,
    error: Option<String>,
    /// Of a dead letter whose effect may have happened: to be settled before it is redriven.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    payload_bytes: usize,
    /// Of these three, one at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    result: Option<Value>,
}

/// What a handler says of its job.
#[derive(Clone, Debug, Serialize)]
struct Far {
    done: u64,
    total: u64,
    percent: u8,
    note: Option<String>,
}

impl Far {
    fn new(progress: &Progress) -> Self {
        let (done, total, percent) = (progress.done(), progress.total(), progress.percentage());
        Self { done, total, percent, note: progress.text().map(str::to_owned) }
    }

    fn print(&self) -> String {
        let note = self.note.as_ref().map_or_else(String::new, |note| format!(", {note}"));
        format!("{} % ({} of {}){note}", self.percent, self.done, self.total)
    }
}

impl Shown {
    pub(super) fn new(queue: &str, info: &JobInfo, with_payload: bool) -> Self {
        let bytes = Some(&info.payload).filter(|bytes| with_payload && !bytes.is_empty());
        let json = bytes.and_then(|bytes| serde_json::from_slice(bytes).ok());
        let other = bytes.filter(|_| json.is_none());
        let as_text = other.and_then(|bytes| str::from_utf8(bytes).ok()).map(str::to_owned);
        let as_base64 = other.filter(|_| as_text.is_none()).map(|bytes| BASE64_STANDARD.encode(bytes));
        let counts = !matches!(info.state, JobState::Done | JobState::Cancelled);
        let counts = counts.then_some(info.counts);
        Self {
            queue: queue.to_owned(),
            id: info.uid.to_string(),
            job_id: info.job_id.as_ref().map(|id| id.as_str().to_owned()),
            group: info.group.as_ref().map(|group| group.as_str().to_owned()),
            state: info.state.as_str(),
            priority: info.priority.number(),
            attempts: counts.map(|counts| counts.attempts),
            max_attempts: Settings::read(&info.settings).max_attempts,
            losses: counts.map(|counts| counts.losses),
            snoozes: counts.map(|counts| counts.snoozes),
            given_back: counts.map(|counts| counts.given_back),
            redriven: counts.map(|counts| counts.redriven),
            added_at: text::time(info.added_at),
            at: text::time(info.at),
            consumer: info.consumer.as_ref().map(|consumer| consumer.as_str().to_owned()),
            progress: info.progress.as_ref().map(Far::new),
            reason: info.reason.map(DeadReason::as_str),
            error: info.error.clone(),
            key: None,
            scope: None,
            payload_bytes: info.payload.len(),
            payload: json,
            payload_text: as_text,
            payload_base64: as_base64,
            result: info.result.as_ref().map(json_of),
        }
    }

    fn print(&self, info: &JobInfo, output: &Output) {
        let at = match info.state {
            JobState::Delayed => "due",
            JobState::Running => "lease until",
            JobState::Ready => "ready since",
            _ => "ended",
        };
        let counted = |n: Option<u32>, what: &str| n.filter(|n| *n > 0).map(|n| format!(", {what} {n}"));
        let counts = [
            self.attempts.map(|failed| format!("{failed} of {} failed", self.max_attempts)),
            counted(self.losses, "lost"),
            counted(self.snoozes, "put off"),
            counted(self.given_back, "given back"),
            counted(self.redriven, "redriven"),
        ];
        let payload = self.payload.as_ref().map(ToString::to_string);
        let fields = [
            ("id", Some(self.id.clone())),
            ("job id", self.job_id.clone()),
            ("queue", Some(self.queue.clone())),
            ("group", self.group.clone()),
            ("state", Some(self.state.to_owned())),
            ("reason", self.reason.map(str::to_owned)),
            ("error", self.error.clone()),
            ("key", self.key.clone()),
            ("scope", self.scope.clone()),
            ("attempts", self.attempts.map(|_| counts.into_iter().flatten().collect())),
            ("priority", Some(self.priority.to_string())),
            ("added", self.added_at.clone()),
            (at, self.at.clone()),
            ("consumer", self.consumer.clone()),
            ("progress", self.progress.as_ref().map(Far::print)),
            (
                "payload",
                payload.or_else(|| self.payload_text.clone()).or_else(|| self.payload_base64.clone()),
            ),
            ("result", self.result.as_ref().map(ToString::to_string)),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                output.line(&format!("{name:<12} {}", text::shown(&value)));
            }
        }
    }

    /// A row of a list.
    pub(super) fn row(self) -> Vec<String> {
        let or_dash = |text: Option<String>| text.map_or_else(|| "-".to_owned(), |text| text::shown(&text));
        let about = match (self.reason, self.error) {
            (Some(reason), Some(error)) => Some(format!("{reason}: {error}")),
            (reason, error) => error.or_else(|| reason.map(str::to_owned)).or(self.consumer),
        };
        vec![
            self.id,
            or_dash(self.job_id),
            or_dash(self.group),
            self.state.to_owned(),
            self.attempts.map_or_else(|| "-".to_owned(), |failed| format!("{failed}/{}", self.max_attempts)),
            or_dash(self.at),
            or_dash(about),
        ]
    }
}

/// The columns of [`Shown::row`].
pub(super) const COLUMNS: &[&str] = &["ID", "JOB ID", "GROUP", "STATE", "FAILED", "AT", "ABOUT"];
