//! `tests/conformance.rs` of a store of your own, here a map behind a mutex.

use hapax_conformance::{BoxError, StoreUnderTest, async_trait};
use hapax_core::{
    Clock, ManualClock, Name, Now, Span, StoreError, StoreErrorKind, StoreResult, Token,
    idempotency::{
        Complete, Completed, Dropped, Extended, IdempotencyStore, List, Page, Record, Reserve, Reserved,
        Resolve, Resolved, Retake, Retaken, Write,
        machine::{self, Slot},
    },
};
use std::{
    collections::HashMap,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// The store. A real one would live in `src/` of its crate.
#[derive(Debug)]
struct MapStore {
    rows: Mutex<HashMap<Name, Slot>>,
    clock: Arc<dyn Clock>,
}

impl MapStore {
    /// One atomic step: look, decide, write, under the lock.
    fn step<A>(&self, name: &Name, step: impl FnOnce(&mut Slot, &Now) -> A) -> StoreResult<A> {
        let now = self.clock.read();
        let mut rows = self.rows.lock().map_err(broken)?;
        Ok(step(rows.entry(name.clone()).or_default(), &now))
    }
}

#[async_trait]
impl IdempotencyStore for MapStore {
    async fn reserve(&self, req: &Reserve) -> StoreResult<Reserved> {
        self.step(&req.name, |slot, now| machine::reserve(slot, req, now))
    }
    async fn complete(&self, req: &Complete) -> StoreResult<Completed> {
        self.step(&req.name, |slot, now| machine::complete(slot, req, now))
    }
    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        self.step(name, |slot, now| machine::release(slot, token, now))
    }
    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        self.step(name, |slot, now| machine::extend(slot, token, lease, now))
    }
    async fn retake_unknown(&self, req: &Retake) -> StoreResult<Retaken> {
        self.step(&req.name, |slot, now| machine::retake_unknown(slot, req, now))
    }
    async fn drop_unknown(&self, name: &Name, token: &Token) -> StoreResult<Dropped> {
        self.step(name, |slot, now| machine::drop_unknown(slot, token, now))
    }
    async fn resolve(&self, req: &Resolve) -> StoreResult<Resolved> {
        self.step(&req.name, |slot, now| machine::resolve(slot, req, now))
    }
    async fn force_release(&self, name: &Name) -> StoreResult<Write> {
        self.step(name, machine::force_release)
    }
    async fn read(&self, name: &Name) -> StoreResult<Option<Record>> {
        self.step(name, |slot, now| machine::read(slot, now))
    }
    async fn list(&self, req: &List) -> StoreResult<Page> {
        let now = self.clock.read();
        let rows = self.rows.lock().map_err(broken)?;
        let after = req.after.as_ref().map(|(scope, key)| (scope.as_str(), key.as_str()));
        let mut records: Vec<_> = rows
            .iter()
            .filter(|(name, _)| {
                name.namespace() == req.namespace.as_str() && name.key().starts_with(&req.prefix)
            })
            .filter(|(name, _)| req.scope.as_ref().is_none_or(|scope| scope.as_str() == name.scope()))
            .filter(|(name, _)| after.is_none_or(|after| (name.scope(), name.key()) > after))
            .filter_map(|(name, slot)| Some((name.clone(), machine::read(slot, &now)?)))
            .filter(|(_, record)| req.state.is_none_or(|state| record.is(state)))
            .collect();
        records.sort_by(|(a, _), (b, _)| (a.scope(), a.key()).cmp(&(b.scope(), b.key())));
        let more = records.len() > req.limit;
        records.truncate(req.limit);
        Ok(Page { records, more })
    }
    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        let now = self.clock.read();
        let mut rows = self.rows.lock().map_err(broken)?;
        rows.retain(|_, slot| slot.is_some());
        let over =
            rows.iter().filter(|(_, slot)| machine::read(slot, &now).is_none()).map(|(name, _)| name.clone());
        let over: Vec<_> = over.take(limit).collect();
        for name in &over {
            rows.remove(name);
        }
        Ok(over.len())
    }
}

fn broken<T>(_: PoisonError<T>) -> StoreError {
    StoreError::new(StoreErrorKind::Internal, "map", "lock its rows", "a step panicked")
}

/// How the suite sets the store up.
struct Map {
    store: Arc<MapStore>,
    clock: ManualClock,
}

#[async_trait]
impl StoreUnderTest for Map {
    type Store = Arc<MapStore>;

    async fn fresh() -> Result<Self, BoxError> {
        let clock = ManualClock::new();
        let store = MapStore { rows: Mutex::default(), clock: Arc::new(clock.clone()) };
        Ok(Self { store: Arc::new(store), clock })
    }

    async fn client(&self) -> Result<Self::Store, BoxError> {
        Ok(Arc::clone(&self.store))
    }

    async fn elapse(&self, by: Duration) {
        self.clock.advance(by);
    }
}

fn main() -> ExitCode {
    hapax_conformance::main::<Map>("map")
}
