//! The loop of a worker.
//!
//! One call to the store is under way at a time. While it is, jobs that end are gathered; the next call ends them all, and
//! takes as many as there is room for. So a lone job waits for nobody, and a hundred share a round trip, without a timer.

use super::{
    builder::Options,
    ends::{Came, Ended, Facts},
    handle::Ran,
    held::Held,
    turn::run_handler,
};
use crate::{
    protocol::call,
    queue::{
        Settings,
        figures::Figures,
        idempotent::Once,
        raw::{Halt, Handler, RawJob, Turn},
        schedule::{Clockwork, StoreTime},
    },
};
use futures_util::future::{BoxFuture, FutureExt, OptionFuture, join_all};
use hapax_core::{
    Applied, BootTime, Clock, Span, StoreError, StoreResult, Timestamp,
    idempotency::Write,
    queue::{Consumer, End, GiveBack, Group, MOST, QueueId, QueueStore, Step, Stepped, Taken, Wait},
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

/// Pauses after a call that failed, from the first to the longest.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long handlers have after they were told to stop.
const GRACE: Duration = Duration::from_secs(1);
/// How often one who waits for the end of others' jobs looks again.
const OTHERS: Duration = Duration::from_millis(500);

/// When a worker ends by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    Always,
    Once,
    UntilEmpty,
}

/// What a worker is made of.
pub(super) struct Core {
    pub(super) store: Arc<dyn QueueStore>,
    /// The store's clock.
    pub(super) time: Arc<StoreTime>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) timeout: Duration,
    pub(super) queue: QueueId,
    pub(super) group: Group,
    pub(super) consumer: Consumer,
    pub(super) lease: Span,
    pub(super) handler: Arc<dyn Handler>,
    pub(super) once: Option<Once>,
    /// Whether keys and jobs end in one step.
    pub(super) joint: bool,
    pub(super) options: Options,
    pub(super) held: Arc<Held>,
    pub(super) figures: Figures,
    pub(super) stop: CancellationToken,
}

impl Core {
    pub(super) fn tick(&self) -> Duration {
        self.lease.get() / 3
    }

    /// The pause after a beat that failed, and how often deadlines are looked at.
    pub(super) fn again(&self) -> Duration {
        (self.lease.get() / 10).min(Duration::from_secs(1))
    }

    /// How long before its end a lease that could not be renewed counts as lost.
    pub(super) fn margin(&self) -> Duration {
        let lease = self.lease.get();
        (lease / 10).max(Duration::from_secs(2)).min(lease / 4)
    }

    /// No call takes longer: what is handed out by a slower one would be freed by a beat that cannot know of it.
    pub(super) fn call_limit(&self) -> Duration {
        self.tick().saturating_sub(self.again()).min(self.timeout)
    }
}

/// The answer to a step, and the jobs that it ended.
struct Answered {
    ended: Vec<Ended>,
    answer: StoreResult<Stepped>,
    asked: BootTime,
}

