//! What a job is added with.

use crate::duration;
use clap::{Args, ValueEnum};
use hapax::{
    IntoKey, Key, Timestamp,
    queue::{Backoff, JobOptions, OnConflict, Priority},
};
use std::time::Duration;

/// Flags that become the options of a job.
#[derive(Clone, Debug, Args)]
pub(super) struct Options {
    /// The same id is the same job, however often it is added
    #[arg(long, value_name = "ID")]
    job_id: Option<String>,
    #[command(flatten)]
    common: Common,
    /// An equal payload is the same job within a window of this length, counted from 1970-01-01 UTC
    #[arg(long, value_name = "DUR", conflicts_with = "job_id", value_parser = duration::parse_positive)]
    unique_for: Option<Duration>,
    /// Of the payload, only the value at this JSON pointer has to be equal
    #[arg(long, value_name = "POINTER", requires = "unique_for", value_parser = parse_pointer)]
    unique_by: Option<String>,
}

/// Those that do not name the job.
#[derive(Clone, Debug, Args)]
pub(in crate::commands) struct Common {
    /// Not before so long has passed
    #[arg(long, value_name = "DUR", conflicts_with = "run_at", value_parser = duration::parse)]
    delay: Option<Duration>,
    /// Not before this time, RFC 3339; at once when it is past
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    run_at: Option<Timestamp>,
    /// 0 before 1 before 2 before 3
    #[arg(long, value_name = "0-3", default_value = "1", value_parser = parse_priority)]
    priority: Priority,
    /// The last failure takes the job to the dead letters
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    max_attempts: u32,
    /// The pause after a failure: fixed:5s, or exponential:FIRST:LONGEST
    #[arg(long, value_name = "BACKOFF", default_value = "exponential:1s:1h", value_parser = parse_backoff)]
    backoff: Backoff,
    /// One attempt may take so long; what takes longer has failed
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive)]
    timeout: Option<Duration>,
    /// Keeps the result for so long, for `hapax queue wait`
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive)]
    keep_result: Option<Duration>,
    /// The job id stands for the job for so long after its end
    #[arg(long, value_name = "DUR", default_value = "24h", value_parser = duration::parse_positive)]
    dedupe_for: Duration,
    /// When the job id was used for another payload [default: refuse, and keep with --unique-by]
    #[arg(long, value_name = "WHAT")]
    on_conflict: Option<Conflict>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Conflict {
    /// Exit code 65
    Refuse,
    /// The job that is there stays, and is the answer
    Keep,
    /// A job that no worker has taken yet gets the new payload and time
    Replace,
}

impl Options {
    pub(super) fn job_id(&self) -> Option<&str> {
        self.job_id.as_deref()
    }

    pub(super) fn unique_by(&self) -> Option<&str> {
        self.unique_by.as_deref()
    }

    pub(super) fn of_job(&self) -> JobOptions {
        self.of(self.job_id())
    }

    pub(super) fn of_line(&self, job_id: Option<&Key>) -> JobOptions {
        self.of(job_id)
    }

    fn of(&self, job_id: Option<impl IntoKey>) -> JobOptions {
        let mut options = self.common.of_job(job_id);
        if let Some(window) = self.unique_for {
            options = options.unique_for(window);
        }
        match &self.unique_by {
            Some(pointer) => options.unique_by(pointer),
            None => options,
        }
    }
}

impl Common {
    pub(in crate::commands) fn of_job(&self, job_id: Option<impl IntoKey>) -> JobOptions {
        let mut options = JobOptions::default()
            .priority(self.priority)
            .max_attempts(self.max_attempts)
            .backoff(self.backoff)
            .dedupe_for(self.dedupe_for);
        if let Some(conflict) = self.on_conflict {
            options = options.on_conflict(match conflict {
                Conflict::Refuse => OnConflict::Refuse,
                Conflict::Keep => OnConflict::Keep,
                Conflict::Replace => OnConflict::Replace,
            });
        }
        if let Some(id) = job_id {
            options = options.job_id(id);
        }
        if let Some(delay) = self.delay {
            options = options.delay(delay);
        }
        if let Some(at) = self.run_at {
            options = options.run_at(at);
        }
        if let Some(limit) = self.timeout {
            options = options.timeout(limit);
        }
        if let Some(time) = self.keep_result {
            options = options.keep_result(time);
        }
        options
    }
}

/// Reads a time as RFC 3339 writes it, in any zone.
pub(in super::super) fn parse_time(text: &str) -> Result<Timestamp, String> {
    let time = text.parse::<jiff::Timestamp>();
    time.map(|time| Timestamp::from_millis(time.as_millisecond())).map_err(|_| {
        format!("`{text}` is no time: write 2026-12-24T18:00:00Z, or with an offset such as +01:00")
    })
}

/// Reads a pointer to a part of a JSON value.
pub(super) fn parse_pointer(text: &str) -> Result<String, String> {
    if text.starts_with('/') {
        return Ok(text.to_owned());
    }
    Err(format!("`{text}` is no JSON pointer: write /name, or /list/0/name"))
}

pub(in super::super) fn parse_priority(text: &str) -> Result<Priority, String> {
    let number = text.parse().ok().and_then(Priority::from_number);
    number.ok_or_else(|| format!("`{text}` is no priority: there are 0 (first), 1, 2 and 3"))
}

pub(in super::super) fn parse_backoff(text: &str) -> Result<Backoff, String> {
    const FORM: &str = "write fixed:5s or exponential:1s:1h";
    let mut parts = text.split(':');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some("fixed"), Some(every), None, None) => Ok(Backoff::fixed(duration::parse_positive(every)?)),
        (Some("exponential"), Some(base), Some(max), None) => {
            let (base, max) = (duration::parse_positive(base)?, duration::parse_positive(max)?);
            if base > max {
                return Err(format!("`{text}` begins above its longest pause: {FORM}"));
            }
            Ok(Backoff::exponential(base, max))
        }
        _ => Err(format!("`{text}` is no backoff: {FORM}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoffs_are_fixed_or_grow() {
        assert_eq!(parse_backoff("fixed:5s"), Ok(Backoff::fixed(Duration::from_secs(5))));
        assert_eq!(parse_backoff("exponential:1s:1h"), Ok(Backoff::default()));
        for text in [
            "",
            "fixed",
            "fixed:5",
            "fixed:5s:1s",
            "exponential:1s",
            "exponential:1h:1s",
            "linear:1s",
            "fixed:0s",
        ] {
            assert!(parse_backoff(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_a_zone() {
        let at = parse_time("2026-01-01T00:00:00.120Z").unwrap();
        assert_eq!(at.as_millis(), 1_767_225_600_120);
        assert_eq!(parse_time("2026-01-01T01:00:00.120+01:00").unwrap(), at);
        for text in ["", "tomorrow", "2026-01-01", "2026-01-01T00:00:00", "5s"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn priorities_are_0_to_3() {
        assert_eq!(parse_priority("3"), Ok(Priority::Bulk));
        assert!(parse_priority("4").is_err() && parse_priority("-1").is_err());
    }
}
