//! Idempotency keys in memory, bounded.

use super::shard::Shard;
use crate::{
    Clock, Name, Now, Span, StoreError, StoreErrorKind, StoreResult, Token,
    idempotency::{
        Complete, Completed, Dropped, Extended, IdempotencyStore, List, Page, Record, Reserve, Reserved,
        Resolve, Resolved, Retake, Retaken, Write, machine,
    },
};
use async_trait::async_trait;
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

const SHARDS: usize = 16;

/// Keys of this process, at most [`MAX_ENTRIES`](Self::MAX_ENTRIES) by default. Forgets on a restart.
///
/// To make room it drops what is over first, then the oldest ended keys, which may then run again; a live reservation
/// is never dropped, and a store full of those refuses new keys with `store.full`.
#[derive(Debug)]
pub struct MemoryStore {
    shards: [Mutex<Shard>; SHARDS],
    clock: Arc<dyn Clock>,
    entries: AtomicUsize,
    changes: AtomicU64,
    max_entries: usize,
    secret: std::sync::OnceLock<[u8; 32]>,
}

impl MemoryStore {
    /// How many keys are kept by default: a message's receipt is some 300 bytes, so this is some 50 MB.
    pub const MAX_ENTRIES: usize = 100_000;

    /// An empty store on `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            clock,
            entries: AtomicUsize::new(0),
            changes: AtomicU64::new(0),
            max_entries: Self::MAX_ENTRIES,
            secret: std::sync::OnceLock::new(),
        }
    }

    /// Keeps at most so many keys.
    #[must_use]
    pub fn with_max_entries(mut self, max: usize) -> Self {
        self.max_entries = max;
        self
    }

    /// How many keys it holds, those that are over and not yet dropped included.
    pub fn len(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, name: &Name) -> MutexGuard<'_, Shard> {
        // The map hashes with care. Here a bad spread costs a wait, not an answer, so a cheap mix will do.
        let mix =
            |mixed: usize, byte: &u8| (mixed.rotate_left(5) ^ usize::from(*byte)).wrapping_mul(0x9E37_79B1);
        let tail = name.key().as_bytes().iter().rev().take(16);
        let at = (tail.fold(0, mix) >> 16) % SHARDS;
        #[expect(clippy::indexing_slicing, reason = "the remainder is below the number of shards")]
        locked(&self.shards[at])
    }

    fn step<A>(&self, name: &Name, step: impl FnOnce(&mut machine::Slot, &Now) -> A) -> A {
        let now = self.clock.read();
        let change = self.changes.fetch_add(1, Ordering::Relaxed);
        // Counted before anybody else can see the shard: a count that lags would make room where there is some.
        let mut shard = self.shard(name);
        let (answer, grown) = shard.step(name, change, |slot| step(slot, &now));
        match grown {
            1.. => drop(self.entries.fetch_add(1, Ordering::Relaxed)),
            0 => {}
            _ => drop(self.entries.fetch_sub(1, Ordering::Relaxed)),
        }
        answer
    }

    /// Makes sure that `name` may be added. The bound may be passed by as many keys as there are threads adding one.
    fn room_for(&self, name: &Name, op: &'static str) -> StoreResult<()> {
        while self.len() >= self.max_entries && !self.shard(name).holds(name) {
            if !self.evict() {
                let reason = format!("all {} places are held by calls in flight", self.max_entries);
                return Err(StoreError::new(StoreErrorKind::Full, "memory", op, reason));
            }
        }
        Ok(())
    }

    /// Makes room for one key, unless there is some by now. Holds all shards, so that what another thread makes room
    /// with at the same time is not taken for a store full of calls in flight.
    fn evict(&self) -> bool {
        let now = self.clock.read();
        let mut shards = self.shards.each_ref().map(locked);
        if self.len() < self.max_entries {
            return true;
        }
        let removed = shards.iter_mut().any(|shard| shard.drop_expired(&now)) || {
            let ages = shards.iter_mut().filter_map(|shard| Some((shard.oldest()?, shard)));
            ages.min_by_key(|(age, _)| *age).is_some_and(|(_, shard)| shard.drop_oldest())
        };
        if removed {
            self.entries.fetch_sub(1, Ordering::Relaxed);
        }
        removed
    }
}