struct Run<'a> {
    core: Arc<Core>,
    mode: Mode,
    /// For one that ends by itself: what it looks at before.
    clockwork: Option<Clockwork>,
    ran: Ran,
    shown: &'a watch::Sender<(Ran, bool)>,
    handlers: JoinSet<Ended>,
    ended: Vec<Ended>,
    /// The last step gave less than was asked for.
    idle: bool,
    /// How many more may be taken.
    left: usize,
    next_due: Option<(Timestamp, Timestamp)>,
    pause: Duration,
    resting: Option<Instant>,
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
            let rest = self.resting;
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
                () = stop.cancelled() => {}
            }
        }
        if let (true, Some(answered)) = (stepping, step.await) {
            self.answered(answered).await;
        }
        self.drain().await;
    }

    /// How many more handlers may start.
    fn room(&self) -> usize {
        self.core.options.concurrency.saturating_sub(self.handlers.len()).min(self.left)
    }

    /// Takes along what has ended meanwhile.
    fn gather(&mut self) {
        while let Some(ended) = self.handlers.try_join_next() {
            self.joined(ended);
        }
    }

    fn joined(&mut self, ended: Result<Ended, tokio::task::JoinError>) {
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

    /// Ends what has ended, and takes as many as there is room for.
    fn step(&mut self, room: usize) -> BoxFuture<'static, Answered> {
        let (core, asked) = (Arc::clone(&self.core), self.core.clock.boot());
        let rest = self.ended.split_off(self.ended.len().min(MOST));
        let mut ended = std::mem::replace(&mut self.ended, rest);
        async move {
            if !core.joint {
                keys_first(&mut ended).await;
            }
            let finishes = ended.iter().map(|ended| {
                let mut finish = ended.finish.clone();
                finish.key = ended.ending.as_ref().map(|ending| Box::new(ending.complete.clone()));
                finish
            });
            let req = Step {
                queue: core.queue.clone(),
                group: core.group.clone(),
                consumer: core.consumer.clone(),
                finishes: finishes.collect(),
                want: room,
                lease: core.lease,
                max_losses: core.options.max_losses,
            };
            let answer = call::one(core.call_limit(), "take jobs", core.store.step(&req)).await;
            Answered { ended, answer, asked }
        }
        .boxed()
    }

    async fn answered(&mut self, answered: Answered) {
        let Answered { mut ended, answer, asked } = answered;
        self.core.figures.answered("step", &answer);
        let stepped = match answer {
            Ok(stepped) => stepped,
            Err(error) => {
                if error.applied() == Applied::Unknown {
                    self.core.held.doubt();
                }
                // They are sent again: a finish that arrived is fenced the second time.
                for ended in &mut ended {
                    ended.sent |= error.applied() == Applied::Unknown;
                }
                ended.append(&mut self.ended);
                self.ended = ended;
                return self.failed(&error);
            }
        };
        self.pause = PAUSE;
        for (ended, finished) in ended.into_iter().zip(stepped.finished) {
            self.core.held.remove(&ended.finish.uid, ended.finish.delivery);
            self.count(&ended, finished.job);
            if let (Some(ending), Some(completed)) = (ended.ending, finished.key) {
                let _kept = ending.reservation.ended_by(Ok(completed));
            }
        }
        self.shown.send_replace((self.ran, false));
        self.core.figures.taken(stepped.jobs.len());
        self.core.time.set(stepped.now, self.core.clock.boot());
        self.next_due = stepped.next_due.map(|due| (due, stepped.now));
        self.idle = stepped.jobs.len() < self.room();
        self.left = self.left.saturating_sub(stepped.jobs.len());
        if self.mode == Mode::Once {
            self.left = 0;
        }
        // What took too long to come here may be another worker's before its handler is through; and one who stops starts
        // nothing more.
        let late = self.core.clock.boot().since(asked) >= self.core.lease.get() / 2;
        if (late || self.core.stop.is_cancelled()) && !stepped.jobs.is_empty() {
            self.give_back(&stepped.jobs, false).await;
        } else {
            stepped.jobs.into_iter().for_each(|taken| self.start(taken, asked, stepped.now));
        }
    }

    fn start(&mut self, taken: Taken, asked: BootTime, now: Timestamp) {
        let core = Arc::clone(&self.core);
        let control = core.held.insert(&taken, asked.after(core.lease.get()));
        let settings = Settings::read(&taken.settings);
        let limit =
            settings.timeout_ms.map(Duration::from_millis).into_iter().chain(core.options.max_runtime).min();
        let (queue, group) = (core.queue.name.clone(), core.group.clone());
        let turn = Turn::new(core.lease.get());
        let job = RawJob { taken, settings, queue, group, limit, control, turn };
        let limit = limit.filter(|_| !core.handler.keeps_time());
        self.handlers.spawn(async move {
            let facts = Facts::new(job.clone(), core.options.max_snooze, now);
            let (uid, delivery) = (job.taken.uid, job.taken.delivery);
            let (running, begun) = (core.figures.running(), Instant::now());
            let judged = match &core.once {
                Some(once) => once.run(&core.handler, job, limit).await,
                None => run_handler(&core.handler, job, limit).await,
            };
            core.figures.took(begun.elapsed());
            drop(running);
            core.held.over(&uid, delivery);
            facts.judge(judged)
        });
    }

    fn count(&mut self, ended: &Ended, job: Write) {
        if job == Write::Fenced && !ended.sent {
            self.core.figures.lost();
            tracing::warn!(
                code = "queue.lease_lost",
                "job {} ended here and is another worker's by now",
                ended.finish.uid
            );
            self.ran.lost += 1;
            return;
        }
        let dead = match &ended.finish.end {
            End::Dead { reason, .. } => Some(*reason),
            _ => None,
        };
        self.core.figures.ended(ended.came.as_str(), dead);
        self.ran.replayed += u64::from(ended.replayed && ended.came == Came::Done);
        match ended.came {
            Came::Retried | Came::Snoozed | Came::Dead if ended.halted == Some(Halt::Cancelled) => {
                self.ran.cancelled += 1;
            }
            Came::Done => self.ran.done += 1,
            Came::Discarded => {
                self.ran.done += 1;
                self.ran.discarded += 1;
            }
            Came::Retried => self.ran.retried += 1,
            Came::Snoozed => self.ran.snoozed += 1,
            Came::Dead => self.ran.dead += 1,
        }
    }

    /// The store failed: it has a rest, and its state is tried again.
    fn failed(&mut self, error: &StoreError) {
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

    /// Takes no more: ends what runs within the drain time, and gives the rest back.
    async fn drain(&mut self) {
        let until = call::from_now(self.core.options.drain);
        let mut told = false;
        while !self.handlers.is_empty() || !self.ended.is_empty() {
            if !self.ended.is_empty() {
                let answered = self.step(0).await;
                let failed = answered.answer.is_err();
                self.answered(answered).await;
                if !failed {
                    // It may have been the last.
                    continue;
                }
                if Instant::now() >= until {
                    break;
                }
            }
            let limit = if told { until + GRACE } else { until };
            let rest = self.resting.take();
            tokio::select! {
                Some(ended) = self.handlers.join_next() => self.joined(ended),
                () = tokio::time::sleep_until(rest.unwrap_or_else(Instant::now)), if rest.is_some() => {}
                () = tokio::time::sleep_until(limit) => {
                    if told {
                        break;
                    }
                    told = true;
                    self.core.held.halt_all(Halt::Stopping);
                }
            }
        }
        self.handlers.shutdown().await;
        self.ran.given_back = u64::try_from(self.core.held.list().len()).unwrap_or(u64::MAX);
        self.give_back(&[], true).await;
    }

    async fn give_back(&mut self, jobs: &[Taken], leave: bool) {
        let listed = |job: &Taken| (job.uid, job.delivery);
        let jobs = if leave { self.core.held.list() } else { jobs.iter().map(listed).collect() };
        let core = &self.core;
        let (queue, group, consumer) = (core.queue.clone(), core.group.clone(), core.consumer.clone());
        let req = GiveBack { queue, group, consumer, jobs, leave };
        core.figures.given_back(req.jobs.len());
        let step = core.store.give_back(&req);
        let answer = call::one(core.call_limit(), "give jobs back", step).await;
        core.figures.answered("give_back", &answer);
        if let Err(error) = answer {
            tracing::warn!(%error, code = "queue.store_failed", "jobs could not be given back: their lease ends by itself");
        }
    }
}

/// Where keys and jobs are in different places: the keys first, so that a job which runs again finds its key done.
async fn keys_first(ended: &mut [Ended]) {
    // Side by side: stores gather what is ready at once.
    let endings = ended.iter_mut().filter_map(|ended| ended.ending.take());
    let completions = endings.map(|ending| ending.reservation.end_now(ending.complete));
    let _all_kept = join_all(completions).await;
}
