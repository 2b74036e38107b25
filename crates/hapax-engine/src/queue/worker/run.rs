//! The loop of a worker.
//!
//! One call to the store is under way at a time. While it is, jobs that end are gathered; the next call ends them all, and
//! takes as many as there is room for. So a lone job waits for nobody, and a hundred share a round trip, without a timer.

use super::{
    ahead::Ahead,
    core::{Core, Mode},
    ends::Ended,
    handle::Ran,
    step::Answered,
};
use crate::{protocol::call, queue::schedule::Clockwork};
use futures_util::future::{BoxFuture, FutureExt, OptionFuture};
use hapax_core::{StoreError, StoreResult, Timestamp, queue::Wait};
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, task::JoinSet, time::Instant};

/// Pauses after a call that failed, from the first to the longest.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often one who waits for the end of others' jobs looks again.
const OTHERS: Duration = Duration::from_millis(500);

pub(super) struct Run<'a> {
    pub(super) core: Arc<Core>,
    pub(super) mode: Mode,
    /// For one that ends by itself: what it looks at before.
    pub(super) clockwork: Option<Clockwork>,
    pub(super) ran: Ran,
    pub(super) shown: &'a watch::Sender<(Ran, bool)>,
    pub(super) handlers: JoinSet<Ended>,
    pub(super) ahead: Ahead,
    pub(super) ended: Vec<Ended>,
    /// The last step gave less than was asked for.
    pub(super) idle: bool,
    /// How many more may be taken.
    pub(super) left: usize,
    pub(super) next_due: Option<(Timestamp, Timestamp)>,
    pub(super) pause: Duration,
    pub(super) resting: Option<Instant>,
}

pub(super) async fn work(
    core: Arc<Core>,
    mode: Mode,
    clockwork: Option<Clockwork>,
    shown: &watch::Sender<(Ran, bool)>,
) -> Ran {
    let left = if mode == Mode::Once { 1 } else { usize::MAX };
    let mut run = Run {
        core,
        mode,
        clockwork,
        ran: Ran::default(),
        shown,
        handlers: JoinSet::new(),
        ahead: Ahead::default(),
        ended: Vec::new(),
        idle: false,
        left,
        next_due: None,
        pause: PAUSE,
        resting: None,
    };
    run.work().await;
    run.ran
}

impl Run<'_> {
    async fn work(&mut self) {
        let stop = self.core.stop.clone();
        let mut step: OptionFuture<BoxFuture<'static, Answered>> = None.into();
        let mut wait: OptionFuture<BoxFuture<'static, StoreResult<()>>> = None.into();
        let (mut stepping, mut waiting) = (false, false);
        while !stop.is_cancelled() {
            self.gather();
            self.start_next();
            if self.mode != Mode::Always && self.is_over(self.room(), stepping).await {
                break;
            }
            let room = self.room();
            if !stepping && self.resting.is_none() && (!self.ended.is_empty() || (room > 0 && !self.idle)) {
                step = Some(self.step(room)).into();
                (stepping, waiting, wait) = (true, false, None.into());
            } else if !stepping && !waiting && room > 0 && self.idle && self.resting.is_none() {
                wait = Some(self.wait()).into();
                waiting = true;
            }
            let (rest, late) = (self.resting, self.ahead.until());
            tokio::select! {
                Some(answered) = &mut step, if stepping => {
                    (stepping, step) = (false, None.into());
                    self.answered(answered).await;
                }
                Some(woken) = &mut wait, if waiting => {
                    (waiting, wait) = (false, None.into());
                    self.idle = false;
                    self.core.figures.answered("wait", &woken);
                    if let Err(error) = woken {
                        self.failed(&error);
                    }
                }
                Some(ended) = self.handlers.join_next() => self.joined(ended),
                () = tokio::time::sleep_until(rest.unwrap_or_else(Instant::now)), if rest.is_some() => {
                    self.resting = None;
                }
                () = tokio::time::sleep_until(late.unwrap_or_else(Instant::now)), if late.is_some() => {
                    self.give_up_ahead().await;
                }
                () = stop.cancelled() => {}
            }
        }
        if let (true, Some(answered)) = (stepping, step.await) {
            self.answered(answered).await;
        }
        self.give_up_ahead().await;
        self.drain().await;
    }

    /// How many more jobs there is room for.
    pub(super) fn room(&self) -> usize {
        let options = &self.core.options;
        let ahead = if self.ahead.is_idle { 0 } else { options.prefetch };
        let has = self.handlers.len() + self.ahead.len();
        (options.concurrency + ahead).saturating_sub(has).min(self.left)
    }

    /// Takes along what has ended meanwhile.
    fn gather(&mut self) {
        while let Some(ended) = self.handlers.try_join_next() {
            self.joined(ended);
        }
    }

    pub(super) fn joined(&mut self, ended: Result<Ended, tokio::task::JoinError>) {
        self.ahead.is_idle = false;
        match ended {
            Ok(ended) if ended.is_loss() => self.ran.lost += 1,
            Ok(ended) => self.ended.push(ended),
            // A handler's panic is caught inside: this is a fault of the worker's own. The lease ends by itself.
            Err(error) => tracing::error!(%error, code = "store.internal", "a job ended without an outcome"),
        }
    }

    /// Whether there is nothing left to do, for one that ends by itself.
    async fn is_over(&mut self, room: usize, stepping: bool) -> bool {
        let busy = stepping || !self.handlers.is_empty() || !self.ended.is_empty() || self.resting.is_some();
        if busy || (room > 0 && !self.idle) {
            return false;
        }
        let has_had_its_job = self.mode == Mode::Once && self.ran != Ran::default();
        if let Some(clockwork) = self.clockwork.take()
            && !has_had_its_job
            && clockwork.look_once().await
        {
            (self.idle, self.left) = (false, self.left.max(1));
            return false;
        }
        if self.mode == Mode::Once {
            return true;
        }
        if let Some((due, now)) = self.next_due
            && self.core.clock.pass(due.since(now).max(Duration::from_millis(1)))
        {
            self.idle = false;
            return false;
        }
        let step = self.core.store.stats(&self.core.queue.namespace, Some(&self.core.queue.name));
        let Ok(stats) = call::one(self.core.call_limit(), "read figures", step).await else { return false };
        let ours = stats.iter().find(|stats| stats.group.as_ref() == Some(&self.core.group));
        ours.is_none_or(|stats| stats.paused || (stats.ready == 0 && stats.running == 0))
    }

    /// The store failed: it has a rest, and its state is tried again.
    pub(super) fn failed(&mut self, error: &StoreError) {
        tracing::warn!(queue = %self.core.queue.name, %error, code = "queue.store_failed", "the queue's store failed");
        self.resting = Some(Instant::now() + self.pause.mul_f64(0.5 + fastrand::f64() / 2.0));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    fn wait(&self) -> BoxFuture<'static, StoreResult<()>> {
        let core = Arc::clone(&self.core);
        let due = self.next_due.map(|(due, now)| due.since(now).max(Duration::from_millis(1)));
        let most = if self.mode == Mode::UntilEmpty { OTHERS } else { core.options.block };
        let limit = due.unwrap_or(most).min(most);
        async move {
            let req = Wait { queue: core.queue.clone(), group: core.group.clone(), limit };
            // A store that does not end its wait in time is not waited for.
            let waited =
                call::one(limit.saturating_add(core.timeout), "wait for jobs", core.store.wait(&req));
            waited.await
        }
        .boxed()
    }
}
