//! `hapax queue`: durable jobs.
//!
//! | module | what it does |
//! |---|---|
//! | `add` | adds jobs |
//! | `work` | runs a command for each job |
//! | `drive` | how a worker is started, stopped, and spoken of |
//! | `stats`, `list`, `show` | look |
//! | `why` | tells what happened to a job |
//! | `events` | tells what passes in a queue |
//! | `dead`, `edit`, `unsettled` | dead letters |
//! | `wait` | waits for the end of a job |
//! | `cron` | adds jobs by a schedule |
//! | `time` | gives a waiting job another time |
//! | `names` | names that nothing has |
//! | `limits`, `manage` | queues, groups, and what is taken out of them |

pub(super) mod add;
mod cron;
mod dead;
pub(super) mod drive;
mod edit;
mod events;
mod limits;
mod list;
mod manage;
mod names;
mod show;
mod stats;
mod time;
mod unsettled;
mod wait;
mod why;
#[cfg(unix)]
mod work;

use super::Context;
use crate::{
    exit::Exit,
    failure::Failure,
    store::{self, Sharing},
    text,
};
use clap::{Args, Subcommand};
use hapax::{
    Hapax, Key,
    core::queue::{Group, JobInfo, JobRef, QueueName, QueueStore},
    queue::RawQueue,
};
use std::sync::Arc;

/// Add jobs, run a command for each, and look after those that died
///
/// A job that was added runs at least once, whoever is killed meanwhile. It is ready, delayed, running, done, cancelled, or
/// dead: it failed as often as it may, or nobody knows whether it had its effect. Dead ones are kept until they are redriven or
/// dropped.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue add thumbs '{\"file\":\"a.png\"}'
  hapax queue work thumbs --until-empty -- ./make-thumb
  hapax queue stats
  hapax queue dead list thumbs")]
pub(crate) struct Queue {
    #[command(subcommand)]
    command: QueueCommand,
}

#[derive(Debug, Subcommand)]
enum QueueCommand {
    Add(Box<add::Add>),
    #[cfg(unix)]
    Work(Box<work::Work>),
    Stats(stats::Stats),
    List(list::ListJobs),
    Show(show::Show),
    Why(why::Why),
    Events(events::Events),
    Wait(wait::Wait),
    Cron(cron::Cron),
    Dead(dead::Dead),
    Edit(edit::Edit),
    RunNow(time::RunNow),
    Reschedule(time::Reschedule),
    Cancel(manage::Cancel),
    Pause(manage::Pause),
    Resume(manage::Resume),
    Limits(limits::Limits),
    Subscribe(manage::Subscribe),
    Unsubscribe(manage::Unsubscribe),
    Purge(manage::Purge),
}

impl Queue {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let exit = match self.command {
            QueueCommand::Add(add) => add.run(context).await,
            #[cfg(unix)]
            QueueCommand::Work(work) => return work.run(context).await,
            QueueCommand::Stats(stats) => stats.run(context).await,
            QueueCommand::List(list) => list.run(context).await,
            QueueCommand::Show(show) => show.run(context).await,
            QueueCommand::Why(why) => why.run(context).await,
            QueueCommand::Events(events) => events.run(context).await,
            QueueCommand::Wait(wait) => wait.run(context).await,
            QueueCommand::Cron(cron) => cron.run(context).await,
            QueueCommand::Dead(dead) => dead.run(context).await,
            QueueCommand::Edit(edit) => edit.run(context).await,
            QueueCommand::RunNow(now) => now.run(context).await,
            QueueCommand::Reschedule(reschedule) => reschedule.run(context).await,
            QueueCommand::Cancel(cancel) => cancel.run(context).await,
            QueueCommand::Pause(pause) => pause.run(context).await,
            QueueCommand::Resume(resume) => resume.run(context).await,
            QueueCommand::Limits(limits) => limits.run(context).await,
            QueueCommand::Subscribe(subscribe) => subscribe.run(context).await,
            QueueCommand::Unsubscribe(unsubscribe) => unsubscribe.run(context).await,
            QueueCommand::Purge(purge) => purge.run(context).await,
        }?;
        context.output.end()?;
        Ok(exit)
    }
}

