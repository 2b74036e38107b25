//! Why a service is not there.

use hapax_core::{BoxError, Category, CodeInfo, Coded, Retry};
use std::{any::Any, collections::VecDeque, error::Error, fmt, sync::Arc};

type SharedError = Arc<dyn Error + Send + Sync>;

/// What kept a service from being there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceErrorKind {
    /// Its factory returned an error: `service.start_failed`.
    Failed,
    /// Its factory panicked: `service.panicked`.
    Panicked,
    /// Its factory took longer than it may: `service.start_timeout`.
    TimedOut,
    /// It would have to be there before it starts: `service.cycle`.
    Cycle,
    /// The application is stopping: `service.stopping`.
    Stopping,
    /// It, or the application, is not described as it must be: `service.invalid`.
    Invalid,
}

/// A service could not be loaded.
///
/// | code | category | when |
/// |---|---|---|
/// | `service.start_failed` | unavailable | its factory returned an error |
/// | `service.panicked` | unavailable | its factory panicked |
/// | `service.start_timeout` | unavailable | it did not start within its time |
/// | `service.cycle` | validation | it, or what it loads, loads the service that asks for it |
/// | `service.stopping` | unavailable | the application stops: nothing is started any more |
/// | `service.invalid` | validation | a name, a duration or the list of services cannot be used |
///
/// It can be cloned, because everybody who waited for the same start gets the same one.
#[derive(Clone)]
pub struct ServiceError(Arc<Failure>);

struct Failure {
    kind: ServiceErrorKind,
    path: Vec<&'static str>,
    source: Option<SharedError>,
}

impl ServiceError {
    pub(crate) fn new(kind: ServiceErrorKind, path: Vec<&'static str>) -> Self {
        Self(Arc::new(Failure { kind, path, source: None }))
    }

    pub(crate) fn because(
        kind: ServiceErrorKind,
        service: &'static str,
        source: impl Into<BoxError>,
    ) -> Self {
        Self(Arc::new(Failure { kind, path: vec![service], source: Some(Arc::from(source.into())) }))
    }

    /// Of a factory that returned `error`, having been refused these services before. Where the error only passes one of
    /// those on, this is the same failure with a longer path, whichever error type carried it.
    pub(crate) fn of_factory(service: &'static str, error: BoxError, refused: &VecDeque<Self>) -> Self {
        let chain = std::iter::successors(Some(&*error as &(dyn Error + 'static)), |error| (*error).source());
        let found = chain.enumerate().find_map(|(depth, error)| {
            // By its text, too: some error types hide the type of what they carry.
            let text = error.to_string();
            let passed = error.downcast_ref::<Self>();
            let passed = passed.or_else(|| refused.iter().find(|refused| refused.to_string() == text));
            passed.map(|passed| (depth, passed.clone()))
        });
        let Some((depth, passed)) = found else {
            return Self::because(ServiceErrorKind::Failed, service, error);
        };
        let mut path = passed.0.path.clone();
        // A cycle is a path of its own, and comes back to where it began.
        if passed.0.kind != ServiceErrorKind::Cycle {
            path.insert(0, service);
        }
        // With words of its own around it, nothing of them is lost.
        let source = if depth == 0 { passed.0.source.clone() } else { Some(Arc::from(error)) };
        Self(Arc::new(Failure { kind: passed.0.kind, path, source }))
    }

    /// What kind of failure.
    pub fn kind(&self) -> ServiceErrorKind {
        self.0.kind
    }

    /// The service that failed, which may be one that the loaded service loads.
    pub fn service(&self) -> &'static str {
        self.0.path.last().copied().unwrap_or_default()
    }

    /// From the service that was loaded to the one that failed. Of a cycle, the way around: its first and last are the same.
    pub fn path(&self) -> &[&'static str] {
        &self.0.path
    }
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let service = self.service();
        match self.0.kind {
            ServiceErrorKind::Failed => write!(f, "service `{service}` could not start")?,
            ServiceErrorKind::Panicked => write!(f, "service `{service}` panicked while it started")?,
            ServiceErrorKind::TimedOut => write!(f, "service `{service}` did not start within its time")?,
            ServiceErrorKind::Cycle => {
                return write!(f, "services load each other: {}", self.0.path.join(" -> "));
            }
            ServiceErrorKind::Stopping => {
                write!(f, "service `{service}` is not there: the application stops")?;
            }
            ServiceErrorKind::Invalid => write!(f, "service `{service}` is not described as it must be")?,
        }
        if self.0.path.len() > 1 {
            write!(f, " ({})", self.0.path.join(" -> "))?;
        }
        Ok(())
    }
}

impl fmt::Debug for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { kind, path, source } = &*self.0;
        let mut debug = f.debug_struct("ServiceError");
        debug.field("kind", kind).field("path", path).field("source", source).finish()
    }
}

impl Error for ServiceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|error| error as _)
    }
}

impl Coded for ServiceError {
    fn code(&self) -> &'static str {
        match self.0.kind {
            ServiceErrorKind::Failed => "service.start_failed",
            ServiceErrorKind::Panicked => "service.panicked",
            ServiceErrorKind::TimedOut => "service.start_timeout",
            ServiceErrorKind::Cycle => "service.cycle",
            ServiceErrorKind::Stopping => "service.stopping",
            ServiceErrorKind::Invalid => "service.invalid",
        }
    }

    fn category(&self) -> Category {
        match self.0.kind {
            ServiceErrorKind::Cycle | ServiceErrorKind::Invalid => Category::Validation,
            _ => Category::Unavailable,
        }
    }

    /// Never: a failed start is kept. [`Ctx::retry_start`](crate::Ctx::retry_start) is another call.
    fn retry(&self) -> Retry {
        Retry::Never
    }
}

/// A panic, as an error: its message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Panic(String);

impl Panic {
    pub(crate) fn of(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&'static str>().copied());
        Self(text.unwrap_or("a panic without a message").to_owned())
    }
}

/// An error and what caused it, in one line.
pub(crate) fn in_full(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // Some errors say in their own text what their cause says.
        if !line.ends_with(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        cause = error.source();
    }
    line
}

/// The codes of services, those of their stop included.
pub const CODES: &[CodeInfo] = &[
    CodeInfo::new(
        "service.start_failed",
        "unavailable",
        false,
        "a service could not start; what had started was stopped",
        "the message names the services on the way to it, and the cause",
    ),
    CodeInfo::new(
        "service.start_timeout",
        "unavailable",
        false,
        "a service did not start within its time",
        "raise `start_within`, or look at what it waits for",
    ),
    CodeInfo::new(
        "service.panicked",
        "unavailable",
        false,
        "the factory or a stop hook of a service panicked; the others were stopped in order",
        "the message is that of the panic",
    ),
    CodeInfo::new(
        "service.cycle",
        "validation",
        false,
        "services load each other, so that none of them can be first",
        "the message shows the way around: take one of its steps out",
    ),
    CodeInfo::new(
        "service.stopping",
        "unavailable",
        false,
        "a service was asked for while the application stops",
        "nothing: nothing is started any more",
    ),
    CodeInfo::new(
        "service.invalid",
        "validation",
        false,
        "a name, a duration or the list of services cannot be used; nothing was started",
        "the message names the part",
    ),
    CodeInfo::new(
        "service.stop_failed",
        "unavailable",
        false,
        "a stop hook of a service returned an error; the others were stopped in order",
        "the message is that of the hook",
    ),
    CodeInfo::new(
        "service.stop_timeout",
        "unavailable",
        false,
        "a service had not stopped when its time, or that of the application, was up",
        "raise `stop_within`, or look at what the service waits for",
    ),
];
