//! The handle: a store's limits, as this process asks them.

use super::{
    Ask, Decision, IntoLimits, Limit, LimitError, Require, WhenDown,
    ask::{Limits, Settings},
    decision::{Policies, PolicyDecision},
    down,
};
use crate::protocol::call;
use hapax_core::{
    Backend, Clock, InvalidKey, Namespace, StoreError, StoreErrorKind, StoreResult, SystemClock,
    limit::{Check, Decide, LimitStore, MOST},
    memory::MemoryLimits,
};
use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::time::Instant;

/// A clock that a test moves wakes nobody.
const MANUAL_PAUSE: Duration = Duration::from_millis(5);

/// The rate limits of one store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RateLimiter {
    inner: Arc<Inner>,
    namespace: Result<Namespace, InvalidKey>,
    when_down: Option<WhenDown>,
}

#[derive(Debug)]
struct Inner {
    store: Option<Arc<dyn LimitStore>>,
    backend: &'static str,
    clock: Arc<dyn Clock>,
    timeout: Duration,
    /// Counts while the store cannot.
    local: OnceLock<MemoryLimits>,
}

impl RateLimiter {
    /// Over a store of your own, on the machine's clock.
    pub fn new(store: Arc<dyn LimitStore>) -> Self {
        Self::with(Some(store), "hapax", Arc::new(SystemClock), Duration::from_secs(5))
    }

    /// Over the limits of a backend, on its clock. Where it has none, calls answer `store.unsupported`.
    pub fn of(backend: &Backend, timeout: Duration) -> Self {
        Self::with(backend.limits.clone(), backend.name, Arc::clone(&backend.clock), timeout)
    }

    fn with(
        store: Option<Arc<dyn LimitStore>>,
        backend: &'static str,
        clock: Arc<dyn Clock>,
        timeout: Duration,
    ) -> Self {
        let inner = Inner { store, backend, clock, timeout, local: OnceLock::new() };
        Self { inner: Arc::new(inner), namespace: Ok(Namespace::default()), when_down: None }
    }

    /// The limits of another namespace. A name that cannot be used is reported by the first call.
    #[must_use]
    pub fn with_namespace(&self, namespace: Result<Namespace, InvalidKey>) -> Self {
        Self { namespace, ..self.clone() }
    }

    /// What is answered when the store cannot be reached; without it, calls end with `limit.store_failed`.
    #[must_use]
    pub fn when_down(&self, answer: WhenDown) -> Self {
        Self { when_down: Some(answer), ..self.clone() }
    }

    /// Whether a request may pass. A refusal is an answer; [`require`](Self::require) makes it an error.
    pub fn check<'a>(&'a self, limit: impl Into<Cow<'a, Limit>>) -> Ask<'a> {
        Ask::new(self, Limits::One(limit.into()))
    }

