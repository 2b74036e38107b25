//! A lock that is held, from the grant to the release that proves it.

use super::{LockError, handle::Inner};
use crate::{
    Loss,
    protocol::{self, LeaseView, call, renewer::Renewal},
};
use hapax_core::{
    BootTime, Clock, InvalidDuration, Name, Span, StoreErrorKind, StoreResult, Token, idempotency::Write,
    lock::Fence,
};
use std::{ops::Deref, sync::Arc, time::Duration};
use tokio::sync::watch;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The durations of a hold: those of a reservation whose results nobody keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms(pub(super) protocol::Terms);

impl Terms {
    pub(super) fn new(ttl: Duration) -> Result<Self, String> {
        if ttl < protocol::Terms::MIN_LEASE {
            return Err(format!("the ttl of a lock is at least 1 s, not {ttl:?}"));
        }
        let lease = Span::new(ttl).map_err(|error: InvalidDuration| error.to_string())?;
        Ok(Self(protocol::Terms { lease, ttl: lease, unknown_ttl: lease, wait: None, ceiling: None }))
    }

    pub(super) fn lease(&self) -> Duration {
        self.0.lease.get()
    }

    pub(super) fn span(&self) -> Span {
        self.0.lease
    }

    /// The deadline of one call: far from the end of the lease.
    pub(super) fn call_limit(&self, timeout: Duration) -> Duration {
        timeout.min(self.lease() / 4)
    }
}

/// What the work under a lock may know of it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lock {
    name: Name,
    fence: Fence,
    margin: Duration,
    clock: Arc<dyn Clock>,
    view: watch::Receiver<LeaseView>,
}

impl Lock {
    /// The number of this grant: above all that were given under this name before. Write it along with what the work
    /// writes, and let the place that is written to refuse a smaller one.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Its full name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Until when it is held unless it is renewed: a bound for calls of the work.
    pub fn deadline(&self) -> std::time::Instant {
        let rest = self.view.borrow().deadline.since(self.clock.boot());
        tokio::time::Instant::now().into_std() + rest.min(Duration::from_hours(365 * 24))
    }

    /// Whether it is held at this moment, as far as this process can know: also after a pause in which nobody could
    /// tell it.
    pub fn is_held(&self) -> bool {
        let view = *self.view.borrow();
        // The sender goes with the release.
        let is_open = self.view.has_changed().is_ok();
        is_open && view.lost.is_none() && self.clock.boot() < view.deadline.before(self.margin)
    }

    /// Resolves when the lock is lost, with the cause; never, when it was given back before.
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping it.
    pub async fn lost(&self) -> Loss {
        let mut view = self.view.clone();
        let told = view.wait_for(|view| view.lost.is_some()).await.ok().and_then(|view| view.lost);
        match told {
            Some(cause) => cause,
            None => std::future::pending().await,
        }
    }

    /// For layers that pass the lease on: every new deadline, and the loss.
    pub fn watch(&self) -> watch::Receiver<LeaseView> {
        self.view.clone()
    }

    fn deadline_seen(&self) -> BootTime {
        self.view.borrow().deadline
    }

    fn loss(&self) -> Option<Loss> {
        self.view.borrow().lost
    }
}

/// A lock that is held and renewed until this is released or dropped. A drop gives it back in the background, and proves
/// nothing.
#[must_use = "the lock is given back when this is dropped"]
#[derive(Debug)]
pub struct LockGuard {
    inner: Arc<Inner>,
    lock: Lock,
    token: Token,
    terms: Terms,
    renewal: Option<Renewal>,
    is_over: bool,
}

impl Deref for LockGuard {
    type Target = Lock;

    fn deref(&self) -> &Lock {
        &self.lock
    }
}

impl LockGuard {
    pub(super) fn new(
        inner: &Arc<Inner>,
        (name, token): (&Name, Token),
        fence: Fence,
        terms: Terms,
        asked: BootTime,
    ) -> StoreResult<Self> {
        let (renewal, view) =
            inner.open()?.renewer.keep(&inner.runner, (name.clone(), token), terms.0, asked);
        let (clock, margin) = (Arc::clone(&inner.clock), terms.0.margin());
        let lock = Lock { name: name.clone(), fence, margin, clock, view };
        let inner = Arc::clone(inner);
        Ok(Self { inner, lock, token, terms, renewal: Some(renewal), is_over: false })
    }

    /// What the work may know. It can be cloned and moved into it.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Whether half the lease is left, if need be after one extension.
    pub(super) async fn is_fresh(&self) -> bool {
        if self.has_half() {
            return true;
        }
        if let (Some(renewal), Ok(open)) = (&self.renewal, self.inner.open()) {
            open.renewer.extend_now(renewal, self.terms.call_limit(self.inner.timeout)).await;
        }
        self.has_half()
    }

    fn has_half(&self) -> bool {
        let rest = self.lock.deadline_seen().since(self.inner.clock.boot());
        self.lock.loss().is_none() && rest >= self.terms.lease() / 2
    }

    /// Gives the lock back. `Ok` proves that it was held until then.
    ///
    /// # Errors
    /// `lock.lost`: it was not, or nobody can say because the store could not be asked before the lease was over.
    ///
    /// # Cancel safety
    /// Once called, the lock is given back whether or not the future is polled to its end.
    pub async fn release(mut self) -> Result<(), LockError> {
        let deadline = self.lock.deadline_seen();
        let loss = self.lock.loss();
        if let Some(renewal) = &self.renewal {
            renewal.effect_ended();
        }
        // A token is never used again once its release is under way.
        self.renewal = None;
        let fence = self.lock.fence;
        let lost = |cause| Err(LockError::Lost { value: None, fence, cause });
        let mut pause = FIRST_PAUSE;
        loop {
            let limit = self.terms.call_limit(self.inner.timeout);
            let answer = match self.inner.open() {
                Ok(open) => {
                    let step = open.store.release(&self.lock.name, &self.token);
                    call::one(limit, "release a lock", step).await
                }
                Err(error) => Err(error),
            };
            match answer {
                Ok(Write::Applied) => {
                    self.is_over = true;
                    return Ok(());
                }
                Ok(Write::Fenced) => {
                    self.is_over = true;
                    return lost(loss.unwrap_or(Loss::Fenced));
                }
                Err(error) => {
                    tracing::debug!(lock = ?self.lock.name, %error, "a lock could not be given back yet");
                    let passes =
                        matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Timeout);
                    if !passes || self.inner.clock.boot().after(pause) >= deadline {
                        // The drop goes on in the background.
                        return lost(loss.unwrap_or(Loss::Expired));
                    }
                }
            }
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if !self.is_over {
            self.renewal = None;
            self.inner.release_later(self.lock.name.clone(), self.token, self.terms.lease());
        }
    }
}
