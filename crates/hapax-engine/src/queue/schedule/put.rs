//! Putting a schedule.

use super::{
    rule::{CatchUp, Rule},
    timing::Timing,
};
use crate::queue::{
    Backoff, JobOptions, Queue, QueueDef, QueueError, RawQueue,
    add::{Encoded, encode, encode_bytes},
};
use bytes::Bytes;
use hapax_core::{
    BoxFuture, Timestamp,
    queue::{Priority, Put, Schedule, ScheduleName, Schedules},
};
use serde::{Serialize, de::DeserializeOwned};
use std::time::Duration;

/// A schedule that has not been put: a cron expression, and the job that is added at each of its times.
#[must_use = "no schedule is put until this is awaited, or its set is declared"]
#[derive(Debug)]
pub struct ScheduledJob {
    queue: Result<RawQueue, QueueError>,
    name: String,
    expression: String,
    zone: String,
    catch_up: CatchUp,
    payload: Encoded,
    options: JobOptions,
}

/// One that was checked.
pub(super) struct Ready {
    pub(super) raw: RawQueue,
    pub(super) name: ScheduleName,
    rule: Rule,
}

impl ScheduledJob {
    fn new(queue: Result<RawQueue, QueueError>, name: &str, expression: &str, payload: Encoded) -> Self {
        Self {
            queue,
            name: name.to_owned(),
            expression: expression.to_owned(),
            zone: "UTC".to_owned(),
            catch_up: CatchUp::default(),
            payload,
            options: JobOptions::default(),
        }
    }

    /// The time zone in which the expression is read (`UTC`), as `Europe/Berlin`. A local time that is left out when
    /// clocks are set forward counts as the first minute after the gap; one that comes twice counts once.
    pub fn time_zone(mut self, name: impl Into<String>) -> Self {
        self.zone = name.into();
        self
    }

    /// What becomes of times that nobody saw ([`CatchUp::One`]).
    pub fn catch_up(mut self, what: CatchUp) -> Self {
        self.catch_up = what;
        self
    }

    /// All options of its jobs at once. Their ids and times are the schedule's.
    pub fn options(mut self, options: JobOptions) -> Self {
        self.options = options;
        self
    }

    /// As [`JobOptions::priority`].
    pub fn priority(self, priority: Priority) -> Self {
        Self { options: self.options.priority(priority), ..self }
    }

    /// As [`JobOptions::max_attempts`].
    pub fn max_attempts(self, attempts: u32) -> Self {
        Self { options: self.options.max_attempts(attempts), ..self }
    }

    /// As [`JobOptions::backoff`].
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self { options: self.options.backoff(backoff), ..self }
    }

    /// As [`JobOptions::timeout`].
    pub fn timeout(self, limit: Duration) -> Self {
        Self { options: self.options.timeout(limit), ..self }
    }

    /// As [`JobOptions::keep_result`].
    pub fn keep_result(self, time: Duration) -> Self {
        Self { options: self.options.keep_result(time), ..self }
    }

    /// As [`JobOptions::context`].
    pub fn context(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { options: self.options.context(name, value), ..self }
    }

    /// Checks it, without a store.
    ///
    /// # Errors
    /// `queue.invalid`, `queue.payload_invalid`, `queue.payload_too_large`: those of putting it.
    pub(super) fn check(self) -> Result<Ready, QueueError> {
        let raw = self.queue?;
        let name = ScheduleName::new(&self.name).map_err(|error| QueueError::invalid(error.to_string()))?;
        let timing = Timing::new(&self.expression, &self.zone)?;
        let now = raw.queue.clock().now();
        if timing.after(now).is_none() {
            return Err(QueueError::invalid(format!(
                "the schedule `{}` never comes: no month has such a day",
                timing.expression()
            )));
        }
        let (payload, _) = self.payload?;
        let options = self.options.check_scheduled(&payload, now)?;
        Ok(Ready { raw, name, rule: Rule::new(timing, self.catch_up, payload, &options) })
    }
}

