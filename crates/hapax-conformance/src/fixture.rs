//! What a case gets, and how it ends.

use crate::{
    harness::{Client, Subject},
    requests::{name_in, reserve, token},
    shown::Shown,
};
use hapax_core::{BoxError, Timestamp, idempotency::Reserved};
use std::{
    fmt::{Debug, Display},
    panic::Location,
    sync::Arc,
    time::Duration,
};

/// Two clients of one empty store.
#[derive(Clone)]
pub(crate) struct Fixture {
    subject: Arc<dyn Subject>,
    pub(crate) a: Client,
    pub(crate) b: Client,
}

impl Fixture {
    pub(crate) async fn new(subject: Arc<dyn Subject>) -> Result<Self, BoxError> {
        let (a, b) = (subject.client().await?, subject.client().await?);
        Ok(Self { subject, a, b })
    }

    pub(crate) async fn elapse(&self, by: Duration) {
        self.subject.elapse(by).await;
    }

    /// A closed and reopened store, with new clients.
    pub(crate) async fn reopened(self) -> Result<Self, Stop> {
        let Self { subject, a, b } = self;
        drop((a, b));
        if !subject.reopen().await? {
            return Err(Stop::Skipped("keeps nothing beyond its process"));
        }
        Ok(Self::new(subject).await?)
    }

    pub(crate) fn exact(&self) -> bool {
        self.subject.exact_time()
    }

    pub(crate) fn is_slow(&self) -> bool {
        self.subject.is_slow()
    }

    /// How far an instant may be from the expected one.
    pub(crate) fn tolerance(&self) -> Duration {
        if self.exact() { Duration::ZERO } else { Duration::from_secs(10) }
    }

    /// Until when, within `span`, the suite may ask what is still there, and the rest of it.
    pub(crate) fn split(&self, span: Duration) -> (Duration, Duration) {
        let rest = self.tolerance().max(Duration::from_millis(1));
        (span.saturating_sub(rest), rest)
    }

    /// What the store's clock shows, from the end of a reservation that is made for it and freed again.
    pub(crate) async fn now(&self) -> Result<Timestamp, Stop> {
        let probe = reserve(&name_in("probe of time", "probe", "probe"), token('P'));
        let Reserved::Yours { until, .. } = self.a.reserve(&probe).await? else {
            return Err(failed("the probe of the store's time is held"));
        };
        says(&self.a.release(&probe.name, &probe.token).await?, "applied")?;
        let lease = i64::try_from(probe.lease.as_millis())?;
        Ok(Timestamp::from_millis(until.as_millis() - lease))
    }

    /// Checks an instant.
    #[track_caller]
    pub(crate) fn instant(&self, what: &str, got: Timestamp, want: Timestamp) -> Verdict {
        let off = got.since(want).max(want.since(got));
        holds(off <= self.tolerance(), || format!("{what} is {got:?}, {off:?} off {want:?}"))
    }
}

/// Why a case ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    Failed(String),
    Skipped(&'static str),
}

pub(crate) type Verdict = Result<(), Stop>;

// So that `?` takes any error, with the place where it stands.
impl<E: Into<BoxError>> From<E> for Stop {
    #[track_caller]
    fn from(error: E) -> Self {
        let error: BoxError = error.into();
        failed(format!("an error: {error}"))
    }
}

#[track_caller]
pub(crate) fn failed(what: impl Display) -> Stop {
    Stop::Failed(format!("{}: {what}", Location::caller()))
}

/// Checks that an answer says what it should, in the words of [`Shown`].
#[track_caller]
pub(crate) fn says(answer: &impl Shown, expected: &str) -> Verdict {
    let shown = answer.shown();
    holds(shown == expected, || format!("expected {expected:?}, the store says {shown:?}"))
}

/// Checks that two values are the same.
#[track_caller]
pub(crate) fn same<T: PartialEq + Debug + ?Sized>(what: &str, got: &T, want: &T) -> Verdict {
    holds(got == want, || format!("{what}: expected {want:?}, got {got:?}"))
}

/// Checks a condition.
#[track_caller]
pub(crate) fn holds(condition: bool, otherwise: impl FnOnce() -> String) -> Verdict {
    if condition { Ok(()) } else { Err(failed(otherwise())) }
}
