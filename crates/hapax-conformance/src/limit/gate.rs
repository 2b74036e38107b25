//! What a case of limits gets.

use super::Subject;
use crate::fixture::{Stop, Verdict, failed, holds, same};
use hapax_core::{
    BoxError, Namespace,
    limit::{Algorithm, Answer, Check, Decide, LimitKey, LimitStore, Quota},
};
use std::{sync::Arc, time::Duration};

/// The window of every quota, unless a case says otherwise. No case takes so long, however slow its store is.
pub(crate) const WINDOW: Duration = Duration::from_hours(1);

/// Two clients of one store that has counted nothing.
#[derive(Clone)]
pub(crate) struct Gate {
    subject: Arc<dyn Subject>,
    pub(crate) a: Arc<dyn LimitStore>,
    pub(crate) b: Arc<dyn LimitStore>,
}

#[expect(clippy::expect_used, reason = "the suite's own texts are valid names")]
pub(crate) fn namespace() -> Namespace {
    Namespace::new("suite").expect("a namespace")
}

#[expect(clippy::expect_used, reason = "the suite's own texts are valid names")]
pub(crate) fn key(text: &str) -> LimitKey {
    LimitKey::new(text).expect("a key")
}

#[expect(clippy::expect_used, reason = "the suite's own quotas are valid")]
pub(crate) fn quota(algorithm: Algorithm, limit: u32, window: Duration) -> Quota {
    Quota::new(algorithm, limit, window).expect("a quota")
}

/// A request of cost 1.
pub(crate) fn check(text: &str, quota: Quota) -> Check {
    Check::new(key(text), quota)
}

pub(crate) fn decide(checks: &[Check]) -> Decide {
    Decide { namespace: namespace(), checks: checks.to_vec(), dry_run: false }
}

impl Gate {
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

    /// Ends the case where the store decides over fewer limits at once.
    pub(crate) fn needs(&self, limits: usize) -> Verdict {
        if self.subject.most() >= limits {
            Ok(())
        } else {
            Err(Stop::Skipped("decides over one limit at a time"))
        }
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

    /// The answer of one limit, by the one client and then by the other.
    pub(crate) async fn ask(&self, check: &Check) -> Result<Answer, Stop> {
        one(&*self.a, check, false).await
    }

    /// What the other client would be answered.
    pub(crate) async fn dry(&self, check: &Check) -> Result<Answer, Stop> {
        one(&*self.b, check, true).await
    }

    /// Checks that so many requests pass, and then none.
    pub(crate) async fn lets_through(&self, check: &Check, count: u32) -> Verdict {
        for n in 0..count {
            let client = if n % 2 == 0 { &self.a } else { &self.b };
            let answer = one(&**client, check, false).await?;
            holds(answer.allowed, || format!("{n} of {count}: {answer:?}"))?;
            same("how many are left", &answer.remaining, &(count - n - 1))?;
        }
        let refused = self.ask(check).await?;
        holds(!refused.allowed && refused.remaining == 0, || format!("{refused:?}"))
    }

    /// Checks a time of an answer.
    #[track_caller]
    pub(crate) fn time(&self, what: &str, got: u64, want: Duration) -> Verdict {
        let off = Duration::from_millis(got).abs_diff(want);
        holds(off <= self.tolerance(), || format!("{what} is {got} ms, {off:?} off {want:?}"))
    }
}

async fn one(store: &dyn LimitStore, check: &Check, dry_run: bool) -> Result<Answer, Stop> {
    let req = Decide { dry_run, ..decide(std::slice::from_ref(check)) };
    let answers = store.decide(&req).await?.answers;
    match &answers[..] {
        [answer] => Ok(*answer),
        all => Err(failed(format!("{} answers to one check", all.len()))),
    }
}
