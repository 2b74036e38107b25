//! Locks in memory, bounded.

use crate::{
    Clock, Name, Now, Span, StoreError, StoreErrorKind, StoreResult, Token,
    lock::{
        Acquire, Acquired, Extended, Fence, HolderInfo, ListLocks, Lock, LockInfo, LockPage, LockStore,
        Write,
        machine::{self, Slot},
    },
};
use async_trait::async_trait;
use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

const SHARDS: usize = 16;

/// Locks of this process. Forgets on a restart.
///
/// To make room it drops locks that nobody holds; their fences stay below those of all locks that come after. A held
/// one is never dropped: a store full of those refuses new ones with `store.full`.
#[derive(Debug)]
pub struct MemoryLocks {
    shards: Box<[Shard]>,
    hasher: RandomState,
    clock: Arc<dyn Clock>,
    max_entries: usize,
}

#[derive(Debug, Default)]
struct Shard {
    state: Mutex<State>,
    /// Some lock of this part has become free.
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    locks: HashMap<Name, Lock>,
    /// The largest fence that was dropped.
    dropped: Option<Fence>,
}

impl State {
    /// Runs a step on the slot of `name`.
    fn step<A>(&mut self, name: &Name, step: impl FnOnce(&mut Slot) -> A) -> A {
        let mut slot = self.locks.remove(name);
        let answer = step(&mut slot);
        if let Some(lock) = slot {
            self.locks.insert(name.clone(), lock);
        }
        answer
    }

    /// The same for a step that makes the lock where there is none: its fence goes on from those that were dropped.
    fn step_new<A>(&mut self, name: &Name, now: &Now, step: impl FnOnce(&mut Slot) -> A) -> A {
        let dropped = self.dropped;
        self.step(name, |slot| {
            if let (None, Some(dropped)) = (&slot, dropped) {
                let _ = machine::seed_fence(slot, dropped, now);
            }
            step(slot)
        })
    }
}

impl MemoryLocks {
    /// How many locks are kept by default.
    pub const MAX_ENTRIES: usize = 100_000;

    /// No locks, on `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        Self { shards, hasher: RandomState::new(), clock, max_entries: Self::MAX_ENTRIES }
    }

    /// Keeps at most so many from now on, up to the next multiple of 16.
    #[must_use]
    pub fn with_max_entries(self, max: usize) -> Self {
        Self { max_entries: max, ..self }
    }

    fn shard(&self, name: &Name) -> &Shard {
        let hash = self.hasher.hash_one(name);
        let at = usize::try_from(hash % SHARDS as u64).unwrap_or_default();
        #[expect(clippy::indexing_slicing, reason = "the remainder is below the number of shards")]
        &self.shards[at]
    }

    /// A step on a lock that may be there.
    fn step<A>(&self, name: &Name, step: impl FnOnce(&mut Slot, &Now) -> A) -> A {
        let now = self.clock.read();
        locked(self.shard(name)).step(name, |slot| step(slot, &now))
    }

    /// Makes room for one more, where it needs room.
    fn make_room(&self, state: &mut State, name: &Name, now: &Now, op: &'static str) -> StoreResult<()> {
        if state.locks.len() < self.max_entries.div_ceil(SHARDS) || state.locks.contains_key(name) {
            return Ok(());
        }
        let mut dropped = state.dropped;
        state.locks.retain(|_, lock| {
            let is_held = machine::holder(lock, now).is_some();
            if !is_held {
                dropped = dropped.max(Some(lock.fence));
            }
            is_held
        });
        state.dropped = dropped;
        if state.locks.len() < self.max_entries.div_ceil(SHARDS) {
            return Ok(());
        }
        let reason = format!("all of {} places are taken by locks that are held", self.max_entries);
        Err(StoreError::new(StoreErrorKind::Full, "memory", op, reason))
    }
}

