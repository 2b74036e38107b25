//! Adding jobs.

use super::{
    Backoff, JobOptions, QueueDef, QueueError,
    figures::Figures,
    handle::{Queue, RawQueue},
};
use bytes::Bytes;
use hapax_core::{
    BoxFuture, Fingerprint, IntoKey, Retry, StoreResult, Timestamp,
    code::Coded,
    idempotency::Receipt,
    queue::{self as store, JobState, MOST, NewJob, OnConflict, Priority, QueueId, Uid},
    stable_hash,
};
use serde::{Serialize, de::DeserializeOwned};
use std::time::Duration;

/// The largest payload, in bytes.
pub const MAX_PAYLOAD: usize = 1024 * 1024;
/// Pauses before a request whose fate is unknown is sent again, under the same id.
const RESENDS: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(250), Duration::from_secs(1)];
/// The longest pause while waiting for room.
const ROOM: Duration = Duration::from_millis(500);

/// What became of a job to add. Ids are those that hapax gives: 32 hex digits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Added {
    /// It is in the queue.
    New {
        /// Its id.
        id: String,
        /// When it may start.
        due: Timestamp,
    },
    /// A job that was waiting under its job id has its payload now.
    Replaced {
        /// The id of that job.
        id: String,
        /// When it may start.
        due: Timestamp,
    },
    /// Its job id belongs to a job that is there, or was.
    Duplicate {
        /// The id of that job.
        id: String,
        /// How far it is.
        state: JobState,
        /// Its result, where one is kept: what the handler answered, as JSON.
        result: Option<Receipt>,
    },
}

impl Added {
    /// The id of the job that is in the queue, or was.
    pub fn id(&self) -> &str {
        match self {
            Self::New { id, .. } | Self::Replaced { id, .. } | Self::Duplicate { id, .. } => id,
        }
    }

    /// Whether the job was there before.
    pub fn is_duplicate(&self) -> bool {
        matches!(self, Self::Duplicate { .. })
    }
}

/// What a payload comes to.
pub(super) type Encoded = Result<(Bytes, Fingerprint), QueueError>;

/// Bytes and fingerprint of a typed payload, checked by the queue's schema.
pub(super) fn encode<T: Serialize + DeserializeOwned>(def: &QueueDef<T>, payload: &T) -> Encoded {
    let bytes = serde_json::to_vec(payload).map_err(QueueError::payload)?;
    if !def.has_schema() {
        let fingerprint = stable_hash(payload).map_err(QueueError::payload)?;
        return fitting(bytes.into(), fingerprint);
    }
    let own: T = serde_json::from_slice(&bytes).map_err(QueueError::payload)?;
    let parsed = def.checked(own).map_err(QueueError::payload)?;
    let fingerprint = stable_hash(&parsed).map_err(QueueError::payload)?;
    fitting(serde_json::to_vec(&parsed).map_err(QueueError::payload)?.into(), fingerprint)
}

/// The fingerprint of a payload of bytes that may be JSON: equal JSON is equal whatever its spaces and the order of its members.
pub fn fingerprint(payload: &[u8]) -> Fingerprint {
    let json = serde_json::from_slice::<serde_json::Value>(payload).ok();
    json.and_then(|value| stable_hash(&value).ok()).unwrap_or_else(|| Fingerprint::of_bytes(payload))
}

pub(super) fn encode_bytes(payload: Bytes) -> Encoded {
    let fingerprint = fingerprint(&payload);
    fitting(payload, fingerprint)
}

fn fitting(payload: Bytes, fingerprint: Fingerprint) -> Encoded {
    match payload.len() {
        size if size > MAX_PAYLOAD => Err(QueueError::PayloadTooLarge { size, limit: MAX_PAYLOAD }),
        _ => Ok((payload, fingerprint)),
    }
}

/// A job that has not been added.
#[must_use = "no job is added until this is awaited"]
#[derive(Debug)]
pub struct Add {
    queue: Result<RawQueue, QueueError>,
    payload: Encoded,
    options: JobOptions,
    wait: Option<Duration>,
}

impl Add {
    pub(super) fn new(queue: Result<RawQueue, QueueError>, payload: Encoded) -> Self {
        Self { queue, payload, options: JobOptions::default(), wait: None }
    }

    /// All options at once.
    pub fn options(mut self, options: JobOptions) -> Self {
        self.options = options;
        self
    }

