//! A worker that runs.

use super::{
    core::{Core, Mode},
    run::work,
};
use crate::queue::{handle::Inline, schedule::Clockwork};
use hapax_core::queue::Subscribed;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

/// What a worker did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ran {
    /// Jobs that are done, replayed and discarded ones included.
    pub done: u64,
    /// Of those: whose key was done before.
    pub replayed: u64,
    /// Of those: that had nothing to do.
    pub discarded: u64,
    /// Failures that are tried again.
    pub retried: u64,
    /// Jobs that were put off.
    pub snoozed: u64,
    /// Jobs that went to the dead letters.
    pub dead: u64,
    /// Jobs that somebody cancelled while they ran, and that were not done all the same.
    pub cancelled: u64,
    /// Jobs that were another worker's when they ended here.
    pub lost: u64,
    /// Jobs that were given back at the stop.
    pub given_back: u64,
}

/// A running worker.
#[must_use = "dropping the handle stops the worker"]
#[derive(Debug)]
pub struct Worker {
    stop: CancellationToken,
    ran: watch::Receiver<(Ran, bool)>,
    subscribed: Subscribed,
    _stops_when_dropped: DropGuard,
}

impl Worker {
    pub(super) fn of(core: Arc<Core>, mode: Mode, subscribed: Subscribed, clockwork: Clockwork) -> Self {
        let stop = core.stop.clone();
        let (sender, ran) = watch::channel((Ran::default(), false));
        // One that ends by itself looks at schedules once, before it does.
        let clockwork = if mode == Mode::Always {
            tokio::spawn(clockwork.run(stop.clone()));
            None
        } else {
            Some(clockwork)
        };
        tokio::spawn(async move {
            let all = work(core, mode, clockwork, &sender).await;
            sender.send_replace((all, true));
        });
        Self { _stops_when_dropped: stop.clone().drop_guard(), stop, ran, subscribed }
    }

    /// What runs inside each `add` on a queue that is made so.
    pub(super) fn inline(core: Arc<Core>) -> Inline {
        Arc::new(move || {
            let (core, shown) = (Arc::clone(&core), watch::channel((Ran::default(), false)).0);
            Box::pin(async move {
                if !core.stop.is_cancelled() {
                    let _ran = work(core, Mode::UntilEmpty, None, &shown).await;
                }
            })
        })
    }

    /// One that has nothing to do but to be stopped.
    pub(super) fn idle(core: Arc<Core>, subscribed: Subscribed) -> Self {
        let stop = core.stop.clone();
        let (sender, ran) = watch::channel((Ran::default(), false));
        tokio::spawn(async move {
            core.stop.cancelled().await;
            sender.send_replace((Ran::default(), true));
        });
        Self { _stops_when_dropped: stop.clone().drop_guard(), stop, ran, subscribed }
    }

    /// Takes no more, waits up to the drain time for what runs, and gives the rest back. A second call waits for the first.
    ///
    /// # Cancel safety
    /// The stop goes on when this is dropped.
    pub async fn stop(&self) -> Ran {
        self.stop.cancel();
        self.ended().await
    }

    /// Works until `signal`, then stops.
    pub async fn run_until<F: Future>(self, signal: F) -> Ran {
        tokio::select! {
            _ = signal => {}
            _ = self.ended() => {}
        }
        self.stop().await
    }

    /// Whether the queue knew its group. One more group has what is added from now on, and a copy of each job.
    pub fn subscribed(&self) -> Subscribed {
        self.subscribed
    }

    /// What it did so far.
    pub fn ran(&self) -> Ran {
        self.ran.borrow().0
    }

    /// Waits for its end: somebody stops it, or there is nothing left to do where it was started so.
    pub async fn ended(&self) -> Ran {
        let mut ran = self.ran.clone();
        let ended = ran.wait_for(|(_, ended)| *ended).await.map(|seen| seen.0);
        // The runtime is gone, and the worker with it.
        ended.unwrap_or_else(|_| self.ran.borrow().0)
    }
}