fn locked(shard: &Shard) -> MutexGuard<'_, State> {
    // A panic inside a step leaves the locks as they were or fully changed: no step panics between two writes.
    shard.state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl LockStore for MemoryLocks {
    async fn acquire(&self, req: &Acquire) -> StoreResult<Acquired> {
        let now = self.clock.read();
        let mut state = locked(self.shard(&req.name));
        self.make_room(&mut state, &req.name, &now, "acquire a lock")?;
        Ok(state.step_new(&req.name, &now, |slot| machine::acquire(slot, req, &now)))
    }

    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        Ok(self.step(name, |slot, now| machine::extend(slot, token, lease, now)))
    }

    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        let written = self.step(name, |slot, now| machine::release(slot, token, now));
        if written == Write::Applied {
            self.shard(name).freed.notify_waiters();
        }
        Ok(written)
    }

    async fn show(&self, name: &Name) -> StoreResult<LockInfo> {
        Ok(self.step(name, |slot, now| machine::show(slot, now)))
    }

    async fn list(&self, req: &ListLocks) -> StoreResult<LockPage> {
        let now = self.clock.read();
        let after = req.after.as_ref().map(crate::Key::as_str);
        let mut found = Vec::new();
        for shard in &self.shards {
            found.extend(locked(shard).locks.iter().filter_map(|(name, lock)| {
                let wanted = name.namespace() == req.namespace.as_str()
                    && name.key().starts_with(&req.prefix)
                    && after.is_none_or(|after| name.key() > after);
                Some((name.clone(), machine::holder(lock, &now).filter(|_| wanted)?))
            }));
        }
        found.sort_by(|(a, _), (b, _)| a.key().cmp(b.key()));
        let more = found.len() > req.limit;
        found.truncate(req.limit);
        Ok(LockPage { locks: found, more })
    }

    async fn break_lock(&self, name: &Name) -> StoreResult<Option<HolderInfo>> {
        let broken = self.step(name, machine::break_lock);
        self.shard(name).freed.notify_waiters();
        Ok(broken)
    }

    async fn seed_fence(&self, name: &Name, least: Fence) -> StoreResult<Fence> {
        let now = self.clock.read();
        let mut state = locked(self.shard(name));
        self.make_room(&mut state, name, &now, "seed a fence")?;
        Ok(state.step_new(name, &now, |slot| machine::seed_fence(slot, least, &now)))
    }

    async fn wait(&self, name: &Name, limit: Duration) -> StoreResult<()> {
        let freed = self.shard(name).freed.notified();
        tokio::pin!(freed);
        // Registered before the look: a release in between is not missed.
        freed.as_mut().enable();
        if self.show(name).await?.held.is_some() {
            // Also a release of another lock of this part ends it: it may return early.
            let _ = tokio::time::timeout(limit, freed).await;
        }
        Ok(())
    }

    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        let (now, mut pruned) = (self.clock.read(), 0);
        for shard in &self.shards {
            locked(shard).locks.retain(|_, lock| {
                let goes = pruned < limit && machine::may_forget(lock, &now);
                pruned += usize::from(goes);
                !goes
            });
        }
        Ok(pruned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ManualClock, Namespace, lock::Holder};

    fn request(key: &str, letter: u8) -> Acquire {
        Acquire {
            name: crate::lock::name(&Namespace::default(), key).unwrap(),
            token: Token::from_bytes([letter; 16]),
            lease: Span::new(Duration::from_mins(1)).unwrap(),
            holder: Holder::default(),
        }
    }

    #[tokio::test]
    async fn room_is_made_by_free_locks_whose_fences_are_not_given_again() {
        let clock = ManualClock::new();
        let store = MemoryLocks::new(Arc::new(clock.clone())).with_max_entries(16);
        let held = request("held", 1);
        let Acquired::Yours(first) = store.acquire(&held).await.unwrap() else { panic!("busy") };
        let far = Fence::new(first.fence.get() + 1_000_000_000).unwrap();
        for n in 0..200 {
            let req = request(&format!("free {n}"), 2);
            match store.acquire(&req).await {
                Ok(answer) => assert!(matches!(answer, Acquired::Yours(_))),
                // In the part of the held one.
                Err(error) => assert_eq!(error.kind(), StoreErrorKind::Full),
            }
            let _ = store.seed_fence(&req.name, far).await;
            let _ = store.release(&req.name, &req.token).await.unwrap();
        }
        assert_eq!(store.acquire(&held).await.unwrap(), Acquired::Yours(first));
        let left: usize = store.shards.iter().map(|shard| locked(shard).locks.len()).sum();
        assert!(left <= 16, "{left}");
        let again = (0..200).map(|n| request(&format!("free {n}"), 3));
        let mut told = 0;
        for req in again {
            if let Ok(Acquired::Yours(grant)) = store.acquire(&req).await {
                told += 1;
                assert!(grant.fence > far, "{grant:?}");
                let _ = store.release(&req.name, &req.token).await.unwrap();
            }
        }
        assert!(told > 100, "{told}");
    }
}