fn locked(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // A panic inside a step leaves the shard as it was or fully changed: no step panics between two writes.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl IdempotencyStore for MemoryStore {
    async fn reserve(&self, req: &Reserve) -> StoreResult<Reserved> {
        self.room_for(&req.name, "reserve")?;
        Ok(self.step(&req.name, |slot, now| machine::reserve(slot, req, now)))
    }

    async fn complete(&self, req: &Complete) -> StoreResult<Completed> {
        self.room_for(&req.name, "complete")?;
        Ok(self.step(&req.name, |slot, now| machine::complete(slot, req, now)))
    }

    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        Ok(self.step(name, |slot, now| machine::release(slot, token, now)))
    }

    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        Ok(self.step(name, |slot, now| machine::extend(slot, token, lease, now)))
    }

    async fn retake_unknown(&self, req: &Retake) -> StoreResult<Retaken> {
        Ok(self.step(&req.name, |slot, now| machine::retake_unknown(slot, req, now)))
    }

    async fn drop_unknown(&self, name: &Name, token: &Token) -> StoreResult<Dropped> {
        Ok(self.step(name, |slot, now| machine::drop_unknown(slot, token, now)))
    }

    async fn resolve(&self, req: &Resolve) -> StoreResult<Resolved> {
        Ok(self.step(&req.name, |slot, now| machine::resolve(slot, req, now)))
    }

    async fn force_release(&self, name: &Name) -> StoreResult<Write> {
        Ok(self.step(name, machine::force_release))
    }

    async fn read(&self, name: &Name) -> StoreResult<Option<Record>> {
        let now = self.clock.read();
        Ok(self.shard(name).read(name).and_then(|slot| machine::read(slot, &now)))
    }

    async fn list(&self, req: &List) -> StoreResult<Page> {
        let now = self.clock.read();
        let after = req.after.as_ref().map(|(scope, key)| (scope.as_str(), key.as_str()));
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = locked(shard);
            found.extend(shard.entries().filter_map(|(name, slot)| {
                let wanted = name.namespace() == req.namespace.as_str()
                    && req.scope.as_ref().is_none_or(|scope| scope.as_str() == name.scope())
                    && name.key().starts_with(&req.prefix)
                    && after.is_none_or(|after| (name.scope(), name.key()) > after);
                let record = machine::read(slot, &now).filter(|_| wanted)?;
                req.state.is_none_or(|state| record.is(state)).then(|| (name.clone(), record))
            }));
        }
        found.sort_by(|(a, _), (b, _)| (a.scope(), a.key()).cmp(&(b.scope(), b.key())));
        let more = found.len() > req.limit;
        found.truncate(req.limit);
        Ok(Page { records: found, more })
    }

    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        let now = self.clock.read();
        let mut pruned = 0;
        for shard in &self.shards {
            let mut shard = locked(shard);
            while pruned < limit && shard.drop_expired(&now) {
                self.entries.fetch_sub(1, Ordering::Relaxed);
                pruned += 1;
            }
        }
        Ok(pruned)
    }

    async fn secret(&self) -> StoreResult<Option<[u8; 32]>> {
        if let Some(secret) = self.secret.get() {
            return Ok(Some(*secret));
        }
        let (a, b) = (Token::random()?, Token::random()?);
        let mut secret = [0; 32];
        for (to, from) in secret.iter_mut().zip(a.as_bytes().iter().chain(b.as_bytes())) {
            *to = *from;
        }
        Ok(Some(*self.secret.get_or_init(|| secret)))
    }
}
