//! Many jobs, a round trip for each chunk of them.

use super::answer::{Answer, Tally};
use crate::{commands::Context, failure::Failure};
use bytes::Bytes;
use hapax::{
    Key,
    queue::{JobOptions, QueueError, RawQueue, raw::MAX_PAYLOAD},
};
use indicatif::{ProgressBar, ProgressDrawTarget};
use std::{
    io::{self, IsTerminal},
    time::Duration,
};
use tokio::time::{Instant, sleep_until};

/// From one look at a full queue to the next.
const ROOM: Duration = Duration::from_millis(200);
/// A round trip takes no more: what is held and sent at a time has bounds.
pub(in crate::commands) const CHUNK_BYTES: usize = 4 * MAX_PAYLOAD;

/// A job to be added.
#[derive(Debug)]
pub(in crate::commands) struct Item {
    pub(in crate::commands) place: Place,
    pub(in crate::commands) payload: Bytes,
    pub(in crate::commands) job_id: Option<Key>,
}

/// Where it stands.
#[derive(Clone, Debug)]
pub(in crate::commands) enum Place {
    /// A line of standard input, counted from 1.
    Line(u64),
    /// An entry of several files, counted from 0, and for people `FILE:LINE`.
    Entry(u64, String),
}

/// Adds them, and counts.
pub(in crate::commands) struct Many<'a> {
    raw: &'a RawQueue,
    context: &'a Context,
    until: Option<Instant>,
    bar: ProgressBar,
    all: u64,
    pub(in crate::commands) tally: Tally,
}

impl<'a> Many<'a> {
    /// `all` of them, each waiting until `wait` is over for room in a full queue.
    pub(in crate::commands) fn new(
        raw: &'a RawQueue,
        all: u64,
        wait: Option<Duration>,
        context: &'a Context,
    ) -> Self {
        let bar = bar(context);
        bar.set_length(all);
        let until = wait.map(|limit| Instant::now() + limit);
        Self { raw, context, until, bar, all, tally: Tally::default() }
    }

    /// What a round trip takes.
    pub(in crate::commands) async fn add(
        &mut self,
        mut chunk: Vec<Item>,
        options: impl Fn(Option<&Key>) -> JobOptions,
    ) -> Result<(), Failure> {
        while !chunk.is_empty() {
            let jobs = chunk.iter().map(|item| (item.payload.clone(), options(item.job_id.as_ref())));
            let answers = self.raw.add_many(jobs).await.map_err(|error| {
                self.bar.finish_and_clear();
                let added = format!("{} of {} were added before", self.tally.in_queue(), self.all);
                Failure::from(error).help(format!("{added}; with job ids it is safe to run it again"))
            })?;
            self.context.output.changed();
            let waits = self.until.is_some_and(|until| Instant::now() < until);
            let mut full = Vec::new();
            for (item, answer) in chunk.into_iter().zip(answers) {
                match answer {
                    // None of it is in the queue: it may be sent again.
                    Err(QueueError::Full { .. }) if waits => full.push(item),
                    answer => self.bar.suspend(|| self.tally.take(&item, &answer, &self.context.output)),
                }
            }
            self.bar.set_position(self.tally.all());
            chunk = full;
            if let (false, Some(until)) = (chunk.is_empty(), self.until) {
                sleep_until((Instant::now() + ROOM).min(until)).await;
            }
        }
        Ok(())
    }

    /// One that is not added.
    pub(in crate::commands) fn refuse(&mut self, place: &Place, code: &'static str, message: &str) {
        self.tally.refused += 1;
        self.bar.suspend(|| Answer::invalid(place, code, message).print(&self.context.output));
    }

    /// The counts.
    pub(in crate::commands) fn end(self) -> Tally {
        self.bar.finish_and_clear();
        self.context.output.note(&self.tally.to_string());
        self.tally
    }
}

/// Where stderr is a terminal.
fn bar(context: &Context) -> ProgressBar {
    let shown = !context.output.quiet && io::stderr().is_terminal();
    let target = if shown { ProgressDrawTarget::stderr_with_hz(8) } else { ProgressDrawTarget::hidden() };
    ProgressBar::with_draw_target(None, target)
}
