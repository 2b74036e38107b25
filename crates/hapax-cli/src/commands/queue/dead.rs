//! `hapax queue dead`: jobs that ended badly.

mod export;
mod from;

use self::from::Lines;
use super::{Found, OfGroup, OneJob, list, names, show, unknown, unsettled::Unsettled};
use crate::{commands::Context, exit::Exit, failure::Failure, output::Output, text};
use clap::{Args, Subcommand};
use hapax::{
    core::queue::{Group, JobInfo, JobRef, ListJobs, MAX_REDRIVES, MOST, Redrive as Request, Redriven},
    queue::{JobState, Uid},
};
use serde_json::json;
use std::path::PathBuf;

/// Look at dead letters, take them back into the queue, or drop them
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue dead list thumbs
  hapax queue dead show thumbs a.png
  hapax queue dead redrive thumbs --all
  hapax queue dead export thumbs dead.jsonl
  hapax queue dead drop thumbs a.png")]
pub(super) struct Dead {
    #[command(subcommand)]
    command: DeadCommand,
}

#[derive(Debug, Subcommand)]
enum DeadCommand {
    List(ListDead),
    Show(ShowDead),
    Export(export::Export),
    Redrive(Redrive),
    Drop(Drop),
}

impl Dead {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.command {
            DeadCommand::List(list) => list::print(&list.queue, &[JobState::Dead], &list.page, context).await,
            DeadCommand::Show(show) => show.run(context).await,
            DeadCommand::Export(export) => export.run(context).await,
            DeadCommand::Redrive(redrive) => redrive.run(context).await,
            DeadCommand::Drop(drop) => drop.run(context).await,
        }
    }
}

/// List dead letters, the oldest first
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue dead list thumbs
  hapax queue dead list thumbs --json | jq -r 'select(.reason == \"unknown\") | .id'")]
struct ListDead {
    /// The queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    #[command(flatten)]
    page: list::Page,
}

/// Show a dead letter with its payload and its error
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue dead show thumbs a.png")]
struct ShowDead {
    #[command(flatten)]
    job: OneJob,
    #[command(flatten)]
    group: OfGroup,
}

impl ShowDead {
    async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let group = self.group.name()?;
        let found = Found::of_job(&self.job, context).await?;
        let (_, infos) = found.find(&self.job.id).await?;
        let dead = of_group(infos, group.as_ref());
        if dead.is_empty() {
            return Err(not_dead(&self.job.id));
        }
        let mut shown = Vec::with_capacity(dead.len());
        for info in &dead {
            shown.push(Unsettled::of(&found, info).await?);
        }
        show::print_dead(found.name(), &dead, &shown, &context.output);
        let id = dead.first().map(|info| {
            info.job_id.as_ref().map_or_else(|| info.uid.to_string(), |id| id.as_str().to_owned())
        });
        if let (Some(unsettled), Some(id)) = (shown.iter().flatten().next(), id) {
            context.output.note(&unsettled.way_out(found.name(), &id));
        }
        Ok(Exit::Done)
    }
}

/// The dead ones.
pub(super) fn of_group(mut infos: Vec<JobInfo>, group: Option<&Group>) -> Vec<JobInfo> {
    infos.retain(|info| info.state == JobState::Dead && (group.is_none() || info.group.as_ref() == group));
    infos
}

pub(super) fn not_dead(id: &str) -> Failure {
    Failure::input(format!("{} is not among the dead letters", text::shown(id)))
}

/// Which dead letters.
#[derive(Debug, Args)]
struct Which {
    /// The queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// Ids that hapax gave, or job ids
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<String>,
    /// All that are there now
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    group: OfGroup,
}

impl Which {
    async fn open(&self, context: &Context) -> Result<(Found, Option<Group>, Vec<Uid>), Failure> {
        let found = Found::look(&self.queue, context).await?.ok_or_else(|| names::no_store(&self.queue))?;
        let group = found.one_group(&self.group).await?;
        let uids = if self.all { all(&found, group.as_ref()).await? } else { self.named(&found).await? };
        Ok((found, group, uids))
    }

    /// Nothing is done where one is not known.
    async fn named(&self, found: &Found) -> Result<Vec<Uid>, Failure> {
        let mut uids = Vec::with_capacity(self.ids.len());
        for id in &self.ids {
            let (job, infos) = found.find(id).await?;
            let uid = match (job, infos.first()) {
                (JobRef::Uid(uid), _) => uid,
                (JobRef::JobId(_), Some(info)) => info.uid,
                (JobRef::JobId(_), None) => return Err(unknown(found.name(), id)),
            };
            if of_group(infos, None).is_empty() {
                return Err(not_dead(id).help("nothing was changed"));
            }
            uids.push(uid);
        }
        Ok(uids)
    }
}

