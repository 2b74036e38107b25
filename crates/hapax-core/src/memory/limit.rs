//! Rate limits in memory, bounded.

use crate::{
    Clock, Namespace, StoreResult,
    limit::{
        Algorithm, Answer, Check, Decide, Decided, LimitKey, LimitStore,
        machine::{self, Slot},
    },
};
use async_trait::async_trait;
use foldhash::{SharedSeed, quality::SeedableRandomState};
use hashbrown::HashTable;
use std::{
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

const SHARDS: usize = 64;
/// Where nothing equals a fresh state, one of so many goes: that which is nearest to it.
const PART: usize = 8;

/// Rate limits of this process. Forgets on a restart. It counts on the clock that nobody can set.
///
/// To make room it drops states that equal fresh ones, then those that are nearest to one: a store that is too small
/// for its callers lets too many through, never too few.
#[derive(Debug)]
pub struct MemoryLimits {
    shards: Box<[Apart]>,
    hasher: SeedableRandomState,
    clock: Arc<dyn Clock>,
    most: usize,
}

/// Not on one line of a processor's cache with another: callers of one shard do not slow those of the next.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart(Mutex<Shard>);

#[derive(Debug, Default)]
struct Shard {
    cells: HashTable<Cell>,
}

#[derive(Debug)]
struct Cell {
    hash: u64,
    namespace: Namespace,
    key: LimitKey,
    kind: (Algorithm, bool),
    slot: Slot,
}

impl Cell {
    fn is(&self, namespace: &Namespace, check: &Check) -> bool {
        self.key == check.key && self.kind == kind(check) && self.namespace == *namespace
    }

    fn ends(&self, now: u64) -> u64 {
        self.slot.as_ref().map_or(0, |kept| machine::ends(kept, now))
    }
}

fn kind(check: &Check) -> (Algorithm, bool) {
    (check.quota.algorithm(), check.shadow)
}

impl Shard {
    fn get(&mut self, hash: u64, namespace: &Namespace, check: &Check) -> Option<&mut Slot> {
        self.cells.find_mut(hash, |cell| cell.is(namespace, check)).map(|cell| &mut cell.slot)
    }

    /// Takes the slot out of the map, for a step over several.
    fn lend(&mut self, hash: u64, namespace: &Namespace, check: &Check) -> Slot {
        self.get(hash, namespace, check).and_then(Option::take)
    }

    fn put(&mut self, hash: u64, namespace: &Namespace, check: &Check, slot: Slot, room: (usize, u64)) {
        if let Some(held) = self.get(hash, namespace, check) {
            *held = slot;
        } else if slot.is_some() {
            self.make_room(room);
            let (namespace, key) = (namespace.clone(), check.key.clone());
            self.cells.insert_unique(hash, Cell { hash, namespace, key, kind: kind(check), slot }, |cell| {
                cell.hash
            });
        }
    }

    fn make_room(&mut self, (most, now): (usize, u64)) {
        if self.cells.len() < most {
            return;
        }
        self.cells.retain(|cell| cell.ends(now) > now);
        let goal = most - (most / PART).max(1).min(most);
        if self.cells.len() <= goal {
            return;
        }
        let mut ends: Vec<_> = self.cells.iter().map(|cell| cell.ends(now)).collect();
        let gone = ends.len() - goal;
        let (_, last, _) = ends.select_nth_unstable(gone - 1);
        let (last, mut left) = (*last, gone);
        self.cells.retain(|cell| {
            let goes = left > 0 && cell.ends(now) <= last;
            left -= usize::from(goes);
            !goes
        });
    }
}

/// Names come from clients, so they are hashed from a start that nobody knows.
fn hasher() -> SeedableRandomState {
    SeedableRandomState::with_seed(RandomState::new().hash_one(0), SharedSeed::global_random())
}

fn locked(shard: &Apart) -> MutexGuard<'_, Shard> {
    shard.0.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryLimits {
    /// How many limits are kept by default.
    pub const MAX_ENTRIES: usize = 100_000;

    /// Nothing counted, on `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let shards = (0..SHARDS).map(|_| Apart::default()).collect();
        Self { shards, hasher: hasher(), clock, most: Self::MAX_ENTRIES }.with_max_entries(Self::MAX_ENTRIES)
    }

    /// Keeps at most so many from now on, up to the next multiple of 64.
    #[must_use]
    pub fn with_max_entries(self, max: usize) -> Self {
        Self { most: max.div_ceil(SHARDS).max(1), ..self }
    }

    /// How many it holds, those that equal fresh ones included.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| locked(shard).cells.len()).sum()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn hash(&self, key: &LimitKey) -> (usize, u64) {
        let hash = self.hasher.hash_one(key.as_str());
        // Bits that the table inside does not look at first.
        let at = usize::try_from((hash >> 32) % SHARDS as u64).unwrap_or_default();
        (at, hash)
    }

    fn shard(&self, at: usize) -> MutexGuard<'_, Shard> {
        #[expect(clippy::indexing_slicing, reason = "the remainder is below the number of shards")]
        locked(&self.shards[at])
    }

    fn now(&self) -> u64 {
        self.clock.boot().as_millis()
    }

    fn decide_one(&self, namespace: &Namespace, check: &Check, dry_run: bool) -> Answer {
        let now = self.now();
        let (at, hash) = self.hash(&check.key);
        let mut shard = self.shard(at);
        if let Some(slot) = shard.get(hash, namespace, check) {
            return machine::decide_one(slot, check, dry_run, now);
        }
        let mut slot = None;
        let answer = machine::decide_one(&mut slot, check, dry_run, now);
        shard.put(hash, namespace, check, slot, (self.most, now));
        answer
    }
}

