//! `hapax queue list`.

use super::{
    Found, OfGroup, names,
    show::{COLUMNS, Shown},
};
use crate::{commands::Context, exit::Exit, failure::Failure, text};
use clap::{Args, ValueEnum};
use hapax::{
    StoreError, StoreErrorKind,
    core::queue::{ListJobs as Request, MOST},
    queue::JobState,
};

/// List the jobs of a queue
///
/// Ready ones in the order in which they start, delayed and running ones by their time, dead ones by the time of their death.
/// Jobs that are done or cancelled are not listed.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue list thumbs
  hapax queue list thumbs --state running
  hapax queue list thumbs --state dead --json | jq -r .error")]
pub(super) struct ListJobs {
    /// The queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// In this state; --after asks for one [default: all of them, one after the other]
    #[arg(long, value_name = "STATE")]
    state: Option<State>,
    #[command(flatten)]
    page: Page,
}

/// Which part of a list.
#[derive(Clone, Debug, Args)]
pub(super) struct Page {
    #[command(flatten)]
    pub(super) group: OfGroup,
    /// At most so many
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// The next page, as the page before said
    #[arg(long, value_name = "PAGE")]
    after: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    Ready,
    Delayed,
    Running,
    Dead,
}

impl ListJobs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let states = match self.state {
            None if self.page.after.is_some() => return Err(Failure::usage("--after needs --state")),
            None => JobState::LISTED.to_vec(),
            Some(State::Ready) => vec![JobState::Ready],
            Some(State::Delayed) => vec![JobState::Delayed],
            Some(State::Running) => vec![JobState::Running],
            Some(State::Dead) => vec![JobState::Dead],
        };
        print(&self.queue, &states, &self.page, context).await
    }
}

/// A store that cannot read the mark of a page says so.
fn of_mark(error: StoreError, req: &Request) -> Failure {
    match &req.after {
        Some(mark) if error.kind() == StoreErrorKind::Unsupported => {
            Failure::usage(format!("--after {}: that is no page of this list", text::quoted(mark)))
                .help("take it from the note under the page before, with the same --state")
        }
        _ => error.into(),
    }
}

/// Lists jobs in some states, one state after the other.
pub(super) async fn print(
    queue: &str,
    states: &[JobState],
    page: &Page,
    context: &Context,
) -> Result<Exit, Failure> {
    let (output, group) = (&context.output, page.group.name()?);
    let found = Found::look(queue, context).await?.ok_or_else(|| names::no_store(queue))?;
    found.is_there(group.as_ref()).await?;
    let mut left = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let (mut rows, mut next) = (Vec::new(), None);
    for &state in states {
        next.clone_from(&page.after);
        while left > 0 && !output.is_closed() {
            let (queue, group, after) = (found.raw.id().clone(), group.clone(), next.take());
            let req = Request { queue, group, state, after, limit: left.min(MOST) };
            let page = found.store.list(&req).await.map_err(|error| of_mark(error, &req))?;
            left = left.saturating_sub(page.jobs.len());
            for info in &page.jobs {
                let shown = Shown::new(found.name(), info, false);
                if output.json {
                    output.object(&shown);
                } else {
                    rows.push(shown.row());
                }
            }
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        if left == 0 {
            break;
        }
    }
    if !output.json && !rows.is_empty() {
        output.list(COLUMNS, &rows);
    }
    match (next, states) {
        (Some(next), [_]) => output.note(&format!("there may be more: --after {}", text::quoted(&next))),
        _ if left == 0 => output.note("there may be more: choose a --state, or a larger --limit"),
        _ => {}
    }
    Ok(Exit::Done)
}
