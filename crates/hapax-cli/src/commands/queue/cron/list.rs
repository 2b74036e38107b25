//! `hapax queue cron list` and `remove`.

use super::{look, object};
use crate::{commands::Context, exit::Exit, failure::Failure, text};
use clap::Args;
use hapax::queue::ScheduleInfo;
use serde_json::json;

/// List the schedules and their next times
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue cron list
  hapax queue cron list --json | jq -r '.name + \" \" + .next[0]'")]
pub(super) struct List {}

/// Remove a schedule; the jobs that it has added stay
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue cron remove nightly")]
pub(super) struct Remove {
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,
}

const COLUMNS: &[&str] = &["NAME", "QUEUE", "SCHEDULE", "ZONE", "NEXT", "OWNER"];

impl List {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let Some(hapax) = look(context).await? else { return Ok(Exit::Done) };
        let all = hapax.queue().list_schedules().await?;
        if context.output.json {
            for info in &all {
                context.output.object(&object(info));
            }
        } else if !all.is_empty() {
            context.output.list(COLUMNS, &all.iter().map(row).collect::<Vec<_>>());
        }
        for unreadable in all.iter().filter_map(|info| info.rule.as_ref().err()) {
            context.output.note(&text::shown(&unreadable.to_string()));
        }
        Ok(Exit::Done)
    }
}

fn row(info: &ScheduleInfo) -> Vec<String> {
    let unreadable = || ("unreadable".to_owned(), "-".to_owned(), text::time_rough(info.next));
    let timing = info.rule.as_ref().ok().map(hapax::queue::Rule::timing);
    let (schedule, zone, next) = timing.map_or_else(unreadable, |timing| {
        (text::shown(timing.expression()), timing.zone().to_owned(), timing.shown(info.next))
    });
    let owner = info.owner.as_deref().map_or_else(|| "-".to_owned(), text::shown);
    vec![text::shown(&info.name), text::shown(&info.queue), schedule, zone, next, owner]
}

impl Remove {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let removed = match look(context).await? {
            Some(hapax) => hapax.queue().remove_schedule(&self.name).await?,
            None => false,
        };
        if !removed {
            let message = format!("there is no schedule {}", text::shown(&self.name));
            return Err(Failure::input(message).help("`hapax queue cron list` shows those that are there"));
        }
        if context.output.json {
            context.output.object(&json!({ "removed": self.name }));
        } else {
            context.output.line("removed");
        }
        Ok(Exit::Done)
    }
}
