//! Lets time pass for the locks of a case, and makes what their clients answer look as if it had passed.

use hapax_conformance::{Faults as _, async_trait};
use hapax_core::{
    Name, Span, StoreError, StoreErrorKind, StoreResult, Timestamp, Token,
    lock::{
        Acquire, Acquired, Extended, Fence, Grant, HolderInfo, ListLocks, LockInfo, LockPage, LockStore,
        Write,
    },
};
use hapax_redis::RedisLocks;
use hapax_testkit::Rotation;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// KEYS: a lock or its mark. ARGV: milliseconds.
pub(super) const SHIFT: &str = r"
local key, by = KEYS[1], tonumber(ARGV[1])
local function nearer(value, at)
  local before = struct.unpack('>i8', value, at)
  return string.sub(value, 1, at - 1) .. struct.pack('>i8', before - by) .. string.sub(value, at + 8)
end
local left = redis.call('PTTL', key)
if left < 0 then return redis.error_reply('ERR a key without an end') end
if left <= by then return redis.call('DEL', key) end
if redis.call('TYPE', key).ok == 'string' then
  local value = nearer(redis.call('GET', key), 11)
  if string.byte(value, 2) % 2 == 1 then value = nearer(nearer(value, 67), 75) end
  redis.call('SET', key, value)
end
redis.call('PEXPIRE', key, left - by)
return 1
";

/// A client of locks whose instants are those of a clock that was moved on by what the suite let pass, and whose calls,
/// where there is a proxy, meet faults and are repeated.
#[derive(Debug)]
pub(crate) struct Later {
    pub(crate) inner: RedisLocks,
    pub(crate) passed: Arc<AtomicU64>,
    pub(crate) faults: Option<Rotation>,
}

fn may_pass(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Timeout)
}

impl Later {
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
impl LockStore for Later {
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
