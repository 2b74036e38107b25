//! What a case of locks gets.

use super::Subject;
use crate::{
    fixture::{Stop, Verdict, failed, holds},
    requests::{LEASE, ms, name_in, span},
    shown::Shown,
};
use hapax_core::{
    BoxError, Name, Timestamp, Token,
    lock::{Acquire, Acquired, Extended, Grant, Holder, LockStore},
};
use std::{sync::Arc, time::Duration};

/// Two clients of one store without locks.
#[derive(Clone)]
pub(crate) struct Door {
    subject: Arc<dyn Subject>,
    pub(crate) a: Arc<dyn LockStore>,
    pub(crate) b: Arc<dyn LockStore>,
}

/// The lock of a key.
pub(crate) fn lock(key: &str) -> Name {
    name_in("suite", hapax_core::lock::SCOPE, key)
}

/// Asks for the lock `key`, for [`LEASE`].
pub(crate) fn acquire(key: &str, token: Token) -> Acquire {
    Acquire { name: lock(key), token, lease: span(LEASE), holder: Holder::new("suite") }
}

impl Door {
    pub(crate) async fn new(subject: Arc<dyn Subject>) -> Result<Self, BoxError> {
        let (a, b) = (subject.client().await?, subject.client().await?);
        Ok(Self { subject, a, b })
    }

    pub(crate) async fn elapse(&self, by: Duration) {
        self.subject.elapse(by).await;
    }

    pub(crate) fn exact(&self) -> bool {
        self.subject.exact_time()
    }

    pub(crate) fn is_slow(&self) -> bool {
        self.subject.is_slow()
    }

    pub(crate) fn tolerance(&self) -> Duration {
        if self.exact() { Duration::ZERO } else { Duration::from_secs(10) }
    }

    /// Until when, within `span`, the suite may ask what is still there, and the rest of it.
    pub(crate) fn split(&self, span: Duration) -> (Duration, Duration) {
        let rest = self.tolerance().max(ms(1));
        (span.saturating_sub(rest), rest)
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

    /// A store that knows nothing any more.
    pub(crate) async fn forgetful(self) -> Result<Self, Stop> {
        if !self.subject.lose_everything().await? {
            return Err(Stop::Skipped("cannot be made to lose what it knows"));
        }
        Ok(Self::new(self.subject).await?)
    }

    /// A grant that must be given.
    #[track_caller]
    pub(crate) fn takes(
        &self,
        key: &str,
        token: Token,
    ) -> impl Future<Output = Result<Grant, Stop>> + Send + use<> {
        let (store, req) = (Arc::clone(&self.a), acquire(key, token));
        let at = std::panic::Location::caller();
        async move {
            match store.acquire(&req).await? {
                Acquired::Yours(grant) => Ok(grant),
                Acquired::Busy { rest } => Err(failed(format!("{at}: busy for {rest:?}"))),
            }
        }
    }

    /// Checks that another holds the lock, and for how long.
    pub(crate) async fn is_busy(&self, req: &Acquire, rest: Duration) -> Verdict {
        match self.b.acquire(req).await? {
            Acquired::Busy { rest: got } => {
                let off = got.abs_diff(rest);
                holds(off <= self.tolerance(), || format!("busy for {got:?}, {off:?} off {rest:?}"))
            }
            Acquired::Yours(grant) => Err(failed(format!("expected busy, got {grant:?}"))),
        }
    }

    /// Checks an instant.
    #[track_caller]
    pub(crate) fn instant(&self, what: &str, got: Timestamp, want: Timestamp) -> Verdict {
        let off = got.since(want).max(want.since(got));
        holds(off <= self.tolerance(), || format!("{what} is {got:?}, {off:?} off {want:?}"))
    }
}

/// The end of a lease that must have been extended.
#[track_caller]
pub(crate) fn until(answer: Extended) -> Result<Timestamp, Stop> {
    match answer {
        Extended::Until(until) => Ok(until),
        Extended::Fenced => Err(failed("a holder's extend is fenced")),
    }
}

impl Shown for Acquired {
    fn shown(&self) -> String {
        match self {
            Self::Yours(_) => "yours".into(),
            Self::Busy { .. } => "busy".into(),
        }
    }
}