impl Ready {
    /// As it is kept. The time at which it is due stays where its timing does: what was missed is still caught up with.
    fn kept(
        &self,
        owner: Option<&str>,
        revision: u64,
        known: Option<&Schedule>,
    ) -> Result<Schedule, QueueError> {
        let now = self.raw.queue.clock().now();
        let timing = self.rule.timing();
        let is_same = |known: &&Schedule| {
            let rule = Rule::read(known);
            rule.is_ok_and(|rule| {
                rule.timing().expression() == timing.expression() && rule.timing().zone() == timing.zone()
            })
        };
        let next = known.filter(is_same).map(|known| known.next).or_else(|| timing.after(now));
        Ok(Schedule {
            name: self.name.clone(),
            queue: self.raw.id.name.clone(),
            owner: owner.map(str::to_owned),
            revision,
            what: self.rule.write()?,
            next: next.unwrap_or(super::clockwork::NEVER),
        })
    }

    /// Puts it, unless it is there already.
    pub(super) async fn put(
        &self,
        owner: Option<&str>,
        revision: u64,
        all: &[Schedule],
    ) -> Result<Put, QueueError> {
        let known = all.iter().find(|known| known.name == self.name);
        let schedule = self.kept(owner, revision, known)?;
        if known == Some(&schedule) {
            return Ok(Put::Stored);
        }
        let (queue, namespace) = (&self.raw.queue, &self.raw.id.namespace);
        let put = self.raw.call("put a schedule", queue.store()?.put_schedule(namespace, &schedule)).await;
        queue.looks().look_now(namespace);
        put
    }
}

impl RawQueue {
    /// A schedule of jobs as bytes.
    pub fn schedule(&self, name: &str, expression: &str, payload: impl Into<Bytes>) -> ScheduledJob {
        ScheduledJob::new(Ok(self.clone()), name, expression, encode_bytes(payload.into()))
    }

    pub(super) async fn all_schedules(&self, by: Option<Timestamp>) -> Result<Vec<Schedule>, QueueError> {
        let req = Schedules { namespace: self.id.namespace.clone(), by };
        self.call("read schedules", self.queue.store()?.schedules(&req)).await
    }
}

impl Queue {
    /// Adds a job again and again: at each time of a cron expression, `payload` goes to a queue. Put under the name of
    /// another one, it takes its place. Any worker of the namespace adds the jobs, whichever queue it works on; each time
    /// is one job, with the job id `cron:NAME:TIME`.
    ///
    /// The expression has five fields, `MINUTE HOUR DAY MONTH WEEKDAY`, or six with seconds in front, or is a name such
    /// as `@hourly`. The first time is found by this process's clock; from then on the store's clock counts.
    ///
    /// ```
    /// # use hapax_engine::queue::{Queue, QueueDef, QueueError};
    /// static REPORT: QueueDef<String> = QueueDef::new("report");
    ///
    /// # async fn example(queue: Queue) -> Result<(), QueueError> {
    /// queue
    ///     .schedule(&REPORT, "nightly", "0 3 * * *", &"all".to_owned())
    ///     .time_zone("Europe/Berlin")
    ///     .max_attempts(3)
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `queue.invalid` (the message names the field of the expression), `queue.payload_too_large`,
    /// `queue.payload_invalid`, `queue.store_failed`. [`Put::Refused`]: the name belongs to a declared set.
    pub fn schedule<T: Serialize + DeserializeOwned>(
        &self,
        def: &'static QueueDef<T>,
        name: &str,
        expression: &str,
        payload: &T,
    ) -> ScheduledJob {
        ScheduledJob::new(self.raw(def.name()), name, expression, encode(def, payload))
    }
}

impl IntoFuture for ScheduledJob {
    type Output = Result<Put, QueueError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    /// # Cancel safety
    /// Dropped early, the schedule may have been put; it is safe to put it again.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let ready = self.check()?;
            let all = ready.raw.all_schedules(None).await?;
            ready.put(None, 0, &all).await
        })
    }
}