#[async_trait]
impl LimitStore for MemoryLimits {
    async fn decide(&self, req: &Decide) -> StoreResult<Decided> {
        if let [check] = &req.checks[..] {
            let answers = vec![self.decide_one(&req.namespace, check, req.dry_run)];
            return Ok(Decided { answers, best_effort: false });
        }
        let places: Vec<_> = req.checks.iter().map(|check| self.hash(&check.key)).collect();
        let mut order: Vec<_> = places.iter().map(|(at, _)| *at).collect();
        order.sort_unstable();
        order.dedup();
        // In one order for all callers, so that none waits for another that waits for it.
        let mut shards: Vec<_> = order.iter().map(|at| (*at, self.shard(*at))).collect();
        let now = self.now();
        let mut each = |step: &mut dyn FnMut(&mut Shard, usize, u64)| {
            for (n, (at, hash)) in places.iter().enumerate() {
                if let Some((_, shard)) = shards.iter_mut().find(|(held, _)| held == at) {
                    step(shard, n, *hash);
                }
            }
        };
        let mut slots: Vec<Slot> = Vec::with_capacity(places.len());
        each(&mut |shard, n, hash| {
            let slot = req.checks.get(n).and_then(|check| shard.lend(hash, &req.namespace, check));
            slots.push(slot);
        });
        let mut lent: Vec<_> = slots.iter_mut().collect();
        let answers = machine::decide(&mut lent, &req.checks, req.dry_run, now);
        let mut slots = slots.into_iter();
        each(&mut |shard, n, hash| {
            if let (Some(check), Some(slot)) = (req.checks.get(n), slots.next()) {
                shard.put(hash, &req.namespace, check, slot, (self.most, now));
            }
        });
        Ok(Decided { answers, best_effort: false })
    }

    fn decide_now(&self, namespace: &Namespace, check: &Check, dry_run: bool) -> Option<StoreResult<Answer>> {
        Some(Ok(self.decide_one(namespace, check, dry_run)))
    }

    async fn reset(&self, namespace: &Namespace, key: &LimitKey) -> StoreResult<()> {
        let (at, hash) = self.hash(key);
        let mut shard = self.shard(at);
        let is_it = |cell: &Cell| cell.key == *key && cell.namespace == *namespace;
        while let Ok(cell) = shard.cells.find_entry(hash, is_it) {
            cell.remove();
        }
        Ok(())
    }

    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        let (now, mut pruned) = (self.now(), 0);
        for shard in &self.shards {
            locked(shard).cells.retain(|cell| {
                let goes = pruned < limit && cell.ends(now) <= now;
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
    use crate::{ManualClock, limit::Quota};
    use std::time::Duration;

    #[test]
    fn room_is_made_by_what_equals_a_fresh_state_then_by_what_is_nearest_to_it() {
        let clock = ManualClock::new();
        let store = MemoryLimits::new(Arc::new(clock.clone())).with_max_entries(64 * 8);
        let namespace = Namespace::default();
        let quota = Quota::fixed_window(1, Duration::from_mins(1));
        let ask = |key: &str| {
            let check = Check::new(LimitKey::new(key).unwrap(), quota);
            store.decide_one(&namespace, &check, false).allowed
        };
        assert!(ask("attacked"));
        for n in 0..20_000 {
            if n % 100 == 0 {
                clock.advance(Duration::from_millis(1));
            }
            assert!(ask(&format!("client {n}")));
        }
        assert!(store.len() <= 64 * 8);
        assert!(!ask("client 19999"), "the newest stays");
        clock.advance(Duration::from_mins(1));
        assert!(ask("client 19999"));
    }
}