    /// Whether a request may pass all of these limits, in one decision: it counts for all of them, or for none.
    pub fn check_all(&self, limits: impl IntoLimits) -> Ask<'_> {
        Ask::new(self, Limits::Several(limits.into_limits()))
    }

    /// Lets a request pass; a refusal is the error `limit.limited`.
    pub fn require<'a>(&'a self, limit: impl Into<Cow<'a, Limit>>) -> Require<'a> {
        Require(self.check(limit))
    }

    /// Lets a request pass all of these limits, in one decision.
    pub fn require_all(&self, limits: impl IntoLimits) -> Require<'_> {
        Require(self.check_all(limits))
    }

    /// Forgets what was counted under the name of a limit, whatever the quota.
    pub async fn reset(&self, limit: &Limit) -> Result<(), LimitError> {
        let (namespace, key) = (self.namespace()?, limit.key()?);
        let store = self.store().map_err(LimitError::store_failed)?;
        let step = store.reset(namespace, key);
        call::one(self.inner.timeout, "reset a limit", step).await.map_err(LimitError::store_failed)
    }

    /// The store itself, for layers and tools.
    ///
    /// # Errors
    /// `store.unsupported` where the backend has no limits.
    pub fn store(&self) -> StoreResult<&Arc<dyn LimitStore>> {
        self.inner.store.as_ref().ok_or_else(|| {
            let (kind, backend) = (StoreErrorKind::Unsupported, self.inner.backend);
            StoreError::new(kind, backend, "use a limit", "it has no rate limits")
        })
    }

    fn namespace(&self) -> Result<&Namespace, LimitError> {
        self.namespace.as_ref().map_err(|error| LimitError::invalid(error.to_string()))
    }

    /// The answer, where the store can give it without waiting; the limit, where it cannot.
    pub(super) fn now<'a>(
        &self,
        limit: Cow<'a, Limit>,
        settings: &Settings,
    ) -> Result<Result<Decision, LimitError>, Cow<'a, Limit>> {
        let (Some(store), Ok(namespace), None) = (&self.inner.store, &self.namespace, settings.wait) else {
            return Err(limit);
        };
        let check = match limit.check(settings) {
            Ok(check) => check,
            Err(error) => return Ok(Err(error)),
        };
        match store.decide_now(namespace, &check, settings.dry_run) {
            Some(Ok(answer)) => {
                let (quota, shadow) = (check.quota, check.shadow);
                drop(check);
                let policy = policy(limit);
                let policies = Policies::One(PolicyDecision { policy, quota, answer, shadow });
                Ok(Ok(Decision::new(policies, settings.dry_run, false, None)))
            }
            // Somebody has to answer in its place, or it cannot say at once.
            Some(Err(_)) | None => {
                drop(check);
                Err(limit)
            }
        }
    }

    pub(super) async fn decide(
        &self,
        limits: Vec<Limit>,
        settings: Settings,
    ) -> Result<Decision, LimitError> {
        let (names, req) = self.request(limits, settings)?;
        let until = settings.wait.map(call::from_now);
        loop {
            let decision = self.decide_once(&names, &req, settings).await?;
            let Some(until) = until.filter(|_| !decision.allowed() && !decision.never()) else {
                return Ok(decision);
            };
            let wait = decision.retry_after().max(Duration::from_millis(1));
            // Who cannot be let through in time need not wait at all.
            if self.inner.clock.is_manual() {
                if Instant::now() >= until {
                    return Ok(decision);
                }
                tokio::time::sleep(MANUAL_PAUSE).await;
            } else if Instant::now().checked_add(wait).is_none_or(|at| at > until) {
                return Ok(decision);
            } else {
                tokio::time::sleep(wait).await;
            }
        }
    }

    fn request(
        &self,
        limits: Vec<Limit>,
        settings: Settings,
    ) -> Result<(Vec<Cow<'static, str>>, Decide), LimitError> {
        if limits.is_empty() || limits.len() > MOST {
            let what = format!("a decision is over 1 to {MOST} limits, not {}", limits.len());
            return Err(LimitError::invalid(what));
        }
        let (mut names, mut checks) = (Vec::with_capacity(limits.len()), Vec::<Check>::new());
        for limit in limits {
            let check = limit.check(&settings)?.into_owned();
            let name = policy(Cow::Owned(limit));
            let is_same = |held: &Check| {
                held.key == check.key
                    && held.shadow == check.shadow
                    && held.quota.algorithm() == check.quota.algorithm()
            };
            if checks.iter().any(is_same) {
                let what = format!("the limit {name} stands twice in one decision: say its cost");
                return Err(LimitError::invalid(what));
            }
            names.push(name);
            checks.push(check);
        }
        let namespace = self.namespace()?.clone();
        Ok((names, Decide { namespace, checks, dry_run: settings.dry_run }))
    }

    async fn decide_once(
        &self,
        names: &[Cow<'static, str>],
        req: &Decide,
        settings: Settings,
    ) -> Result<Decision, LimitError> {
        let decided = match self.store() {
            Ok(store) => call::one(self.inner.timeout, "decide on a limit", store.decide(req)).await,
            Err(error) => Err(error),
        };
        let (answers, best_effort, degraded) = match decided {
            Ok(decided) => (decided.answers, decided.best_effort, None),
            Err(error) => {
                let passes = !matches!(error.kind(), StoreErrorKind::Unsupported | StoreErrorKind::Config);
                let Some(down) = settings.when_down.or(self.when_down).filter(|_| passes) else {
                    return Err(LimitError::store_failed(error));
                };
                tracing::warn!(code = "limit.degraded", %error, ?down, "a limit is answered without its store");
                let local = self.inner.local.get_or_init(|| MemoryLimits::new(Arc::clone(&self.inner.clock)));
                let (answers, degraded) = down::answers(down, local, req).await;
                (answers, false, Some(degraded))
            }
        };
        if answers.len() != req.checks.len() {
            return Err(LimitError::store_failed(call::missing("decide on a limit")));
        }
        let policies = down::policies(names.iter().cloned(), &req.checks, answers);
        Ok(Decision::new(policies, req.dry_run, best_effort, degraded))
    }
}

fn policy(limit: Cow<'_, Limit>) -> Cow<'static, str> {
    match limit {
        Cow::Borrowed(limit) => limit.policy_text().clone(),
        Cow::Owned(limit) => limit.into_policy(),
    }
}
