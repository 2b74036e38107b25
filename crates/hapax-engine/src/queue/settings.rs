//! What a job carries beside its payload: how often it may fail, and when it is due again.

use super::QueueError;
use bytes::Bytes;
use hapax_core::{
    BoxError, IntoKey, Key, Span, Timestamp,
    queue::{Due, OnConflict, Priority},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// How long a job waits after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// The same each time.
    Fixed(#[serde(with = "millis")] Duration),
    /// Twice as long each time, up to a bound.
    Exponential {
        /// After the first failure.
        #[serde(with = "millis", rename = "base_ms")]
        base: Duration,
        /// At most.
        #[serde(with = "millis", rename = "max_ms")]
        max: Duration,
    },
}

impl Backoff {
    /// The same each time.
    pub const fn fixed(every: Duration) -> Self {
        Self::Fixed(every)
    }

    /// From `base`, twice as long each time, `max` at most. Half of it is drawn at random (equal jitter), so that what
    /// failed together does not come back together.
    pub const fn exponential(base: Duration, max: Duration) -> Self {
        Self::Exponential { base, max }
    }

    /// The pause after so many failures; `chance` from 0 to 1 makes the jitter.
    pub(crate) fn after(self, failures: u32, chance: f64) -> Duration {
        match self {
            Self::Fixed(every) => every,
            Self::Exponential { base, max } => {
                // Step by step up to the bound: a factor would end below a bound that is far away.
                let doubled = |pause: Duration, _| pause.checked_mul(2).filter(|next| *next < max);
                let doublings = if base.is_zero() { 0 } else { failures.saturating_sub(1) };
                let whole = (0..doublings).try_fold(base, doubled).unwrap_or(max).min(max);
                // Whole milliseconds keep what a float would lose.
                let half = whole / 2;
                half.saturating_add(half.mul_f64(chance.clamp(0.0, 1.0)))
            }
        }
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::exponential(Duration::from_secs(1), Duration::from_hours(1))
    }
}

mod millis {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

/// What the engine keeps with a job, as JSON. Members that have their default are left out; unknown ones are ignored, so
/// that an older worker takes the jobs of a newer program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Settings {
    /// How often the handler may fail; the last failure is the end.
    #[serde(skip_serializing_if = "is_default_attempts")]
    pub max_attempts: u32,
    /// The pause after a failure.
    #[serde(skip_serializing_if = "is_default")]
    pub backoff: Backoff,
    /// How long one attempt may take, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How long the result is kept, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_result_ms: Option<u64>,
    /// Carried to the handler: trace ids and the like.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub context: BTreeMap<String, String>,
}

impl Settings {
    /// How often a handler may fail unless the job says otherwise.
    pub const MAX_ATTEMPTS: u32 = 5;

    /// From what a store kept. What cannot be read counts as the defaults: a job is never lost for that.
    pub fn read(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_default()
    }

    pub(super) fn write(&self) -> Bytes {
        // Text keys and whole numbers have a form.
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_attempts: Self::MAX_ATTEMPTS,
            backoff: Backoff::default(),
            timeout_ms: None,
            keep_result_ms: None,
            context: BTreeMap::new(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_default_attempts(attempts: &u32) -> bool {
    *attempts == Settings::MAX_ATTEMPTS
}

fn is_default(backoff: &Backoff) -> bool {
    *backoff == Backoff::default()
}

/// Options of a job to add. A fault is told by the `add`.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a job is added with them"]
pub struct JobOptions {
    job_id: Option<Key>,
    due: Due,
    priority: Priority,
    remember: Span,
    on_conflict: Option<OnConflict>,
    settings: Settings,
    unique: Option<(Duration, String)>,
    fault: Option<String>,
}

/// What [`JobOptions`] come to.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) job_id: Option<Key>,
    pub(super) due: Due,
    pub(super) priority: Priority,
    pub(super) remember: Span,
    pub(super) on_conflict: OnConflict,
    pub(super) settings: Bytes,
}

impl Default for JobOptions {
    fn default() -> Self {
        Self {
            job_id: None,
            due: Due::Now,
            priority: Priority::Normal,
            remember: span(Duration::from_hours(24)).unwrap_or(Span::MAX),
            on_conflict: None,
            settings: Settings::default(),
            unique: None,
            fault: None,
        }
    }
}

fn span(duration: Duration) -> Result<Span, String> {
    Span::new(duration).map_err(|error| error.to_string())
}

impl JobOptions {
    /// Remembered while the job lives and [some time](Self::dedupe_for) after: the same id is the same job.
    pub fn job_id(mut self, id: impl IntoKey) -> Self {
        match id.into_key() {
            Ok(key) => self.job_id = Some(key),
            Err(error) => self.fault(format!("the job id: {error}")),
        }
        self
    }

    /// Not before this much time has passed on the store's clock. None at all is now.
    pub fn delay(mut self, by: Duration) -> Self {
        if by.is_zero() {
            self.due = Due::Now;
            return self;
        }
        match span(by) {
            Ok(span) => self.due = Due::After(span),
            Err(error) => self.fault(format!("the delay: {error}")),
        }
        self
    }

    /// Not before this instant on the store's clock.
    pub fn run_at(mut self, at: Timestamp) -> Self {
        self.due = Due::At(at);
        self
    }

    /// How often the handler may fail (5): the last failure takes the job to the dead letters.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        if attempts == 0 {
            self.fault("at least one attempt is needed".into());
        }
        self.settings.max_attempts = attempts;
        self
    }

    /// The pause after a failure (exponential, 1 s to 1 h).
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        let (Backoff::Fixed(most) | Backoff::Exponential { max: most, .. }) = backoff;
        if let Err(error) = span(most) {
            self.fault(format!("the backoff: {error}"));
        }
        self.settings.backoff = backoff;
        self
    }

    /// Which come first.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// How long the job id is remembered after the job's end (24 h).
    pub fn dedupe_for(mut self, time: Duration) -> Self {
        match span(time) {
            Ok(span) => self.remember = span,
            Err(error) => self.fault(format!("the time of a job id: {error}")),
        }
        self
    }

    /// What to do when the job id was used for another payload (refuse).
    pub fn on_conflict(mut self, what: OnConflict) -> Self {
        self.on_conflict = Some(what);
        self
    }

    /// How long one attempt may take; what takes longer has failed.
    pub fn timeout(mut self, limit: Duration) -> Self {
        match span(limit) {
            Ok(span) => self.settings.timeout_ms = Some(span.as_millis()),
            Err(error) => self.fault(format!("the time-out: {error}")),
        }
        self
    }

    /// Keeps the handler's result for so long: a later `add` under the job id answers it.
    pub fn keep_result(mut self, time: Duration) -> Self {
        match span(time) {
            Ok(span) => self.settings.keep_result_ms = Some(span.as_millis()),
            Err(error) => self.fault(format!("the time of a result: {error}")),
        }
        self
    }

    /// Carried to the handler, as [`Job::context`](super::Job::context).
    pub fn context(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.context.insert(name.into(), value.into());
        self
    }

    /// Makes the job id from the payload and a window of time: within one window an equal payload is the same job.
    /// Windows begin at whole multiples of their length since 1970, on this process's clock.
    pub fn unique_for(mut self, window: Duration) -> Self {
        match span(window) {
            Ok(_) => self.unique = Some((window, self.unique.take().map(|(_, by)| by).unwrap_or_default())),
            Err(error) => self.fault(format!("the window: {error}")),
        }
        self
    }

    /// Of a JSON payload only the value at this pointer (RFC 6901) makes the job id: another payload with the same value is a
    /// duplicate, unless [`on_conflict`](Self::on_conflict) says otherwise. Needs [`unique_for`](Self::unique_for).
    pub fn unique_by(mut self, pointer: impl Into<String>) -> Self {
        let pointer = pointer.into();
        if !pointer.is_empty() && !pointer.starts_with('/') {
            self.fault(format!("`{pointer}` is no JSON pointer: it begins with `/`"));
        }
        self.unique = Some((self.unique.take().map(|(window, _)| window).unwrap_or_default(), pointer));
        self
    }

    fn fault(&mut self, what: String) {
        self.fault.get_or_insert(what);
    }

    /// Checks them for the jobs of a schedule, which has ids and times of its own.
    pub(super) fn check_scheduled(self, payload: &[u8], now: Timestamp) -> Result<Checked, QueueError> {
        let own = [
            (self.job_id.is_some() || self.unique.is_some(), "id"),
            (self.due != Due::Now, "time"),
            (self.on_conflict.is_some(), "conflict"),
        ];
        match own.iter().find(|(is_set, _)| *is_set) {
            Some((_, what)) => Err(QueueError::invalid(format!(
                "the jobs of a schedule have no {what} of their own: each has that of its time"
            ))),
            None => self.check(payload, now),
        }
    }

    /// Checks them for a payload.
    pub(super) fn check(self, payload: &[u8], now: Timestamp) -> Result<Checked, QueueError> {
        if let Some(fault) = self.fault {
            return Err(QueueError::invalid(fault));
        }
        // What is unique by a part has the same id whatever the rest of it is.
        let by_part = self.unique.as_ref().is_some_and(|(_, by)| !by.is_empty());
        let on_conflict = if by_part { OnConflict::Keep } else { OnConflict::Refuse };
        let job_id = match (self.job_id, self.unique) {
            (Some(_), Some(_)) => {
                return Err(QueueError::invalid("a job has an id of its own or a unique one, not both"));
            }
            (None, Some((window, by))) => Some(unique(payload, window, &by, now)?),
            (id, None) => id,
        };
        Ok(Checked {
            job_id,
            due: self.due,
            priority: self.priority,
            remember: self.remember,
            on_conflict: self.on_conflict.unwrap_or(on_conflict),
            settings: self.settings.write(),
        })
    }
}

