//! `hapax queue stats`.

use super::{OfGroup, names, queue};
use crate::{
    commands::Context,
    duration,
    exit::Exit,
    failure::Failure,
    store::{self, Sharing},
    text,
};
use clap::Args;
use hapax::{
    core::Namespace,
    queue::{Group, QueueStats},
};
use serde_json::json;

/// Show the figures of a queue, or of all
///
/// One line for each group. What was added, done, cancelled and lost is counted since the group began. A dash for the group: no
/// worker has named the first one yet. Without a terminal no header is printed: the columns are queue, group, ready, delayed,
/// running, dead, added, done, cancelled, lost, age of the oldest ready job, and open or paused.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue stats
  hapax queue stats thumbs --json | jq .ready")]
pub(super) struct Stats {
    /// This one alone
    #[arg(value_name = "QUEUE")]
    queue: Option<String>,
    #[command(flatten)]
    group: OfGroup,
}

impl Stats {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let output = &context.output;
        let (name, group) = (self.queue.as_deref().map(queue).transpose()?, self.group.name()?);
        let namespace = Namespace::new(&context.settings.namespace)?;
        if let Some(note) = store::missing(&context.settings)? {
            output.note(&note);
            return self.queue.as_deref().map_or(Ok(Exit::Done), |name| Err(names::no_store(name)));
        }
        let hapax = store::open(&context.settings, Sharing::Needed).await?;
        let queues = hapax.queue();
        let stats = names::figures(&**queues.store()?, &namespace, name.as_ref(), group.as_ref()).await?;
        if output.json {
            for stats in &stats {
                output.object(&object(stats));
            }
        } else if !stats.is_empty() {
            output.list(COLUMNS, &stats.iter().map(row).collect::<Vec<_>>());
        }
        Ok(Exit::Done)
    }
}

/// The names of its fields are stable.
fn object(stats: &QueueStats) -> serde_json::Value {
    json!({
        "queue": stats.queue.as_str(),
        "group": stats.group.as_ref().map(Group::as_str),
        "ready": stats.ready,
        "delayed": stats.delayed,
        "running": stats.running,
        "dead": stats.dead,
        "added": stats.added,
        "done": stats.done,
        "cancelled": stats.cancelled,
        "lost": stats.lost,
        "paused": stats.paused,
        "oldest_ms": stats.oldest.and_then(|oldest| u64::try_from(oldest.as_millis()).ok()),
        "seen": stats.seen.and_then(text::time),
    })
}

const COLUMNS: &[&str] = &[
    "QUEUE",
    "GROUP",
    "READY",
    "DELAYED",
    "RUNNING",
    "DEAD",
    "ADDED",
    "DONE",
    "CANCELLED",
    "LOST",
    "OLDEST",
    "STATE",
];

fn row(stats: &QueueStats) -> Vec<String> {
    let numbers = [
        stats.ready,
        stats.delayed,
        stats.running,
        stats.dead,
        stats.added,
        stats.done,
        stats.cancelled,
        stats.lost,
    ];
    let mut row = vec![
        text::shown(stats.queue.as_str()),
        stats.group.as_ref().map_or_else(|| "-".to_owned(), |group| text::shown(group.as_str())),
    ];
    row.extend(numbers.iter().map(u64::to_string));
    row.push(stats.oldest.map_or_else(|| "-".to_owned(), duration::format_rough));
    row.push(if stats.paused { "paused" } else { "open" }.to_owned());
    row
}
