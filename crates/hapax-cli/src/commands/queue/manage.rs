//! Commands on whole queues and groups, and `cancel`.

use super::{Found, OfGroup, OneJob, group, names};
use crate::{commands::Context, exit::Exit, failure::Failure, text};
use clap::Args;
use hapax::core::queue::Subscribed;
use serde_json::json;

/// Cancel a job in all groups
///
/// One that waits is removed, and its job id is free at once. Of one that runs, its worker hears at its next beat, a third of
/// its --claim-idle away at most, and ends the command; a command that is through by then is done. A job that is done, dead or
/// cancelled stays so (exit code 65).
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue cancel thumbs a.png")]
pub(super) struct Cancel {
    #[command(flatten)]
    job: OneJob,
}

impl Cancel {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let found = Found::of_job(&self.job, context).await?;
        let (job, _) = found.find(&self.job.id).await?;
        let cancelled = found.store.cancel(found.raw.id(), &job).await?;
        context.output.changed();
        if let (0, 0, over) = (cancelled.removed, cancelled.told, cancelled.over) {
            let state = over.map_or("gone", |state| state.as_str());
            let message = format!("{} is {state}: nothing was cancelled", text::shown(&self.job.id));
            return Err(Failure::input(message).help("a dead letter is dropped with `hapax queue dead drop`"));
        }
        if context.output.json {
            context.output.object(&json!({ "removed": cancelled.removed, "told": cancelled.told }));
        } else if cancelled.told > 0 {
            context.output.line("its worker is told at its next beat");
        } else {
            context.output.line("cancelled");
        }
        Ok(Exit::Done)
    }
}

/// Hold back the jobs of a queue; what runs goes on
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue pause thumbs
  hapax queue pause mails --group audit")]
pub(super) struct Pause {
    /// The queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    #[command(flatten)]
    group: OfGroup,
}

/// End a pause
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue resume thumbs")]
pub(super) struct Resume {
    /// The queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    #[command(flatten)]
    group: OfGroup,
}

impl Pause {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        pause(&self.queue, &self.group, true, context).await
    }
}

impl Resume {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        pause(&self.queue, &self.group, false, context).await
    }
}

async fn pause(name: &str, group: &OfGroup, paused: bool, context: &Context) -> Result<Exit, Failure> {
    let found = Found::look(name, context).await?.ok_or_else(|| names::no_store(name))?;
    let group = found.one_group(group).await?;
    let groups = found.store.pause(found.raw.id(), group.as_ref(), paused).await?;
    context.output.changed();
    if context.output.json {
        context.output.object(&json!({ "queue": name, "paused": paused, "groups": groups }));
    } else {
        context.output.line(if paused { "paused" } else { "open" });
    }
    Ok(Exit::Done)
}

/// Make a group known to a queue
///
/// The first group that a queue hears of has all jobs so far; a further one has its own copy of what is added from then on. A
/// worker does this when it starts.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue subscribe orders billing
  hapax queue subscribe orders audit          both get what is added from here on")]
pub(super) struct Subscribe {
    /// The queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// The group
    #[arg(value_name = "GROUP")]
    group: String,
}

impl Subscribe {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let group = group(&self.group)?;
        let found = Found::open(&self.queue, context).await?;
        let (word, text) = match found.store.subscribe(found.raw.id(), &group).await? {
            Subscribed::Known => ("known", "it was subscribed before"),
            Subscribed::First => ("first", "subscribed: the first group of the queue, with all its jobs"),
            Subscribed::Another => ("another", "subscribed: it gets what is added from now on"),
        };
        context.output.changed();
        if context.output.json {
            context.output.object(&json!({ "queue": self.queue, "group": self.group, "was": word }));
        } else {
            context.output.line(text);
        }
        Ok(Exit::Done)
    }
}

/// Drop a group of a queue with all its jobs, dead letters included
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue stats orders
  hapax queue unsubscribe orders audit --force")]
pub(super) struct Unsubscribe {
    /// The queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// The group
    #[arg(value_name = "GROUP")]
    group: String,
    /// Needed: its jobs are gone
    #[arg(long, required = true)]
    force: bool,
}

impl Unsubscribe {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let group = group(&self.group)?;
        let found = Found::look(&self.queue, context).await?.ok_or_else(|| names::no_store(&self.queue))?;
        found.is_there(Some(&group)).await?;
        // Gone meanwhile: that is what was wanted.
        removed(found.store.unsubscribe(found.raw.id(), &group).await?.unwrap_or_default(), context);
        Ok(Exit::Done)
    }
}

/// Remove all jobs of a queue, running ones and dead letters included
///
/// Their job ids are free at once. Groups, limits and counters stay.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue purge thumbs --force")]
pub(super) struct Purge {
    /// The queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// Needed: its jobs are gone
    #[arg(long, required = true)]
    force: bool,
}

impl Purge {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let found = Found::look(&self.queue, context).await?.ok_or_else(|| names::no_store(&self.queue))?;
        found.is_there(None).await?;
        removed(found.store.purge(found.raw.id()).await?, context);
        Ok(Exit::Done)
    }
}

fn removed(jobs: u64, context: &Context) {
    context.output.changed();
    if context.output.json {
        context.output.object(&json!({ "removed": jobs }));
    } else {
        context.output.line(&format!("{jobs} removed"));
    }
}