/// All of them first: a page that is taken away would move those behind it.
async fn all(found: &Found, group: Option<&Group>) -> Result<Vec<Uid>, Failure> {
    let (mut uids, mut after) = (Vec::new(), None);
    loop {
        let (queue, group) = (found.raw.id().clone(), group.cloned());
        let req = ListJobs { queue, group, state: JobState::Dead, after, limit: MOST };
        let page = found.store.list(&req).await?;
        uids.extend(page.jobs.iter().map(|job| job.uid));
        after = page.next;
        if after.is_none() {
            return Ok(uids);
        }
    }
}

/// Take dead letters back into the queue
///
/// Their counters start at zero. One whose job id another job has by now stays where it is, and so does one that has been
/// redriven ten times already.
#[derive(Debug, Args)]
#[command(
    after_help = "\
EXAMPLES:
  hapax queue dead redrive thumbs a.png b.png
  hapax queue dead redrive thumbs --all
  hapax queue dead redrive thumbs a.png --force     although it has died again ten times
  hapax queue dead redrive thumbs --from dead.jsonl what `hapax queue dead export` wrote, with other payloads perhaps

EXIT CODES:
  0   all of them are ready again
  1   some stay dead: stderr, or --json, says why
  65  an id is not known, or not dead, or a line is invalid: nothing was changed",
    override_usage = "hapax queue dead redrive [OPTIONS] <QUEUE> <ID>...\n       hapax queue dead redrive [OPTIONS] <QUEUE> --all\n       \
hapax queue dead redrive [OPTIONS] <QUEUE> --from <FILE>"
)]
struct Redrive {
    /// The queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// Ids that hapax gave, or job ids
    #[arg(value_name = "ID", required_unless_present_any = ["all", "from"], conflicts_with_all = ["all", "from"])]
    ids: Vec<String>,
    /// All that are there now
    #[arg(long, conflicts_with = "from")]
    all: bool,
    /// Those of a file that `hapax queue dead export` wrote (`-` is standard input), with the payloads that they have there
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    #[command(flatten)]
    group: OfGroup,
    /// Also those that have been redriven ten times
    #[arg(long)]
    force: bool,
}

impl Redrive {
    async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let Self { queue, ids, all, from, group, force } = self;
        if let Some(path) = from {
            let lines = Lines::check(&path)?;
            let found = Found::look(&queue, context).await?.ok_or_else(|| names::no_store(&queue))?;
            let group = group.name()?;
            found.is_there(group.as_ref()).await?;
            let (ready, stay) = lines.redrive(&found, group.as_ref(), force, context).await?;
            return Ok(ended(ready, stay, context));
        }
        let (found, group, uids) = Which { queue, ids, all, group }.open(context).await?;
        let (mut ready, mut stay) = (0_u64, 0_u64);
        for uids in uids.chunks(MOST) {
            let (queue, group) = (found.raw.id().clone(), group.clone());
            let req = Request { queue, group, uids: uids.to_vec(), force };
            let answers = found.store.redrive(&req).await?;
            context.output.changed();
            for (uid, answer) in uids.iter().zip(answers) {
                if answer == Redriven::Ready {
                    ready += 1;
                } else {
                    stay += 1;
                }
                tell(*uid, answer, &context.output);
            }
        }
        Ok(ended(ready, stay, context))
    }
}

fn ended(ready: u64, stay: u64, context: &Context) -> Exit {
    context.output.note(&format!("redriven {ready}, not taken back {stay}"));
    if stay == 0 { Exit::Done } else { Exit::ItemFailed }
}

fn tell(uid: Uid, answer: Redriven, output: &Output) {
    let (word, code, why) = match answer {
        Redriven::Ready => ("ready", None, None),
        Redriven::NotDead => ("not_dead", None, Some("it is no dead letter any more".to_owned())),
        Redriven::Duplicate { uid } => {
            ("duplicate", Some("queue.duplicate"), Some(format!("its job id is that of {uid} now")))
        }
        Redriven::TooOften => (
            "too_often",
            None,
            Some(format!("it was redriven {MAX_REDRIVES} times: look at it, then --force")),
        ),
    };
    if output.json {
        output.object(&json!({ "id": uid.to_string(), "outcome": word, "code": code, "message": why }));
    } else if let Some(why) = why {
        crate::output::say(&format!("{uid}: {why}"));
    } else {
        output.line(&uid.to_string());
    }
}

/// Drop dead letters; their job ids are free at once
#[derive(Debug, Args)]
#[command(
    after_help = "\
EXAMPLES:
  hapax queue dead drop thumbs a.png
  hapax queue dead drop thumbs --all",
    override_usage = "hapax queue dead drop [OPTIONS] <QUEUE> <ID>...\n       hapax queue dead drop [OPTIONS] <QUEUE> --all"
)]
struct Drop {
    #[command(flatten)]
    which: Which,
}

impl Drop {
    async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let (found, group, uids) = self.which.open(context).await?;
        let mut dropped = 0;
        for uids in uids.chunks(MOST) {
            dropped += found.store.drop_dead(found.raw.id(), group.as_ref(), uids).await?;
        }
        context.output.changed();
        if context.output.json {
            context.output.object(&json!({ "dropped": dropped }));
        } else {
            context.output.line(&format!("{dropped} dropped"));
        }
        Ok(Exit::Done)
    }
}