/// The job id of a payload in its window.
fn unique(payload: &[u8], window: Duration, by: &str, now: Timestamp) -> Result<Key, QueueError> {
    if window.is_zero() {
        return Err(QueueError::invalid("what is unique needs a window: say for how long"));
    }
    let what = if by.is_empty() {
        super::add::fingerprint(payload)
    } else {
        let value: serde_json::Value = serde_json::from_slice(payload)
            .map_err(|error| QueueError::invalid(format!("the payload is no JSON: {error}")))?;
        let part = value.pointer(by);
        let part = part.ok_or_else(|| QueueError::invalid(format!("the payload has nothing at `{by}`")))?;
        hapax_core::stable_hash(part)
            .map_err(|error| QueueError::invalid(BoxError::from(error).to_string()))?
    };
    let length = i64::try_from(window.as_millis()).unwrap_or(i64::MAX).max(1);
    let start = now.as_millis().div_euclid(length).saturating_mul(length);
    Key::join(["unique", &format!("{what}"), &start.to_string(), &length.to_string()])
        .map_err(|error| QueueError::invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_bound_and_never_overflow() {
        let backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_mins(1));
        let pauses: Vec<_> = (1..9).map(|n| backoff.after(n, 1.0).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.after(u32::MAX, 0.0), Duration::from_secs(30));
        let slow = Backoff::exponential(Duration::from_millis(1), Duration::from_hours(24 * 365));
        assert_eq!(slow.after(33, 1.0), Duration::from_millis(1 << 32));
        for failures in [40, 1000, u32::MAX] {
            assert_eq!(
                slow.after(failures, 1.0),
                Duration::from_hours(24 * 365),
                "after {failures} failures"
            );
        }
        assert_eq!(
            Backoff::exponential(Duration::ZERO, Duration::from_secs(1)).after(1000, 1.0),
            Duration::ZERO
        );
        let huge = Backoff::exponential(Duration::MAX, Duration::MAX);
        assert!(huge.after(u32::MAX, 1.0) > Duration::from_hours(24));
    }

    #[test]
    fn settings_of_another_version_are_read() {
        assert_eq!(Settings::read(b"{}"), Settings::default());
        assert_eq!(Settings::read(b"no json"), Settings::default());
        let known = Settings::read(br#"{"max_attempts":3,"of_a_newer_version":[]}"#);
        assert_eq!(known.max_attempts, 3);
        let own = Settings { timeout_ms: Some(5), backoff: Backoff::fixed(Duration::from_secs(2)), ..known };
        assert_eq!(Settings::read(&own.write()), own);
        assert_eq!(&Settings::default().write()[..], b"{}");
    }

    #[test]
    fn equal_payloads_are_one_job_within_their_window() {
        let at = |ms| Timestamp::from_millis(ms);
        let id = |payload: &str, by: &str, ms| {
            unique(payload.as_bytes(), Duration::from_secs(1), by, at(ms)).map(|key| key.as_str().to_owned())
        };
        let first = id(r#"{"a":1,"b":2}"#, "", 1000).unwrap();
        assert_eq!(id(r#"{"b":2, "a":1}"#, "", 1999).unwrap(), first);
        assert_ne!(id(r#"{"a":1,"b":2}"#, "", 2000).unwrap(), first);
        assert_ne!(id(r#"{"a":1,"b":3}"#, "", 1000).unwrap(), first);
        assert_eq!(id(r#"{"a":1,"b":2}"#, "/a", 1000).unwrap(), id(r#"{"a":1}"#, "/a", 1000).unwrap());
        assert!(id(r#"{"a":1}"#, "/c", 1000).is_err());
    }
}