/// One group of a queue.
#[derive(Clone, Debug, Args)]
struct OfGroup {
    /// Of this group alone [default: all; what writes needs it where there are several]
    #[arg(long, value_name = "G")]
    group: Option<String>,
}

impl OfGroup {
    fn name(&self) -> Result<Option<Group>, Failure> {
        self.group.as_deref().map(group).transpose()
    }
}

/// A job of a queue.
#[derive(Clone, Debug, Args)]
struct OneJob {
    /// The queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// The id that hapax gave to the job, or its job id
    #[arg(value_name = "ID")]
    id: String,
}

fn group(name: &str) -> Result<Group, Failure> {
    Group::new(name).map_err(|error| Failure::new(Exit::Invalid, "queue.invalid", error.to_string()))
}

/// Whether a queue may be called so.
pub(super) fn name(name: &str) -> Result<(), Failure> {
    queue(name).map(drop)
}

fn queue(name: &str) -> Result<QueueName, Failure> {
    QueueName::new(name).map_err(|error| Failure::new(Exit::Invalid, "queue.invalid", error.to_string()))
}

/// A queue in its store.
pub(super) struct Found {
    pub(super) hapax: Hapax,
    pub(super) raw: RawQueue,
    pub(super) store: Arc<dyn QueueStore>,
}

impl Found {
    /// Makes the store where it is missing.
    pub(super) async fn open(name: &str, context: &Context) -> Result<Self, Failure> {
        queue(name)?;
        let hapax = store::open(&context.settings, Sharing::Needed).await?;
        let raw = hapax.queue().raw(name)?;
        let store = Arc::clone(hapax.queue().store()?);
        Ok(Self { hapax, raw, store })
    }

    /// For commands that find nothing in a store that is not there: looking makes none.
    async fn look(name: &str, context: &Context) -> Result<Option<Self>, Failure> {
        queue(name)?;
        if let Some(note) = store::missing(&context.settings)? {
            context.output.note(&note);
            return Ok(None);
        }
        Self::open(name, context).await.map(Some)
    }

    /// For commands that need a job: where there is no store there is none.
    async fn of_job(job: &OneJob, context: &Context) -> Result<Self, Failure> {
        let found = Self::look(&job.queue, context).await?;
        found.ok_or_else(|| unknown(&job.queue, &job.id))
    }

    pub(super) fn name(&self) -> &str {
        self.raw.id().name.as_str()
    }

    /// What is known of a job, and by which of its names: one of hapax's own goes first.
    async fn find(&self, id: &str) -> Result<(JobRef, Vec<JobInfo>), Failure> {
        let uid = id.parse().ok().map(JobRef::Uid);
        let job_id = Key::from_shown(id).ok().map(JobRef::JobId);
        for job in uid.into_iter().chain(job_id) {
            let infos = self.store.find(self.raw.id(), &job).await?;
            if !infos.is_empty() {
                return Ok((job, infos));
            }
        }
        Err(unknown(self.name(), id))
    }

    /// The group that is to be written to: with several, one has to be named.
    async fn one_group(&self, wanted: &OfGroup) -> Result<Option<Group>, Failure> {
        let id = self.raw.id();
        let wanted = wanted.name()?;
        let groups = names::figures(&*self.store, &id.namespace, Some(&id.name), wanted.as_ref()).await?;
        if wanted.is_none() && groups.len() > 1 {
            let named = groups.iter().filter_map(|stats| stats.group.as_ref());
            let names: Vec<_> = named.map(|group| text::quoted(group.as_str())).collect();
            let message = format!("the queue has {} groups: say which with --group", groups.len());
            return Err(Failure::usage(message).help(format!("its groups: {}", names.join(", "))));
        }
        Ok(wanted)
    }
}

fn unknown(queue: &str, id: &str) -> Failure {
    Failure::input(format!("the queue {} knows no job {}", text::shown(queue), text::shown(id))).help(
        "`hapax queue list QUEUE` shows those that live; one that is over is remembered for a time only",
    )
}