    /// Waits so long for room in a queue that is full.
    pub fn wait_for_room(mut self, limit: Duration) -> Self {
        self.wait = Some(limit);
        self
    }

    /// Adds it by a step that a store offers beside its contract, within a caller's transaction for example. Taken once, and
    /// not sent again; nobody is waited for.
    ///
    /// # Errors
    /// Those of [`Queue::add`].
    ///
    /// # Cancel safety
    /// That of the step.
    pub async fn by(
        self,
        step: impl AsyncFnOnce(&QueueId, &[NewJob]) -> StoreResult<Vec<store::Added>>,
    ) -> Result<Added, QueueError> {
        let queue = self.queue?;
        let new = queue.job(self.payload?, self.options)?;
        let answers = step(&queue.id, std::slice::from_ref(&new)).await.map_err(QueueError::store_failed)?;
        match answers.into_iter().next() {
            Some(answer) => judge(&new, answer),
            None => Err(QueueError::store_failed(crate::protocol::call::missing("add a job"))),
        }
    }
}

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*);)+) => {
        impl Add {
            $($(#[$doc])* pub fn $name(self, $($arg: $type),*) -> Self {
                Self { options: self.options.$name($($arg),*), ..self }
            })+
        }
    };
}
options! {
    /// As [`JobOptions::job_id`].
    job_id(id: impl IntoKey);
    /// As [`JobOptions::delay`].
    delay(by: Duration);
    /// As [`JobOptions::run_at`].
    run_at(at: Timestamp);
    /// As [`JobOptions::max_attempts`].
    max_attempts(attempts: u32);
    /// As [`JobOptions::backoff`].
    backoff(backoff: Backoff);
    /// As [`JobOptions::priority`].
    priority(priority: Priority);
    /// As [`JobOptions::dedupe_for`].
    dedupe_for(time: Duration);
    /// As [`JobOptions::on_conflict`].
    on_conflict(what: OnConflict);
    /// As [`JobOptions::timeout`].
    timeout(limit: Duration);
    /// As [`JobOptions::keep_result`].
    keep_result(time: Duration);
    /// As [`JobOptions::context`].
    context(name: impl Into<String>, value: impl Into<String>);
    /// As [`JobOptions::unique_for`].
    unique_for(window: Duration);
    /// As [`JobOptions::unique_by`].
    unique_by(pointer: impl Into<String>);
}

impl IntoFuture for Add {
    type Output = Result<Added, QueueError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    /// # Cancel safety
    /// Dropped early, the job may have been added; under a job id it is safe to add it again.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let queue = self.queue?;
            let new = queue.job(self.payload?, self.options)?;
            let until = self.wait.map(crate::protocol::call::from_now);
            let mut pause = Duration::from_millis(20);
            loop {
                let answers = queue.send(std::slice::from_ref(&new)).await?;
                let answer = match answers.into_iter().next() {
                    Some(answer) => judge(&new, answer),
                    None => Err(QueueError::store_failed(crate::protocol::call::missing("add a job"))),
                };
                match (&answer, until) {
                    (Err(QueueError::Full { .. }), Some(until)) if tokio::time::Instant::now() < until => {
                        let jitter = pause.mul_f64(fastrand::f64());
                        tokio::time::sleep_until((tokio::time::Instant::now() + jitter).min(until)).await;
                        pause = (pause * 2).min(ROOM);
                    }
                    _ => {
                        Figures::of(&queue.id.name).added(&answer);
                        queue.queue.added(&queue.id).await;
                        return answer;
                    }
                }
            }
        })
    }
}

/// Jobs that have not been added.
#[must_use = "no job is added until this is awaited"]
#[derive(Debug)]
pub struct AddMany {
    queue: Result<RawQueue, QueueError>,
    jobs: Vec<(Encoded, JobOptions)>,
}

impl AddMany {
    pub(super) fn new(queue: Result<RawQueue, QueueError>, jobs: Vec<(Encoded, JobOptions)>) -> Self {
        Self { queue, jobs }
    }
}

