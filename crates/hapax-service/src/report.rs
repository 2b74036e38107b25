//! How every service started and stopped.

use crate::{
    error::{ServiceError, in_full},
    signals::Watch,
};
use hapax_core::Coded;
use serde::{Serialize, Serializer};
use std::{
    fmt,
    io::Write as _,
    process::{ExitCode, Termination},
    sync::Arc,
    time::Duration,
};

/// How a service ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum State {
    /// All its hooks have run.
    Stopped,
    /// A hook returned an error or panicked; the others have run.
    StopFailed,
    /// Its time, or that of the application, was up before all its hooks had run.
    StopTimedOut,
    /// It could not start; the hooks that it had left have run.
    StartFailed,
    /// Its start was given up because the application stops; the hooks that it had left have run.
    Cancelled,
}

impl State {
    /// The word used in JSON and in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::StopFailed => "stop_failed",
            Self::StopTimedOut => "stop_timed_out",
            Self::StartFailed => "start_failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why the application stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopCause {
    /// A signal came, with this name: `SIGTERM`.
    #[non_exhaustive]
    Signal {
        /// Its name.
        name: &'static str,
    },
    /// The future that was given to [`App::run_until`](crate::App::run_until) is over, or that of
    /// [`App::run_with`](crate::App::run_with).
    Asked,
    /// A service called [`Ctx::stop_app`](crate::Ctx::stop_app).
    #[non_exhaustive]
    Service {
        /// Its name.
        name: &'static str,
    },
    /// A service of [`App::boot`](crate::App::boot) could not start.
    StartFailed,
}

impl fmt::Display for StopCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal { name } => f.write_str(name),
            Self::Asked => f.write_str("asked"),
            Self::Service { name } => write!(f, "service {name}"),
            Self::StartFailed => f.write_str("start_failed"),
        }
    }
}

impl Serialize for StopCause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Something that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// `service.…`, from [`CODES`](crate::CODES).
    pub code: &'static str,
    /// What, and its causes.
    pub message: String,
}

impl Problem {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn of(error: &ServiceError) -> Self {
        Self::new(error.code(), in_full(error))
    }
}

/// How one service started and stopped. In JSON, times are in milliseconds: `start_ms`, `stop_ms`.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ServiceReport {
    /// Its name.
    pub service: &'static str,
    /// How it ended.
    pub state: State,
    /// How often it was started: more than once by [`Ctx::retry_start`](crate::Ctx::retry_start). The rest is of the last start.
    pub starts: u32,
    /// What its start took; none when it was not ready.
    #[serde(rename = "start_ms", serialize_with = "millis")]
    pub start: Option<Duration>,
    /// What its hooks took; none when none of them ran to an end.
    #[serde(rename = "stop_ms", serialize_with = "millis")]
    pub stop: Option<Duration>,
    /// The services that it loaded, by name.
    pub loads: Vec<&'static str>,
    /// What went wrong, in order.
    pub problems: Vec<Problem>,
}

/// How every service started and stopped. Return it from `main`: it becomes the exit code, and what went wrong is
/// printed on stderr.
///
/// | exit code | when |
/// |---|---|
/// | 0 | every service stopped in order, whatever asked for it, also while they started |
/// | 69 | a service could not start |
/// | 70 | a hook failed or panicked |
/// | 124 | a service had not stopped when the time was up |
/// | 130, 143 | a second SIGINT or SIGTERM ended the process at once; there is no report then |
///
/// Where several hold, the first in this order: 69, 124, 70. As text it is a line for each service; as JSON, by
/// [`Serialize`], an object with `cause`, `exit_code`, `problem` and `services`.
#[must_use = "the report holds the exit code: return it from `main`"]
#[derive(Clone)]
#[non_exhaustive]
pub struct Report {
    /// Why the application stopped.
    pub cause: StopCause,
    /// Why it could not start, when it could not.
    pub problem: Option<Problem>,
    /// From the first load to the moment when all were ready, if there was one.
    pub start: Option<Duration>,
    /// From the request to stop to the end.
    pub stop: Duration,
    /// In the order in which they were first asked for.
    pub services: Vec<ServiceReport>,
    /// Keeps an eye on the process until it has ended.
    pub(crate) watch: Option<Arc<Watch>>,
}

impl Report {
    /// Nothing was started.
    pub(crate) fn refused(error: &ServiceError) -> Self {
        Self {
            cause: StopCause::StartFailed,
            problem: Some(Problem::of(error)),
            start: None,
            stop: Duration::ZERO,
            services: Vec::new(),
            watch: None,
        }
    }

    /// Whether every service stopped in order, and nothing else went wrong.
    pub fn is_clean(&self) -> bool {
        self.exit_code() == 0
    }

    /// The exit code of the process, as listed above.
    pub fn exit_code(&self) -> u8 {
        let any = |state| self.services.iter().any(|service| service.state == state);
        if self.cause == StopCause::StartFailed {
            69
        } else if any(State::StopTimedOut) {
            124
        } else if any(State::StopFailed) {
            70
        } else {
            0
        }
    }

    /// Of the service with this name.
    pub fn service(&self, name: &str) -> Option<&ServiceReport> {
        self.services.iter().find(|service| service.service == name)
    }
}

impl Termination for Report {
    fn report(self) -> ExitCode {
        if !self.is_clean() {
            // What cannot be printed is in the exit code still.
            let _ = write!(std::io::stderr(), "{self}");
        }
        ExitCode::from(self.exit_code())
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cause, problem, start, stop, services, watch: _ } = self;
        let mut debug = f.debug_struct("Report");
        debug.field("cause", cause).field("problem", problem).field("start", start).field("stop", stop);
        debug.field("services", services).finish()
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Json<'a> {
            cause: StopCause,
            exit_code: u8,
            problem: &'a Option<Problem>,
            #[serde(serialize_with = "millis")]
            start_ms: Option<Duration>,
            #[serde(serialize_with = "millis")]
            stop_ms: Option<Duration>,
            services: &'a [ServiceReport],
        }
        let Self { cause, problem, start, stop, services, watch: _ } = self;
        let json = Json {
            cause: *cause,
            exit_code: self.exit_code(),
            problem,
            start_ms: *start,
            stop_ms: Some(*stop),
            services,
        };
        json.serialize(serializer)
    }
}

#[expect(clippy::ref_option, reason = "the form that serde calls")]
fn millis<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)).serialize(serializer)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            StopCause::StartFailed => write!(f, "the application could not start")?,
            cause => write!(f, "the application stopped ({cause})")?,
        }
        writeln!(f, ", in {} ms", self.stop.as_millis())?;
        if let Some(Problem { code, message }) = &self.problem {
            writeln!(f, "  {code}: {message}")?;
        }
        let width = self.services.iter().map(|service| service.service.chars().count()).max().unwrap_or(0);
        for ServiceReport { service, state, starts, start, stop, loads: _, problems } in &self.services {
            write!(f, "  {service:width$}  {state:<14}")?;
            if *starts > 1 {
                write!(f, "  start {starts}:")?;
            }
            for (word, time) in [("started", start), ("stopped", stop)] {
                if let Some(time) = time {
                    write!(f, "  {word} in {} ms", time.as_millis())?;
                }
            }
            writeln!(f)?;
            for Problem { code, message } in problems {
                writeln!(f, "    {code}: {message}")?;
            }
        }
        Ok(())
    }
}
