//! What a schedule adds and when, as stores keep it: JSON that programs in other languages can write.
//!
//! ```json
//! {"v":1,"cron":"0 3 * * *","zone":"Europe/Berlin","catch_up":"one","payload":"{\"all\":true}"}
//! ```
//!
//! The payload is its bytes as text, or in hex as `payload_hex` where they are none. `priority` (0 to 3), `dedupe_ms` and
//! `settings` (those of a job) are left out where they have their default. Unknown members are ignored; what an older
//! reader must not ignore gets another `v`.

use super::timing::Timing;
use crate::queue::{QueueError, Settings, settings::Checked};
use bytes::Bytes;
use hapax_core::{
    Span,
    queue::{Priority, Schedule},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The form that is written, and the only one that is read.
const VERSION: u32 = 1;

/// What becomes of the times that came while nobody was there to see them: no worker ran, or the store was gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// One job for all of them: that of the last time.
    #[default]
    One,
    /// None. A time counts as missed when it is more than a minute past.
    Skip,
}

/// What a schedule adds, and when.
#[derive(Clone, Debug)]
pub struct Rule {
    timing: Timing,
    catch_up: CatchUp,
    pub(super) payload: Bytes,
    pub(super) priority: Priority,
    pub(super) remember: Span,
    pub(super) settings: Settings,
}

#[derive(Deserialize)]
struct Version {
    v: u32,
}

/// As it is written.
#[derive(Serialize, Deserialize)]
struct Form {
    v: u32,
    cron: String,
    zone: String,
    #[serde(default)]
    catch_up: CatchUp,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_hex: Option<String>,
    #[serde(default = "normal", skip_serializing_if = "is_normal")]
    priority: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    dedupe_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    settings: Settings,
}

const fn normal() -> u8 {
    Priority::Normal.number()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_normal(priority: &u8) -> bool {
    *priority == normal()
}

fn is_default(settings: &Settings) -> bool {
    *settings == Settings::default()
}

impl Rule {
    pub(super) fn new(timing: Timing, catch_up: CatchUp, payload: Bytes, options: &Checked) -> Self {
        let settings = Settings::read(&options.settings);
        let (priority, remember) = (options.priority, options.remember);
        Self { timing, catch_up, payload, priority, remember, settings }
    }

    /// When.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// What becomes of missed times.
    pub fn catch_up(&self) -> CatchUp {
        self.catch_up
    }

    /// The payload of each job.
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// Which jobs come first.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// What each job carries beside its payload.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn write(&self) -> Result<Bytes, QueueError> {
        let text = std::str::from_utf8(&self.payload).ok().map(str::to_owned);
        let remember = self.remember.as_millis();
        let form = Form {
            v: VERSION,
            cron: self.timing.expression().to_owned(),
            zone: self.timing.zone().to_owned(),
            catch_up: self.catch_up,
            payload_hex: text.is_none().then(|| hex::encode(&self.payload)),
            payload: text,
            priority: self.priority.number(),
            dedupe_ms: (remember != default_remember().as_millis()).then_some(remember),
            settings: self.settings.clone(),
        };
        serde_json::to_vec(&form).map(Bytes::from).map_err(QueueError::payload)
    }

    /// # Errors
    /// `queue.schedule_unreadable`
    pub(super) fn read(schedule: &Schedule) -> Result<Self, QueueError> {
        let unreadable = |why: String| QueueError::unreadable(schedule.name.as_str(), why);
        let broken = |error: serde_json::Error| {
            unreadable(format!("it is not in the form of version {VERSION}: {error}"))
        };
        let version: Version = serde_json::from_slice(&schedule.what)
            .map_err(|error| unreadable(format!("it is no JSON with a version `v`: {error}")))?;
        if version.v != VERSION {
            return Err(unreadable(format!(
                "it has the form of version {}, and this program knows version {VERSION}: use the one that wrote it, or put the schedule again",
                version.v
            )));
        }
        let form: Form = serde_json::from_slice(&schedule.what).map_err(broken)?;
        let timing = Timing::new(&form.cron, &form.zone).map_err(|error| unreadable(error.to_string()))?;
        let payload = match (form.payload, form.payload_hex) {
            (Some(text), None) => Bytes::from(text),
            (None, Some(hex)) => hex::decode(hex)
                .map_err(|error| unreadable(format!("`payload_hex` is no hex: {error}")))?
                .into(),
            _ => return Err(unreadable("it has not one of `payload` and `payload_hex`".into())),
        };
        let priority = Priority::from_number(form.priority);
        let priority = priority.ok_or_else(|| unreadable("its `priority` is none of 0 to 3".into()))?;
        let remember =
            form.dedupe_ms.map_or(Ok(default_remember()), |ms| Span::new(Duration::from_millis(ms)));
        let remember = remember.map_err(|error| unreadable(format!("its `dedupe_ms`: {error}")))?;
        Ok(Self { timing, catch_up: form.catch_up, payload, priority, remember, settings: form.settings })
    }
}