impl IntoFuture for AddMany {
    type Output = Result<Vec<Result<Added, QueueError>>, QueueError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    /// One round trip for each 256 jobs. An answer for each job, in order; an error of its own where only that job is
    /// concerned. When the store fails, the jobs of earlier round trips are in the queue.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let queue = self.queue?;
            let mut answers: Vec<Option<Result<Added, QueueError>>> = Vec::with_capacity(self.jobs.len());
            let mut new = Vec::new();
            for (payload, options) in self.jobs {
                match payload.and_then(|payload| queue.job(payload, options)) {
                    Ok(job) => {
                        new.push(job);
                        answers.push(None);
                    }
                    Err(error) => answers.push(Some(Err(error))),
                }
            }
            let mut open = answers.iter_mut().filter(|answer| answer.is_none());
            for batch in new.chunks(MOST) {
                for (job, answer) in batch.iter().zip(queue.send(batch).await?) {
                    if let Some(place) = open.next() {
                        *place = Some(judge(job, answer));
                    }
                }
            }
            drop(open);
            queue.queue.added(&queue.id).await;
            let missing = || Err(QueueError::store_failed(crate::protocol::call::missing("add jobs")));
            let answers: Vec<_> = answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect();
            let figures = Figures::of(&queue.id.name);
            for answer in &answers {
                figures.added(answer);
            }
            Ok(answers)
        })
    }
}

pub(super) fn judge(new: &NewJob, answer: store::Added) -> Result<Added, QueueError> {
    let id = |uid: Uid| uid.to_string();
    match answer {
        store::Added::New { due } => Ok(Added::New { id: id(new.uid), due }),
        store::Added::Replaced { uid, due } => Ok(Added::Replaced { id: id(uid), due }),
        store::Added::Duplicate { uid, state, result } => Ok(Added::Duplicate { id: id(uid), state, result }),
        store::Added::Reused { uid, fingerprint } => {
            Err(QueueError::JobIdReused { uid, theirs: fingerprint, ours: new.fingerprint })
        }
        store::Added::Full { depth, oldest } => Err(QueueError::Full { depth, oldest }),
    }
}

impl RawQueue {
    fn job(
        &self,
        (payload, fingerprint): (Bytes, Fingerprint),
        options: JobOptions,
    ) -> Result<NewJob, QueueError> {
        let checked = options.check(&payload, self.queue.clock().now())?;
        Ok(NewJob {
            uid: self.queue.uid()?,
            job_id: checked.job_id,
            fingerprint,
            payload,
            due: checked.due,
            priority: checked.priority,
            settings: checked.settings,
            remember: checked.remember,
            on_conflict: checked.on_conflict,
        })
    }

    /// Sends a request, and sends it again where nobody knows whether it arrived: each job keeps its id.
    pub(super) async fn send(&self, jobs: &[NewJob]) -> Result<Vec<store::Added>, QueueError> {
        let (queue, store) = (&self.queue, self.queue.store()?);
        let mut pauses = RESENDS.iter();
        loop {
            let answer =
                crate::protocol::call::one(queue.timeout(), "add jobs", store.add(&self.id, jobs)).await;
            Figures::of(&self.id.name).answered("add", &answer);
            match (answer, pauses.next()) {
                (Err(error), Some(pause)) if matches!(error.retry(), Retry::OnlyWithSameKey) => {
                    tracing::debug!(%error, "an add is sent again");
                    tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
                }
                (answer, _) => return answer.map_err(QueueError::store_failed),
            }
        }
    }
}

impl Queue {
    /// Adds a job to a queue.
    ///
    /// # Errors
    /// `queue.payload_too_large` above 1 MiB, `queue.payload_invalid`, `queue.job_id_reused`, `queue.full`,
    /// `queue.invalid`, `queue.store_failed`.
    pub fn add<T: Serialize + DeserializeOwned>(&self, def: &'static QueueDef<T>, payload: &T) -> Add {
        Add::new(self.raw(def.name()), encode(def, payload))
    }

    /// Adds jobs, up to 256 in a round trip. `each` may set the options of a job: its id, its delay, …
    pub fn add_many<'a, T: Serialize + DeserializeOwned + 'a>(
        &self,
        def: &'static QueueDef<T>,
        payloads: impl IntoIterator<Item = &'a T>,
        each: impl Fn(&T, JobOptions) -> JobOptions,
    ) -> AddMany {
        let job = |payload| (encode(def, payload), each(payload, JobOptions::default()));
        AddMany::new(self.raw(def.name()), payloads.into_iter().map(job).collect())
    }
}
