//! A worker of a command: how it is started, told to stop, and spoken of at its end.

use super::{Found, group};
use crate::{
    commands::{Context, interrupts::Interrupts},
    exit::Exit,
    failure::Failure,
    output, text,
};
use clap::Args;
use hapax::{
    core::queue::{MOST, Subscribed},
    queue::{QueueError, Ran, Worker, WorkerBuilder},
};
use serde_json::json;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Keys and receipts that the store has refused are retried for this long, and never longer than a lease.
const CLOSE: Duration = Duration::from_mins(1);

/// Whose jobs are taken, and when to end.
#[derive(Debug, Args)]
pub(in crate::commands) struct Working {
    /// Workers of one group share the jobs; each group has its own copy of all
    #[arg(long, value_name = "G", default_value = "main")]
    group: String,
    /// A name for this worker in lists [default: its process id]
    #[arg(long, value_name = "C")]
    consumer: Option<String>,
    /// How long a stop waits for what runs; what is not through by then is ended and given back
    #[arg(long, value_name = "DUR", default_value = "30s", value_parser = crate::duration::parse)]
    drain: Duration,
    /// Takes one job, if there is one, and ends
    #[arg(long, conflicts_with = "until_empty")]
    once: bool,
    /// Ends when nothing is ready or running; what is delayed, or was put off, is left, and its number said
    #[arg(long)]
    until_empty: bool,
}

/// How the work ended.
pub(in crate::commands) enum Ended {
    By(Ran),
    /// A second signal came.
    AtOnce(i32),
}

/// Being told to stop, from before the first job is taken.
pub(in crate::commands) fn interrupts() -> Result<Interrupts, Failure> {
    Interrupts::listen().map_err(|error| {
        Failure::new(Exit::Bug, "command.internal", format!("signals cannot be heard: {error}"))
    })
}

/// So many at once.
pub(in crate::commands) fn parse_concurrency(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|n| (1..=MOST).contains(n));
    number.ok_or_else(|| format!("`{text}` cannot run at once: write 1 to {MOST}"))
}

impl Working {
    /// What is wrong with it, before anything is opened.
    pub(in crate::commands) fn check(&self) -> Result<(), Failure> {
        group(&self.group).map(drop)
    }

    /// Works until it ends, or is told to. `stop` ends it, and is cancelled by the first signal.
    pub(in crate::commands) async fn drive(
        &self,
        worker: WorkerBuilder,
        found: &Found,
        stop: &CancellationToken,
        interrupts: &mut Interrupts,
        context: &Context,
    ) -> Result<Ended, Failure> {
        let mut worker = worker.group(&self.group).drain(self.drain);
        if let Some(name) = &self.consumer {
            worker = worker.consumer(name);
        }
        let worker = self.start(worker).await?;
        if worker.subscribed() == Subscribed::Another {
            output::warn(&format!(
                "the group {} is new to {}: it has what is added from now on, and a copy of each job (drop it with hapax queue \
                 unsubscribe)",
                text::shown(&self.group),
                text::shown(found.name()),
            ));
        }
        let ended = follow(&worker, stop, interrupts, context).await;
        if let Ended::AtOnce(_) = ended {
            output::warn("ended at once: the jobs that ran are taken over when their lease is over");
        }
        Ok(ended)
    }

    async fn start(&self, worker: WorkerBuilder) -> Result<Worker, QueueError> {
        if self.once {
            worker.start_once().await
        } else if self.until_empty {
            worker.start_until_empty().await
        } else {
            worker.start().await
        }
    }

    /// What was done, and how the command ends with it.
    pub(in crate::commands) async fn report(&self, ran: Ran, found: &Found, context: &Context) -> Exit {
        let id = found.raw.id();
        let left = if self.until_empty {
            let stats = found.store.stats(&id.namespace, Some(&id.name)).await.unwrap_or_default();
            let is_ours = |group: &hapax::core::queue::Group| group.as_str() == self.group;
            stats.into_iter().find(|stats| stats.group.as_ref().is_some_and(is_ours))
        } else {
            None
        };
        let output = &context.output;
        if output.json {
            output.object(&json!({
                "queue": found.name(),
                "group": self.group,
                "done": ran.done,
                "replayed": ran.replayed,
                "retried": ran.retried,
                "snoozed": ran.snoozed,
                "dead": ran.dead,
                "cancelled": ran.cancelled,
                "lost": ran.lost,
                "given_back": ran.given_back,
                "delayed": left.as_ref().map(|stats| stats.delayed),
            }));
        }
        if let Some(left) = left {
            let name = text::shown(found.name());
            if left.paused {
                output.note(&format!("{name} is paused, with {} ready", left.ready));
            }
            if left.delayed > 0 {
                output.note(&format!("{} delayed in {name}, left for later", left.delayed));
            }
        }
        let replayed = if ran.replayed > 0 { format!(" ({} replayed)", ran.replayed) } else { String::new() };
        let some =
            |number: u64, what: &str| if number > 0 { format!(", {what} {number}") } else { String::new() };
        output.note(&format!(
            "done {}{replayed}, to be retried {}, put off {}, dead {}{}{}{}",
            ran.done,
            ran.retried,
            ran.snoozed,
            ran.dead,
            some(ran.cancelled, "cancelled"),
            some(ran.lost, "lost"),
            some(ran.given_back, "given back"),
        ));
        let goes_on = !self.once && !self.until_empty;
        if goes_on || ran.dead == 0 { Exit::Done } else { Exit::ItemFailed }
    }
}

/// Waits for what the store has yet to take; never longer than a lease.
pub(in crate::commands) async fn close(found: &Found, lease: Duration) {
    let closed = found.hapax.close().within(lease.min(CLOSE)).await;
    if !closed.is_clean() {
        output::warn("the store has not taken all that there was to keep (idempotency.complete_failed)");
    }
}

/// Until it ends, or is told to.
async fn follow(
    worker: &Worker,
    stop: &CancellationToken,
    interrupts: &mut Interrupts,
    context: &Context,
) -> Ended {
    tokio::select! {
        ran = worker.ended() => return Ended::By(ran),
        () = stop.cancelled() => {}
        _ = interrupts.next() => {
            context.output.note("stopping: what runs may end, nothing more is taken");
            stop.cancel();
        }
    }
    tokio::select! {
        ran = worker.stop() => Ended::By(ran),
        signal = interrupts.next() => Ended::AtOnce(signal),
    }
}
