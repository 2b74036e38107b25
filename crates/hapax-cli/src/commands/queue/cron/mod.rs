//! `hapax queue cron`: jobs that are added again and again.
//!
//! | module | what it does |
//! |---|---|
//! | `put` | puts a schedule, or shows when it would come |
//! | `list` | lists them, and removes one |

mod list;
mod put;

use crate::{commands::Context, exit::Exit, failure::Failure, store, text};
use clap::{Args, Subcommand};
use hapax::{
    Hapax, Timestamp,
    queue::{CatchUp, ScheduleInfo, Timing},
};
use serde_json::{Value, json};

/// So many of the next times are shown.
const SHOWN: usize = 3;

/// Add jobs by a schedule
///
/// A schedule lies in the store. Whichever worker of the namespace is there adds its jobs, on whatever queue it works; each
/// time is one job, however many workers there are. When no worker was there, one job stands for all the times that were
/// missed (--catch-up).
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue cron put nightly reports '0 3 * * *' --tz Europe/Berlin
  hapax queue cron list
  hapax queue cron remove nightly")]
pub(super) struct Cron {
    #[command(subcommand)]
    command: CronCommand,
}

#[derive(Debug, Subcommand)]
enum CronCommand {
    Put(Box<put::Put>),
    List(list::List),
    Remove(list::Remove),
}

impl Cron {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.command {
            CronCommand::Put(put) => put.run(context).await,
            CronCommand::List(list) => list.run(context).await,
            CronCommand::Remove(remove) => remove.run(context).await,
        }
    }
}

async fn find(hapax: &Hapax, name: &str) -> Result<Option<ScheduleInfo>, Failure> {
    let all = hapax.queue().list_schedules().await?;
    Ok(all.into_iter().find(|info| info.name == name))
}

/// Opens the store where it is there: looking makes none.
async fn look(context: &Context) -> Result<Option<Hapax>, Failure> {
    if let Some(note) = store::missing(&context.settings)? {
        context.output.note(&note);
        return Ok(None);
    }
    store::open(&context.settings, store::Sharing::Needed).await.map(Some)
}

const fn word(what: CatchUp) -> &'static str {
    match what {
        CatchUp::One => "one",
        CatchUp::Skip => "skip",
    }
}

/// The names of its fields are stable.
fn object(info: &ScheduleInfo) -> Value {
    let rule = info.rule.as_ref();
    let next: Vec<_> = info.upcoming().take(SHOWN).filter_map(text::time).collect();
    json!({
        "name": info.name,
        "queue": info.queue,
        "cron": rule.map(|rule| rule.timing().expression()).ok(),
        "zone": rule.map(|rule| rule.timing().zone()).ok(),
        "catch_up": rule.map(|rule| word(rule.catch_up())).ok(),
        "next": next,
        "owner": info.owner,
        "revision": info.revision,
        "payload": rule.map(|rule| payload(rule.payload())).ok(),
        "unreadable": rule.err().map(ToString::to_string),
    })
}

/// JSON as JSON, other text as text; what is neither has no form here.
fn payload(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|_| String::from_utf8_lossy(bytes).into())
}

/// The times of a schedule, for people: on the wall of its zone.
fn say_times(timing: &Timing, times: impl Iterator<Item = Timestamp>, context: &Context) {
    for time in times.take(SHOWN) {
        context.output.line(&format!("{}  {}", timing.shown(time), timing.zone()));
    }
}
