//! `hapax queue events`: what passes in a queue.
#![expect(clippy::doc_markdown, reason = "help texts are read without markup")]

use super::{Found, drive, names};
use crate::{commands::Context, exit::Exit, failure::Failure, output::Output, text};
use clap::Args;
use hapax::core::queue::{EventPage, Limits, MOST, QueueEvent};
use serde::Serialize;
use std::time::Duration;

/// From one look to the next, while nothing passes.
const PAUSE: Duration = Duration::from_millis(250);

/// Tell what passed in a queue
///
/// A queue tells nothing unless it was asked to: `hapax queue limits QUEUE --events N` makes it keep its last N events. One line
/// for each: its number, when, what, the job, its group, and how often its handler had failed by then. A job was added, started,
/// done, retried, snoozed, lost, given_back, dead, redriven or cancelled.
///
/// Numbers grow by one. With --after a script goes on where it stopped; where events behind that one are not kept any more, a
/// note says so.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue limits thumbs --events 1000
  hapax queue events thumbs
  hapax queue events thumbs --follow
  hapax queue events thumbs --after 1764565200000017 --json | jq -r 'select(.what == \"dead\").id'

EXIT CODES:
  0   told; with --follow: stopped by SIGINT or SIGTERM, or its output was closed
  65  there is no such queue")]
pub(super) struct Events {
    /// The queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// Behind the event of this number [default: from the first that is kept]
    #[arg(long, value_name = "N", default_value = "0", hide_default_value = true)]
    after: u64,
    /// At most so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Goes on with what passes from now on, until it is stopped
    #[arg(long)]
    follow: bool,
}

impl Events {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let output = &context.output;
        let mut interrupts = if self.follow { Some(drive::interrupts()?) } else { None };
        let found = Found::look(&self.queue, context).await?.ok_or_else(|| names::no_store(&self.queue))?;
        found.is_there(None).await?;
        let limits: Limits = found.store.limits(found.raw.id()).await?;
        if limits.events == 0 {
            output.note(&format!(
                "the queue keeps no events: `hapax queue limits {} --events 1000` makes it",
                text::quoted(found.name())
            ));
        }
        let stopped = async {
            match &mut interrupts {
                Some(interrupts) => drop(interrupts.next().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            told = self.tell(&found, output) => told?,
            () = stopped => {}
        }
        Ok(Exit::Done)
    }

    async fn tell(&self, found: &Found, output: &Output) -> Result<(), Failure> {
        let (mut after, mut left) = (self.after, self.limit.unwrap_or(u64::MAX));
        while left > 0 && !output.is_closed() {
            let most = usize::try_from(left).unwrap_or(MOST).min(MOST);
            let page: EventPage = found.raw.events(after, most).await?;
            if page.missed {
                output.note(&format!("events behind number {after} are not kept any more"));
            }
            for event in &page.events {
                tell(found.name(), event, output);
            }
            left = left.saturating_sub(u64::try_from(page.events.len()).unwrap_or(u64::MAX));
            // Behind a gap in which nothing is kept, too: it is told once.
            after = if page.events.is_empty() { after.max(page.last) } else { page.next(after) };
            if page.events.is_empty() {
                if !self.follow {
                    break;
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(())
    }
}

/// The names of its fields are stable.
#[derive(Debug, Serialize)]
struct Told<'a> {
    queue: &'a str,
    number: u64,
    at: Option<String>,
    what: &'static str,
    id: String,
    group: Option<&'a str>,
    attempts: u32,
}

fn tell(queue: &str, event: &QueueEvent, output: &Output) {
    let group = event.group.as_ref().map(hapax::queue::Group::as_str);
    let (at, id, what) = (text::time(event.at), event.uid.to_string(), event.what.as_str());
    if output.json {
        output.object(&Told { queue, number: event.number, at, what, id, group, attempts: event.attempts });
        return;
    }
    let group = group.map_or_else(|| "-".to_owned(), text::shown);
    let at = at.unwrap_or_default();
    let (number, attempts) = (event.number, event.attempts);
    output.line(&format!("{number}  {at}  {what:<10}  {id}  {group}  {attempts}"));
}