fn default_remember() -> Span {
    Span::new(Duration::from_hours(24)).unwrap_or(Span::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Backoff, JobOptions};
    use hapax_core::{
        Timestamp,
        queue::{QueueName, ScheduleName},
    };

    fn kept(what: &[u8]) -> Schedule {
        Schedule {
            name: ScheduleName::new("nightly").unwrap(),
            queue: QueueName::new("reports").unwrap(),
            owner: None,
            revision: 0,
            what: Bytes::copy_from_slice(what),
            next: Timestamp::default(),
        }
    }

    fn rule(payload: &'static [u8], options: JobOptions) -> Rule {
        let timing = Timing::new("0 3 * * *", "Europe/Berlin").unwrap();
        let options = options.check(payload, Timestamp::default()).unwrap();
        Rule::new(timing, CatchUp::Skip, Bytes::from_static(payload), &options)
    }

    #[test]
    fn a_rule_is_kept_in_a_form_that_any_language_can_write() {
        let plain = rule(br#"{"all":true}"#, JobOptions::default()).write().unwrap();
        let text = r#"{"v":1,"cron":"0 3 * * *","zone":"Europe/Berlin","catch_up":"skip","payload":"{\"all\":true}","settings":{}}"#;
        let short = text.replace(r#","settings":{}"#, "");
        assert_eq!(std::str::from_utf8(&plain).unwrap(), short);
        for form in [text, &short, &short.replace("\"v\":1", "\"v\":1,\"of_later\":[]")] {
            assert_eq!(Rule::read(&kept(form.as_bytes())).unwrap().write().unwrap(), plain);
        }
    }

    #[test]
    fn everything_that_a_rule_says_is_kept() {
        let options = JobOptions::default()
            .priority(Priority::Bulk)
            .max_attempts(2)
            .backoff(Backoff::fixed(Duration::from_secs(9)))
            .dedupe_for(Duration::from_hours(48))
            .context("a", "b");
        let rule = rule(&[0, 255, 1], options);
        let read = Rule::read(&kept(&rule.write().unwrap())).unwrap();
        assert_eq!(read.payload()[..], [0, 255, 1]);
        assert_eq!(read.settings(), rule.settings());
        assert_eq!((read.priority(), read.remember.get()), (Priority::Bulk, Duration::from_hours(48)));
        assert_eq!((read.catch_up(), read.timing().zone()), (CatchUp::Skip, "Europe/Berlin"));
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        for (what, why) in [
            (r#"{"v":2,"when":"sometimes"}"#, "version 2"),
            ("{}", "`v`"),
            ("no json", "no JSON"),
            (r#"{"v":1,"cron":"0 3 * * *"}"#, "zone"),
            (r#"{"v":1,"cron":"0 3 * *","zone":"UTC","payload":""}"#, "4 fields"),
            (r#"{"v":1,"cron":"@daily","zone":"Mars/Base","payload":""}"#, "Mars/Base"),
            (r#"{"v":1,"cron":"@daily","zone":"UTC"}"#, "payload_hex"),
            (r#"{"v":1,"cron":"@daily","zone":"UTC","payload_hex":"x"}"#, "hex"),
            (r#"{"v":1,"cron":"@daily","zone":"UTC","payload":"","priority":9}"#, "priority"),
            (r#"{"v":1,"cron":"@daily","zone":"UTC","payload":"","dedupe_ms":0}"#, "dedupe_ms"),
        ] {
            let error = Rule::read(&kept(what.as_bytes())).unwrap_err();
            assert!(
                error.to_string().contains(why) && error.to_string().contains("nightly"),
                "{what}: {error}"
            );
        }
    }
}
