//! A store of your own. The rules of each step are functions in `core::idempotency::machine`: a store makes them
//! atomic, here with a mutex. `crates/hapax/tests/own_store.rs` runs the suite of all stores on this one.
//! `cargo run -p hapax --example own_store`
#![deny(unused_must_use)]
#![expect(clippy::print_stdout, reason = "an example")]

use hapax::{
    Idempotency, async_trait,
    core::{
        Clock, Name, Now, Span, StoreError, StoreErrorKind, StoreResult, SystemClock, Token,
        idempotency::{
            Complete, Completed, Dropped, Extended, IdempotencyStore, List, Page, Record, Reserve, Reserved,
            Resolve, Resolved, Retake, Retaken, Write,
            machine::{self, Slot},
        },
    },
};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard},
};

/// Keys in a map. `complete_many` and its like need no code: their defaults loop.
#[derive(Debug)]
pub(crate) struct MapStore {
    clock: Arc<dyn Clock>,
    slots: Mutex<BTreeMap<Name, Slot>>,
}

impl MapStore {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, slots: Mutex::default() }
    }

    fn slots(&self, op: &'static str) -> StoreResult<MutexGuard<'_, BTreeMap<Name, Slot>>> {
        let broken = |_| StoreError::new(StoreErrorKind::Internal, "map", op, "a step panicked");
        self.slots.lock().map_err(broken)
    }

    /// One atomic step on the slot of a key.
    fn step<A>(
        &self,
        op: &'static str,
        name: &Name,
        step: impl FnOnce(&mut Slot, &Now) -> A,
    ) -> StoreResult<A> {
        let (mut slots, now) = (self.slots(op)?, self.clock.read());
        let slot = slots.entry(name.clone()).or_default();
        let answer = step(slot, &now);
        if slot.is_none() {
            slots.remove(name);
        }
        Ok(answer)
    }
}

#[async_trait]
impl IdempotencyStore for MapStore {
    async fn reserve(&self, req: &Reserve) -> StoreResult<Reserved> {
        self.step("reserve", &req.name, |slot, now| machine::reserve(slot, req, now))
    }
    async fn complete(&self, req: &Complete) -> StoreResult<Completed> {
        self.step("complete", &req.name, |slot, now| machine::complete(slot, req, now))
    }
    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        self.step("release", name, |slot, now| machine::release(slot, token, now))
    }
    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        self.step("extend", name, |slot, now| machine::extend(slot, token, lease, now))
    }
    async fn retake_unknown(&self, req: &Retake) -> StoreResult<Retaken> {
        self.step("retake", &req.name, |slot, now| machine::retake_unknown(slot, req, now))
    }
    async fn drop_unknown(&self, name: &Name, token: &Token) -> StoreResult<Dropped> {
        self.step("drop", name, |slot, now| machine::drop_unknown(slot, token, now))
    }
    async fn resolve(&self, req: &Resolve) -> StoreResult<Resolved> {
        self.step("resolve", &req.name, |slot, now| machine::resolve(slot, req, now))
    }
    async fn force_release(&self, name: &Name) -> StoreResult<Write> {
        self.step("release", name, machine::force_release)
    }
    async fn read(&self, name: &Name) -> StoreResult<Option<Record>> {
        let (slots, now) = (self.slots("read")?, self.clock.read());
        Ok(slots.get(name).and_then(|slot| machine::read(slot, &now)))
    }
    async fn list(&self, req: &List) -> StoreResult<Page> {
        let (slots, now) = (self.slots("list")?, self.clock.read());
        let after = req.after.as_ref().map(|(scope, key)| (scope.as_str(), key.as_str()));
        let wanted = |name: &Name| {
            name.namespace() == req.namespace.as_str()
                && req.scope.as_ref().is_none_or(|scope| scope.as_str() == name.scope())
                && name.key().starts_with(&req.prefix)
                && after.is_none_or(|after| (name.scope(), name.key()) > after)
        };
        let mut records: Vec<_> = slots
            .iter()
            .filter(|(name, _)| wanted(name))
            .filter_map(|(name, slot)| Some((name.clone(), machine::read(slot, &now)?)))
            .filter(|(_, record)| req.state.is_none_or(|state| record.is(state)))
            .collect();
        records.sort_by(|(a, _), (b, _)| (a.scope(), a.key()).cmp(&(b.scope(), b.key())));
        let more = records.len() > req.limit;
        records.truncate(req.limit);
        Ok(Page { records, more })
    }
    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        let (mut slots, now) = (self.slots("prune")?, self.clock.read());
        let before = slots.len();
        let mut left = limit;
        slots.retain(|_, slot| {
            if left > 0 {
                machine::settle(slot, &now);
                left -= usize::from(slot.is_none());
            }
            slot.is_some()
        });
        Ok(before - slots.len())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let idem = Idempotency::new(MapStore::new(Arc::new(SystemClock)), "greeting");
    let mut greetings = 0;
    for _ in 0..3 {
        let effect = async || {
            greetings += 1;
            Ok::<_, Infallible>(format!("hello, {greetings}"))
        };
        println!("{}", idem.run("ada", "hello", effect).await??);
    }
    Ok(())
}
