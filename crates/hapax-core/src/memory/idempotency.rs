//! Idempotency keys in memory, bounded.

use super::shard::{Full, Shard};
use crate::{
    Clock, Name, Now, Span, StoreError, StoreErrorKind, StoreResult, Token,
    idempotency::{
        Complete, Completed, Dropped, Entry, Extended, IdempotencyStore, List, Page, Record, Reserve,
        Reserved, Resolve, Resolved, Retake, Retaken, Write,
        machine::{self, Slot},
    },
};
use async_trait::async_trait;
use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// At most so many parts, each with at least so many places.
const SHARDS: usize = 16;
const PLACES: usize = 4096;

/// Keys of this process, at most [`MAX_ENTRIES`](Self::MAX_ENTRIES) by default. Forgets on a restart.
///
/// To make room it drops what is over first, then the oldest ended keys, which may then run again; a live reservation
/// is never dropped, and a store full of those refuses new keys with `store.full`. A store of more than some thousand
/// places has up to 16 parts, which share the keys evenly and make room each for itself.
#[derive(Debug)]
pub struct MemoryStore {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    clock: Arc<dyn Clock>,
    max_entries: usize,
    /// Tokens count on from here: nobody outside of this process ever needs one, nor can use one.
    first_token: OnceLock<u128>,
    tokens: AtomicU64,
    secret: OnceLock<[u8; 32]>,
}

impl MemoryStore {
    /// How many keys are kept by default: a message's receipt is some 300 bytes, so this is some 50 MB.
    pub const MAX_ENTRIES: usize = 100_000;

    /// An empty store on `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            shards: shards(Self::MAX_ENTRIES),
            hasher: RandomState::new(),
            clock,
            max_entries: Self::MAX_ENTRIES,
            first_token: OnceLock::new(),
            tokens: AtomicU64::new(0),
            secret: OnceLock::new(),
        }
    }

    /// Empties it, and keeps at most so many keys from now on.
    #[must_use]
    pub fn with_max_entries(self, max: usize) -> Self {
        Self { shards: shards(max), max_entries: max, ..self }
    }

    /// How many keys it keeps at most.
    pub fn max_entries(&self) -> usize {
        self.max_entries
    }

    /// How many keys it holds, those that are over and not yet dropped included.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| locked(shard).len()).sum()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, name: &Name) -> (MutexGuard<'_, Shard>, u64) {
        let hash = self.hasher.hash_one(name);
        // Bits that the table inside does not look at first.
        let at = usize::try_from(hash >> 32).unwrap_or_default() % self.shards.len();
        #[expect(clippy::indexing_slicing, reason = "the remainder is below the number of shards")]
        (locked(&self.shards[at]), hash)
    }

    /// A step that may add the key.
    fn step<A>(
        &self,
        name: &Name,
        op: &'static str,
        step: impl FnOnce(&mut Slot, &Now) -> A,
    ) -> StoreResult<A> {
        let now = self.clock.read();
        let (mut shard, hash) = self.shard(name);
        shard.step(name, hash, &now, step).map_err(|Full| {
            let reason = format!("all {} places are held by calls in flight", self.max_entries);
            StoreError::new(StoreErrorKind::Full, "memory", op, reason)
        })
    }

    /// A step that leaves a vacant key vacant.
    fn step_held<A>(&self, name: &Name, step: impl Fn(&mut Slot, &Now) -> A) -> A {
        let now = self.clock.read();
        let (mut shard, hash) = self.shard(name);
        shard.step_held(name, hash, &now, step)
    }
}

fn shards(max_entries: usize) -> Box<[Mutex<Shard>]> {
    let parts = (max_entries / PLACES).clamp(1, SHARDS);
    let most = |part| max_entries / parts + usize::from(part < max_entries % parts);
    (0..parts).map(|part| Mutex::new(Shard::new(most(part)))).collect()
}

fn locked(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // A panic inside a step leaves the shard as it was or fully changed: no step panics between two writes.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl IdempotencyStore for MemoryStore {
    async fn reserve(&self, req: &Reserve) -> StoreResult<Reserved> {
        self.step(&req.name, "reserve", |slot, now| machine::reserve(slot, req, now))
    }

    async fn complete(&self, req: &Complete) -> StoreResult<Completed> {
        self.step(&req.name, "complete", |slot, now| machine::complete(slot, req, now))
    }

    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        Ok(self.step_held(name, |slot, now| machine::release(slot, token, now)))
    }

    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        Ok(self.step_held(name, |slot, now| machine::extend(slot, token, lease, now)))
    }

    async fn retake_unknown(&self, req: &Retake) -> StoreResult<Retaken> {
        Ok(self.step_held(&req.name, |slot, now| machine::retake_unknown(slot, req, now)))
    }

    async fn drop_unknown(&self, name: &Name, token: &Token) -> StoreResult<Dropped> {
        Ok(self.step_held(name, |slot, now| machine::drop_unknown(slot, token, now)))
    }

    async fn resolve(&self, req: &Resolve) -> StoreResult<Resolved> {
        Ok(self.step_held(&req.name, |slot, now| machine::resolve(slot, req, now)))
    }

    async fn force_release(&self, name: &Name) -> StoreResult<Write> {
        Ok(self.step_held(name, machine::force_release))
    }

    async fn read(&self, name: &Name) -> StoreResult<Option<Record>> {
        let now = self.clock.read();
        let (shard, hash) = self.shard(name);
        Ok(shard.read(name, hash).and_then(|slot| machine::read(slot, &now)))
    }

    fn token(&self) -> StoreResult<Token> {
        let first = match self.first_token.get() {
            Some(first) => *first,
            None => *self.first_token.get_or_init({
                let random = u128::from_be_bytes(*Token::random()?.as_bytes());
                move || random
            }),
        };
        let count = u128::from(self.tokens.fetch_add(1, Ordering::Relaxed));
        Ok(Token::from_bytes(first.wrapping_add(count).to_be_bytes()))
    }

    fn peek(&self, name: &Name) -> Option<Record> {
        let (shard, hash) = self.shard(name);
        match shard.read(name, hash)? {
            // The clock of results alone: replays are what there is most of.
            Some(Entry::Settled(settled)) => {
                (settled.until > self.clock.recent()).then(|| Record::from_settled(settled.clone()))
            }
            slot => machine::read(slot, &self.clock.read()),
        }
    }

    async fn list(&self, req: &List) -> StoreResult<Page> {
        let now = self.clock.read();
        let after = req.after.as_ref().map(|(scope, key)| (scope.as_str(), key.as_str()));
        let mut found = Vec::new();
        for shard in self.shards.iter().map(locked) {
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
