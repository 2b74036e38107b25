//! A client of locks for a store whose time is moved by bringing the ends of leases nearer.

use crate::Faults;
use async_trait::async_trait;
use hapax_core::{
    Name, Span, StoreError, StoreErrorKind, StoreResult, Timestamp, Token,
    lock::{
        Acquire, Acquired, Extended, Fence, Grant, HolderInfo, ListLocks, LockInfo, LockPage, LockStore,
        Write,
    },
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A client of locks whose instants are those of a clock that was moved on by what the suite let pass, and whose calls,
/// where there is a proxy, meet faults and are repeated.
#[derive(Debug)]
pub struct LaterLocks {
    inner: Arc<dyn LockStore>,
    passed: Arc<AtomicU64>,
    faults: Option<Box<dyn Faults>>,
}

fn may_pass(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Timeout)
}

impl LaterLocks {
    /// A client, and the milliseconds that were let pass.
    pub fn new(inner: Arc<dyn LockStore>, passed: Arc<AtomicU64>) -> Self {
        Self { inner, passed, faults: None }
    }

    /// Puts faults on its steps.
    #[must_use]
    pub fn met_by(self, faults: impl Faults) -> Self {
        Self { faults: Some(Box::new(faults)), ..self }
    }

    fn at(&self, instant: Timestamp) -> Timestamp {
        instant.after(Duration::from_millis(self.passed.load(Ordering::SeqCst)))
    }

    fn info(&self, info: HolderInfo) -> HolderInfo {
        HolderInfo { since: self.at(info.since), until: self.at(info.until), ..info }
    }

    fn end(&self, extended: Extended) -> Extended {
        match extended {
            Extended::Until(until) => Extended::Until(self.at(until)),
            Extended::Fenced => Extended::Fenced,
        }
    }

    async fn call<T, F: Future<Output = StoreResult<T>>>(&self, call: impl Fn() -> F) -> StoreResult<T> {
        let Some(faults) = &self.faults else { return call().await };
        faults.arm();
        let mut answer = call().await;
        faults.disarm();
        for _ in 0..3 {
            if !answer.as_ref().is_err_and(may_pass) {
                break;
            }
            answer = call().await;
        }
        answer
    }
}

#[async_trait]
impl LockStore for LaterLocks {
    async fn acquire(&self, req: &Acquire) -> StoreResult<Acquired> {
        Ok(match self.call(|| self.inner.acquire(req)).await? {
            Acquired::Yours(grant) => Acquired::Yours(Grant { until: self.at(grant.until), ..grant }),
            busy @ Acquired::Busy { .. } => busy,
        })
    }
    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        Ok(self.end(self.call(|| self.inner.extend(name, token, lease)).await?))
    }
    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        self.call(|| self.inner.release(name, token)).await
    }
    async fn show(&self, name: &Name) -> StoreResult<LockInfo> {
        let shown = self.call(|| self.inner.show(name)).await?;
        Ok(LockInfo { held: shown.held.map(|info| self.info(info)), ..shown })
    }
    async fn list(&self, req: &ListLocks) -> StoreResult<LockPage> {
        let mut page = self.inner.list(req).await?;
        page.locks = page.locks.into_iter().map(|(name, info)| (name, self.info(info))).collect();
        Ok(page)
    }
    async fn break_lock(&self, name: &Name) -> StoreResult<Option<HolderInfo>> {
        Ok(self.inner.break_lock(name).await?.map(|info| self.info(info)))
    }
    async fn seed_fence(&self, name: &Name, least: Fence) -> StoreResult<Fence> {
        self.call(|| self.inner.seed_fence(name, least)).await
    }
    async fn wait(&self, name: &Name, limit: Duration) -> StoreResult<()> {
        self.inner.wait(name, limit).await
    }
    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        self.inner.prune(limit).await
    }
    async fn extend_many(&self, reqs: &[(Name, Token, Span)]) -> Vec<StoreResult<Extended>> {
        let answers = self.inner.extend_many(reqs).await.into_iter();
        answers.map(|answer| answer.map(|extended| self.end(extended))).collect()
    }
}
