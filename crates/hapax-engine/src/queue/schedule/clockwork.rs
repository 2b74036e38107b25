//! What a worker does for the schedules of its namespace: it adds the jobs that are due.
//!
//! Each time is one `add` under the job id `cron:NAME:TIME`, and then one move of the schedule from that time to the
//! next, if nobody else has moved it. So a crash before the add leaves the time to another worker; one between the two
//! lets another worker add again, which the job id makes a duplicate; and two workers that see the same time add one
//! job. Time is the store's own: a worker whose clock is wrong fires when the others do.
//!
//! One look asks for what is due until the next look, half a minute later, and a look in between is due when the first
//! of those is. So a worker without schedules makes two or three calls a minute, and a time is late by a round trip.

use super::rule::{CatchUp, Rule};
use crate::{
    protocol::call,
    queue::{
        QueueError, RawQueue,
        add::{encode_bytes, judge},
        worker::MANUAL_PAUSE,
    },
};
use hapax_core::{
    BootTime, Clock, Key, Namespace, StoreResult, Timestamp,
    queue::{Added, Due, NewJob, OnConflict, QueueId, QueueStore, Schedule, Schedules},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// From one look to the next, if nothing is due between.
const HORIZON: Duration = Duration::from_secs(30);
/// After a look that could not do all.
const AGAIN: Duration = Duration::from_secs(5);
/// A time that is so long past has been missed.
const MISSED: Duration = Duration::from_mins(1);
/// What was read so long ago is read again before it is acted on.
const STALE: Duration = Duration::from_secs(10);
/// The next time of what has none: the end of the year 9999.
pub(super) const NEVER: Timestamp = Timestamp::from_millis(253_402_300_799_000);

/// The store's clock, as the last step of a worker showed it.
#[derive(Debug)]
pub(in crate::queue) struct StoreTime(watch::Sender<Option<(Timestamp, BootTime)>>);

impl StoreTime {
    pub(in crate::queue) fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// The store's clock showed `now`, and an answer said so at `at`.
    pub(in crate::queue) fn set(&self, now: Timestamp, at: BootTime) {
        self.0.send_replace(Some((now, at)));
    }

    /// What it shows now, or a little less.
    fn now(&self, boot: BootTime) -> Option<Timestamp> {
        self.0.borrow().map(|(now, at)| now.after(boot.since(at)))
    }

    async fn is_known(&self) {
        // It lives as long as its worker, which waits here.
        let mut shown = self.0.subscribe();
        let _known = shown.wait_for(Option::is_some).await.is_ok();
    }
}

/// When the workers of a process look next: one of them does it for all.
#[derive(Debug, Default)]
pub(in crate::queue) struct Looks {
    next: Mutex<HashMap<Namespace, BootTime>>,
    changed: watch::Sender<()>,
}

impl Looks {
    /// For a schedule that this very process has put.
    pub(super) fn look_now(&self, namespace: &Namespace) {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).remove(namespace);
        self.changed.send_replace(());
    }

    fn next(&self, namespace: &Namespace) -> BootTime {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        next.get(namespace).copied().unwrap_or_default()
    }

    /// Takes the look that is due at `now`, if nobody has: whoever does not finish it leaves it to others after a while.
    fn take(&self, namespace: &Namespace, now: BootTime) -> bool {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = next.get(namespace).is_none_or(|due| *due <= now);
        if is_due {
            next.insert(namespace.clone(), now.after(AGAIN));
        }
        is_due
    }

    /// The next one, unless a schedule was put meanwhile.
    fn set(&self, namespace: &Namespace, due: BootTime) {
        if let Some(next) = self.next.lock().unwrap_or_else(PoisonError::into_inner).get_mut(namespace) {
            *next = due;
        }
    }
}

/// Fires the schedules of a worker's namespace.
#[derive(Clone, Debug)]
pub(in crate::queue) struct Clockwork {
    raw: RawQueue,
    store: Arc<dyn QueueStore>,
    time: Arc<StoreTime>,
}

/// What one look came to.
#[derive(Debug)]
struct Look {
    fired: usize,
    /// To the next one.
    pause: Duration,
}

/// What became of a schedule that was due.
enum Tick {
    /// It is due at this time next.
    Moved { fired: bool, to: Timestamp },
    /// It is still due, and is tried again soon.
    Stuck,
    /// Nobody here can say what it adds.
    Unreadable,
}

impl Clockwork {
    pub(in crate::queue) fn new(raw: RawQueue, store: Arc<dyn QueueStore>, time: Arc<StoreTime>) -> Self {
        Self { raw, store, time }
    }

    /// Fires what is due, until `stop`.
    pub(in crate::queue) async fn run(self, stop: CancellationToken) {
        let _stopped = stop.run_until_cancelled(self.keep()).await;
    }

