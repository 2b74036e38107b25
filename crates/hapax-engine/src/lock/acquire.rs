//! Asks for a lock, and waits for it.

use super::{LockError, LockGuard, Locks, handle::Inner, hold::Terms};
use crate::protocol::call;
use hapax_core::{
    Applied, BootTime, Name, StoreError, StoreErrorKind, StoreResult, Token,
    lock::{Acquire, Acquired},
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep_until, timeout_at};

/// A waiter asks again after a pause of up to this, which doubles up to the next.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// A store that says again and again so soon that the lock may be free has no way to tell.
const TOO_SOON: Duration = Duration::from_millis(1);

/// One logical acquire: under one token, whatever is sent again.
struct Asking<'a> {
    inner: &'a Arc<Inner>,
    request: Acquire,
    terms: Terms,
    /// When the first request was sent that may have been granted.
    asked: Option<BootTime>,
    /// Whether something may have been granted: a drop gives it back.
    is_open: bool,
    /// Whether the last hint came too soon.
    hasty: bool,
}

pub(super) async fn acquire(
    locks: &Locks,
    name: &Name,
    terms: Terms,
    wait: Option<Duration>,
) -> Result<LockGuard, LockError> {
    let token = Token::random().map_err(LockError::store_failed)?;
    let request = Acquire { name: name.clone(), token, lease: terms.span(), holder: locks.holder().clone() };
    let mut asking =
        Asking { inner: &locks.inner, request, terms, asked: None, is_open: false, hasty: false };
    let until = call::from_now(wait.unwrap_or_default());
    let mut most = FIRST_PAUSE;
    loop {
        let rest = match asking.ask().await? {
            Answer::Mine(guard) => return asking.checked(guard).await,
            Answer::Busy(rest) => rest,
        };
        let now = Instant::now();
        if now >= until {
            tracing::debug!(lock = ?name, code = "lock.busy", "a lock is held by another");
            return Err(LockError::Busy { retry_after: rest });
        }
        // Not beyond the end of the lease that is seen: its holder may never tell that it is free.
        let pause = jitter(most).max(TOO_SOON).min(rest + jitter(FIRST_PAUSE));
        let wake = (now + pause).min(until);
        if !asking.is_told(wake).await {
            most = (most * 2).min(LONGEST_PAUSE);
        }
    }
}

enum Answer {
    Mine(LockGuard),
    Busy(Duration),
}

impl Asking<'_> {
    /// One request; one more where its reply was lost.
    async fn ask(&mut self) -> Result<Answer, LockError> {
        let mut answer = self.send().await;
        if answer.as_ref().is_err_and(may_be_granted) {
            answer = self.send().await;
        }
        match answer {
            Ok(Acquired::Yours(grant)) => {
                let asked = self.asked.unwrap_or_else(|| self.inner.clock.boot());
                let name = (&self.request.name, self.request.token);
                let guard = LockGuard::new(self.inner, name, grant.fence, self.terms, asked)
                    .map_err(LockError::store_failed)?;
                self.is_open = false;
                Ok(Answer::Mine(guard))
            }
            Ok(Acquired::Busy { rest }) => {
                // Nothing of before was granted.
                (self.is_open, self.asked) = (false, None);
                Ok(Answer::Busy(rest))
            }
            Err(error) => {
                tracing::warn!(lock = ?self.request.name, code = "lock.store_failed", %error, "a lock was not given");
                Err(LockError::store_failed(error))
            }
        }
    }

    async fn send(&mut self) -> StoreResult<Acquired> {
        let store = &self.inner.open()?.store;
        let was_open = std::mem::replace(&mut self.is_open, true);
        self.asked.get_or_insert_with(|| self.inner.clock.boot());
        let limit = self.terms.call_limit(self.inner.timeout);
        let answer = call::one(limit, "acquire a lock", store.acquire(&self.request)).await;
        if answer.as_ref().is_err_and(|error| error.applied() == Applied::No) && !was_open {
            (self.is_open, self.asked) = (false, None);
        }
        answer
    }

    /// A grant that came too late is none.
    async fn checked(&self, guard: LockGuard) -> Result<LockGuard, LockError> {
        if guard.is_fresh().await {
            return Ok(guard);
        }
        drop(guard);
        let reason = "the lock was granted too late: less than half its lease was left";
        Err(LockError::store_failed(StoreError::new(
            StoreErrorKind::Timeout,
            "hapax",
            "acquire a lock",
            reason,
        )))
    }

    /// Returns when the lock may be free, at `wake` at the latest; whether the store said so.
    async fn is_told(&mut self, wake: Instant) -> bool {
        let started = Instant::now();
        let hint = async {
            match self.inner.open() {
                Ok(open) => open.store.wait(&self.request.name, wake - started).await.is_ok(),
                Err(_) => false,
            }
        };
        let told = timeout_at(wake, hint).await.unwrap_or_default();
        let was_hasty = std::mem::replace(&mut self.hasty, told && started.elapsed() < TOO_SOON);
        if told && Instant::now() < wake && !(was_hasty && self.hasty) {
            return true;
        }
        sleep_until(wake).await;
        false
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if self.is_open {
            let (name, lease) = (self.request.name.clone(), self.terms.lease());
            self.inner.release_later(name, self.request.token, lease);
        }
    }
}

fn may_be_granted(error: &StoreError) -> bool {
    error.applied() == Applied::Unknown
        && matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Timeout)
}

fn jitter(most: Duration) -> Duration {
    most.mul_f64(fastrand::f64())
}
