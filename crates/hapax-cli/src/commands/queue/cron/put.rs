//! `hapax queue cron put`.

use super::{SHOWN, find, object, say_times, word};
use crate::{
    commands::{
        Context,
        queue::{
            Found,
            add::{
                options::{parse_backoff, parse_priority},
                payload,
            },
            queue,
        },
    },
    duration,
    exit::Exit,
    failure::Failure,
    text,
};
use clap::{Args, ValueEnum};
use hapax::{
    core::{Clock, SystemClock},
    queue::{Backoff, CatchUp, JobOptions, Priority, Timing},
};
use serde_json::json;
use std::{ffi::OsString, time::Duration};

/// Put a schedule, in place of the one of its name
///
/// Prints the next times. The expression has five fields, MINUTE HOUR DAY MONTH WEEKDAY, or six with SECOND in front, or is
/// @yearly, @monthly, @weekly, @daily or @hourly. Fields hold `*`, numbers, lists `1,2`, ranges `1-5` and steps `*/5`; months and
/// weekdays also names; L is the last day of a month, `5L` its last Friday, `1#2` its second Monday. Where day and weekday are both
/// given, either will do. A local time that is left out when clocks are set forward counts as the first minute after it; one that
/// comes twice counts once. A worker that runs already learns of a new schedule within half a minute.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue cron put nightly reports '0 3 * * *' --tz Europe/Berlin --payload '{\"all\":true}'
  hapax queue cron put poll feeds '*/5 * * * *' --catch-up skip --max-attempts 1
  hapax queue cron put invoices mails '0 9 L * *' --dry-run          only shows the next times
  hapax queue cron put import files @hourly --payload - < job.json

EXIT CODES:
  0   put
  65  the expression or the zone is wrong, it never comes, or a program has a schedule of this name")]
pub(super) struct Put {
    /// A name for it
    #[arg(value_name = "NAME")]
    name: String,
    /// The queue that its jobs go to
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// When: a cron expression
    #[arg(value_name = "EXPR")]
    expression: String,
    /// The time zone in which the expression is read
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    tz: String,
    /// When times were missed because no worker was there
    #[arg(long, value_name = "WHAT", default_value = "one")]
    catch_up: Missed,
    /// What each job is about; `-` reads it from standard input
    #[arg(long, value_name = "PAYLOAD", default_value = "null", allow_hyphen_values = true)]
    payload: OsString,
    /// 0 before 1 before 2 before 3
    #[arg(long, value_name = "0-3", default_value = "1", value_parser = parse_priority)]
    priority: Priority,
    /// The last failure takes a job to the dead letters
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    max_attempts: u32,
    /// The pause after a failure: fixed:5s, or exponential:FIRST:LONGEST
    #[arg(long, value_name = "BACKOFF", default_value = "exponential:1s:1h", value_parser = parse_backoff)]
    backoff: Backoff,
    /// One attempt may take so long; what takes longer has failed
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive)]
    timeout: Option<Duration>,
    /// Keeps the result of each job for so long, for `hapax queue wait`
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive)]
    keep_result: Option<Duration>,
    /// Checks it and shows the next times; nothing is put
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Missed {
    /// One job for all of them
    One,
    /// No job; a time counts as missed when it is more than a minute past
    Skip,
}

impl From<Missed> for CatchUp {
    fn from(what: Missed) -> Self {
        match what {
            Missed::One => Self::One,
            Missed::Skip => Self::Skip,
        }
    }
}

impl Put {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        queue(&self.queue)?;
        let timing = Timing::new(&self.expression, &self.tz)?;
        let payload = payload::read(Some(&self.payload))?;
        if self.dry_run {
            return self.rehearse(&timing, context);
        }
        let found = Found::open(&self.queue, context).await?;
        let schedule = found.raw.schedule(&self.name, &self.expression, payload).time_zone(&self.tz);
        let schedule = schedule.catch_up(self.catch_up.into()).options(self.options());
        if schedule.await? == hapax::queue::Put::Refused {
            return Err(self.refused(&found).await);
        }
        let Some(info) = find(&found.hapax, &self.name).await? else {
            return Err(Failure::input(format!("{} was removed meanwhile", text::shown(&self.name))));
        };
        if context.output.json {
            context.output.object(&object(&info));
        } else {
            say_times(&timing, info.upcoming(), context);
        }
        Ok(Exit::Done)
    }

    fn options(&self) -> JobOptions {
        let mut options = JobOptions::default()
            .priority(self.priority)
            .max_attempts(self.max_attempts)
            .backoff(self.backoff);
        if let Some(limit) = self.timeout {
            options = options.timeout(limit);
        }
        match self.keep_result {
            Some(time) => options.keep_result(time),
            None => options,
        }
    }

    fn rehearse(&self, timing: &Timing, context: &Context) -> Result<Exit, Failure> {
        let times: Vec<_> = timing.upcoming(SystemClock.now()).take(SHOWN).collect();
        if times.is_empty() {
            let message = format!("the schedule {} never comes", text::shown(timing.expression()));
            return Err(Failure::input(message).help("no month has such a day"));
        }
        if context.output.json {
            context.output.object(&json!({
                "name": self.name,
                "queue": self.queue,
                "cron": timing.expression(),
                "zone": timing.zone(),
                "catch_up": word(self.catch_up.into()),
                "next": times.into_iter().filter_map(text::time).collect::<Vec<_>>(),
                "dry_run": true,
            }));
        } else {
            say_times(timing, times.into_iter(), context);
            context.output.note("nothing was put");
        }
        Ok(Exit::Done)
    }

    async fn refused(&self, found: &Found) -> Failure {
        let owner = find(&found.hapax, &self.name).await.ok().flatten().and_then(|info| info.owner);
        let whose = owner.map_or_else(String::new, |owner| format!(", of {}", text::shown(&owner)));
        Failure::input(format!("{} is a schedule that a program declares{whose}", text::shown(&self.name)))
            .help("choose another name; what is removed here, that program puts again")
    }
}