    async fn keep(&self) {
        let (clock, looks, namespace) = (self.clock(), self.raw.queue.looks(), &self.raw.id.namespace);
        let mut changed = looks.changed.subscribe();
        self.time.is_known().await;
        loop {
            changed.mark_unchanged();
            let (due, boot) = (looks.next(namespace), clock.boot());
            if boot >= due && looks.take(namespace, boot) {
                let look = self.look().await;
                looks.set(namespace, clock.boot().after(look.pause));
                continue;
            }
            let pause = due.since(boot).max(Duration::from_millis(1));
            // A clock that a test moves wakes nobody.
            let pause = if clock.is_manual() { pause.min(MANUAL_PAUSE) } else { pause };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = changed.changed() => {}
            }
        }
    }

    /// Fires what is due now; answers whether anything was. For workers that end by themselves.
    pub(in crate::queue) async fn look_once(&self) -> bool {
        self.look().await.fired > 0
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        self.raw.queue.clock()
    }

    async fn look(&self) -> Look {
        let again = Look { fired: 0, pause: AGAIN.mul_f64(0.5 + fastrand::f64() / 2.0) };
        let asked = self.clock().boot();
        let Some(now) = self.time.now(asked) else { return again };
        let req = Schedules { namespace: self.raw.id.namespace.clone(), by: Some(now.after(HORIZON)) };
        let schedules = match self.call("read schedules", self.store.schedules(&req)).await {
            Ok(schedules) => schedules,
            Err(error) => {
                tracing::warn!(%error, code = "queue.store_failed", "schedules could not be read: they are late");
                return again;
            }
        };
        // Not all workers look at once when nothing is due.
        let mut look = Look { fired: 0, pause: HORIZON.mul_f64(0.8 + fastrand::f64() / 5.0) };
        for schedule in schedules {
            let boot = self.clock().boot();
            if boot.since(asked) > STALE {
                look.pause = Duration::ZERO;
                break;
            }
            let now = self.time.now(boot).unwrap_or(now);
            let tick = if schedule.next <= now {
                self.fire(&schedule, now).await
            } else {
                Tick::Moved { fired: false, to: schedule.next }
            };
            let pause = match tick {
                Tick::Moved { fired, to } => {
                    look.fired += usize::from(fired);
                    to.since(now)
                }
                Tick::Stuck => again.pause,
                Tick::Unreadable => HORIZON,
            };
            look.pause = look.pause.min(pause);
        }
        look
    }

    async fn fire(&self, schedule: &Schedule, now: Timestamp) -> Tick {
        let name = schedule.name.as_str();
        let rule = match Rule::read(schedule) {
            Ok(rule) => rule,
            Err(error) => {
                tracing::warn!(%error, code = "queue.schedule_unreadable", "a schedule is due and cannot be read");
                return Tick::Unreadable;
            }
        };
        // Of all times that have come, the last.
        let due = rule.timing().until(now).map_or(schedule.next, |last| last.max(schedule.next));
        let fires = match rule.catch_up() {
            CatchUp::One => true,
            CatchUp::Skip => now.since(due) <= MISSED,
        };
        if fires && let Err(error) = self.add(schedule, &rule, due).await {
            let code = hapax_core::Coded::code(&error);
            tracing::warn!(%error, code, queue = %schedule.queue, "the job of schedule `{name}` could not be added yet");
            return Tick::Stuck;
        }
        if !fires || due != schedule.next {
            tracing::info!(
                "times of schedule `{name}` were missed: {}",
                if fires { "one job for all of them" } else { "no job" }
            );
        }
        let to = rule.timing().after(due.max(now)).unwrap_or(NEVER);
        let namespace = &self.raw.id.namespace;
        let moved = self.store.advance_schedule(namespace, &schedule.name, schedule.next, to);
        match self.call("move a schedule", moved).await {
            Ok(ours) => Tick::Moved { fired: fires && ours, to },
            Err(error) => {
                // Its job is there: the next look finds a duplicate.
                tracing::debug!(%error, "schedule `{name}` could not be moved yet");
                Tick::Stuck
            }
        }
    }

    async fn add(&self, schedule: &Schedule, rule: &Rule, due: Timestamp) -> Result<(), QueueError> {
        let time = jiff::Timestamp::from_millisecond(due.as_millis())
            .map_err(|error| QueueError::invalid(error.to_string()))?;
        let job_id = Key::new(&format!("cron:{}:{time}", schedule.name));
        let job_id = job_id.map_err(|error| QueueError::invalid(error.to_string()))?;
        let mut settings = rule.settings.clone();
        settings.context.insert("schedule".into(), schedule.name.as_str().into());
        settings.context.insert("scheduled_for".into(), time.to_string());
        let (payload, fingerprint) = encode_bytes(rule.payload.clone())?;
        let new = NewJob {
            uid: self.raw.queue.uid()?,
            job_id: Some(job_id),
            fingerprint,
            payload,
            due: Due::Now,
            priority: rule.priority,
            settings: settings.write(),
            remember: rule.remember,
            // The job of this time is there: whatever it is about, it is not added again.
            on_conflict: OnConflict::Keep,
        };
        let queue = QueueId::new(&self.raw.id.namespace, &schedule.queue);
        let target = RawQueue { queue: self.raw.queue.clone(), id: queue };
        let answer = target.send(std::slice::from_ref(&new)).await?.into_iter().next();
        let answer = answer.ok_or_else(|| QueueError::store_failed(call::missing("add a job")))?;
        if matches!(answer, Added::New { .. }) {
            metrics::counter!("hapax_schedules_fired_total", "queue" => schedule.queue.to_string())
                .increment(1);
        }
        judge(&new, answer).map(drop)
    }

    async fn call<T>(&self, op: &'static str, step: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        call::one(self.raw.queue.timeout(), op, step).await
    }
}
