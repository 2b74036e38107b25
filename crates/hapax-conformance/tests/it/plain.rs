//! A small store with one place for each fault that a store could have.

use hapax_conformance::{BoxError, StoreUnderTest, async_trait};
use hapax_core::{
    Clock, ManualClock, Name, Now, Span, StoreResult, SystemClock, Token,
    idempotency::{
        Complete, Completed, Dropped, Extended, IdempotencyStore, List, Page, Receipt, Record, Reserve,
        Reserved, Resolve, Resolved, Retake, Retaken, Write,
        machine::{self, Slot},
    },
};
use std::{
    collections::BTreeMap,
    marker::PhantomData,
    sync::{Arc, Mutex},
    time::Duration,
};

/// What a store does in place of the right thing. Each method is the right thing by default.
pub(crate) trait Flaw: Send + Sync + 'static {
    fn reserve(slot: &mut Slot, req: &Reserve, now: &Now) -> Reserved {
        machine::reserve(slot, req, now)
    }
    fn complete(slot: &mut Slot, req: &Complete, now: &Now) -> Completed {
        machine::complete(slot, req, now)
    }
    fn release(slot: &mut Slot, token: &Token, now: &Now) -> Write {
        machine::release(slot, token, now)
    }
    fn extend(slot: &mut Slot, token: &Token, lease: Span, now: &Now) -> Extended {
        machine::extend(slot, token, lease, now)
    }
    fn retake(slot: &mut Slot, req: &Retake, now: &Now) -> Retaken {
        machine::retake_unknown(slot, req, now)
    }
    fn drop_unknown(slot: &mut Slot, token: &Token, now: &Now) -> Dropped {
        machine::drop_unknown(slot, token, now)
    }
    fn resolve(slot: &mut Slot, req: &Resolve, now: &Now) -> Resolved {
        machine::resolve(slot, req, now)
    }
    fn force_release(slot: &mut Slot, now: &Now) -> Write {
        machine::force_release(slot, now)
    }
    /// Runs before each step on the slot.
    fn before_step(_slot: &mut Slot, _now: &Now) {}
    fn clock(now: Now) -> Now {
        now
    }
    fn span(span: Span) -> Span {
        span
    }
    fn key(name: &Name) -> String {
        name.joined().to_owned()
    }
    fn receipt(receipt: &Receipt) -> Receipt {
        receipt.clone()
    }
    fn list(rows: &[(Name, Record)], req: &List) -> Page {
        list(rows, req)
    }
    fn prunes(slot: &Slot, now: &Now) -> bool {
        machine::read(slot, now).is_none()
    }
    fn prune_limit(limit: usize) -> usize {
        limit
    }
    fn batch_order<T: Clone>(batch: &[T], _name: impl Fn(&T) -> Name) -> Vec<T> {
        batch.to_vec()
    }
    fn secret() -> u8 {
        7
    }
    /// Whether looking and writing are one step.
    const ATOMIC: bool = true;
}

pub(crate) struct Sound;
impl Flaw for Sound {}

/// A page as it should be.
pub(crate) fn list(rows: &[(Name, Record)], req: &List) -> Page {
    let after = req.after.as_ref().map(|(scope, key)| (scope.as_str(), key.as_str()));
    let mut records: Vec<_> = rows
        .iter()
        .filter(|(name, _)| name.namespace() == req.namespace.as_str())
        .filter(|(name, _)| req.scope.as_ref().is_none_or(|scope| scope.as_str() == name.scope()))
        .filter(|(name, _)| name.key().starts_with(&req.prefix))
        .filter(|(name, _)| after.is_none_or(|after| (name.scope(), name.key()) > after))
        .filter(|(_, record)| req.state.is_none_or(|state| record.is(state)))
        .cloned()
        .collect();
    records.sort_by(|(a, _), (b, _)| (a.scope(), a.key()).cmp(&(b.scope(), b.key())));
    let more = records.len() > req.limit;
    records.truncate(req.limit);
    Page { records, more }
}

pub(crate) struct Plain<F> {
    rows: Mutex<BTreeMap<String, (Name, Slot)>>,
    clock: ManualClock,
    /// Adds the machine's own time to that of the clock, when it is there.
    running: Option<Now>,
    flaw: PhantomData<F>,
}

impl<F> std::fmt::Debug for Plain<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Plain")
    }
}

impl<F: Flaw> Plain<F> {
    fn new(running: Option<Now>) -> Self {
        Self { rows: Mutex::default(), clock: ManualClock::new(), running, flaw: PhantomData }
    }

    fn now(&self) -> Now {
        let mut now = self.clock.read();
        if let Some(start) = self.running {
            let passed = SystemClock.read().boot.since(start.boot);
            now = Now { wall: now.wall.after(passed), boot: now.boot.after(passed) };
        }
        F::clock(now)
    }

    fn look(&self, name: &Name) -> Slot {
        self.rows.lock().unwrap().get(&F::key(name)).and_then(|(_, slot)| slot.clone())
    }

    async fn step<A: Send>(&self, name: &Name, step: impl FnOnce(&mut Slot, &Now) -> A + Send) -> A {
        let now = self.now();
        let seen = self.look(name);
        if !F::ATOMIC {
            tokio::task::yield_now().await;
        }
        let mut rows = self.rows.lock().unwrap();
        let row = rows.entry(F::key(name)).or_insert_with(|| (name.clone(), None));
        if !F::ATOMIC {
            row.1 = seen;
        }
        F::before_step(&mut row.1, &now);
        step(&mut row.1, &now)
    }
}

fn unsorted<T, A>(batch: &[T], answers: Vec<A>) -> Vec<A> {
    assert_eq!(batch.len(), answers.len());
    answers
}

#[async_trait]
impl<F: Flaw> IdempotencyStore for Plain<F> {
    async fn reserve(&self, req: &Reserve) -> StoreResult<Reserved> {
        let req = Reserve { lease: F::span(req.lease), ..req.clone() };
        Ok(self.step(&req.name, |slot, now| F::reserve(slot, &req, now)).await)
    }
    async fn complete(&self, req: &Complete) -> StoreResult<Completed> {
        let req = Complete { receipt: F::receipt(&req.receipt), ..req.clone() };
        Ok(self.step(&req.name, |slot, now| F::complete(slot, &req, now)).await)
    }
    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        Ok(self.step(name, |slot, now| F::release(slot, token, now)).await)
    }
    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        Ok(self.step(name, |slot, now| F::extend(slot, token, lease, now)).await)
    }
    async fn retake_unknown(&self, req: &Retake) -> StoreResult<Retaken> {
        Ok(self.step(&req.name, |slot, now| F::retake(slot, req, now)).await)
    }
    async fn drop_unknown(&self, name: &Name, token: &Token) -> StoreResult<Dropped> {
        Ok(self.step(name, |slot, now| F::drop_unknown(slot, token, now)).await)
    }
    async fn resolve(&self, req: &Resolve) -> StoreResult<Resolved> {
        Ok(self.step(&req.name, |slot, now| F::resolve(slot, req, now)).await)
    }
    async fn force_release(&self, name: &Name) -> StoreResult<Write> {
        Ok(self.step(name, F::force_release).await)
    }
    async fn read(&self, name: &Name) -> StoreResult<Option<Record>> {
        let (mut slot, now) = (self.look(name), self.now());
        F::before_step(&mut slot, &now);
        Ok(machine::read(&slot, &now))
    }
    async fn list(&self, req: &List) -> StoreResult<Page> {
        let now = self.now();
        let rows: Vec<_> = {
            let rows = self.rows.lock().unwrap();
            rows.values()
                .filter_map(|(name, slot)| Some((name.clone(), machine::read(slot, &now)?)))
                .collect()
        };
        Ok(F::list(&rows, req))
    }
    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        let now = self.now();
        let mut rows = self.rows.lock().unwrap();
        rows.retain(|_, (_, slot)| slot.is_some());
        let over: Vec<_> =
            rows.iter().filter(|(_, (_, slot))| F::prunes(slot, &now)).map(|(key, _)| key.clone()).collect();
        let over: Vec<_> = over.into_iter().take(F::prune_limit(limit)).collect();
        for key in &over {
            rows.remove(key);
        }
        Ok(over.len())
    }
    async fn reserve_many(&self, reqs: &[Reserve]) -> Vec<StoreResult<Reserved>> {
        let mut answers = Vec::new();
        for req in F::batch_order(reqs, |req| req.name.clone()) {
            answers.push(self.reserve(&req).await);
        }
        unsorted(reqs, answers)
    }
    async fn secret(&self) -> StoreResult<Option<[u8; 32]>> {
        Ok(Some([F::secret(); 32]))
    }
}

pub(crate) struct Subject<F>(Arc<Plain<F>>);

#[async_trait]
impl<F: Flaw> StoreUnderTest for Subject<F> {
    type Store = Arc<Plain<F>>;

    async fn fresh() -> Result<Self, BoxError> {
        Ok(Self(Arc::new(Plain::new(None))))
    }

    async fn client(&self) -> Result<Self::Store, BoxError> {
        Ok(Arc::clone(&self.0))
    }

    async fn elapse(&self, by: Duration) {
        self.0.clock.advance(by);
    }

    // The map outlives its clients, as a file would.
    async fn reopen(&self) -> Result<bool, BoxError> {
        Ok(true)
    }
}

/// The same on a clock that also runs by itself, as a server's does.
pub(crate) struct Running<F>(Subject<F>);

#[async_trait]
impl<F: Flaw> StoreUnderTest for Running<F> {
    type Store = Arc<Plain<F>>;

    async fn fresh() -> Result<Self, BoxError> {
        Ok(Self(Subject(Arc::new(Plain::new(Some(SystemClock.read()))))))
    }

    async fn client(&self) -> Result<Self::Store, BoxError> {
        StoreUnderTest::client(&self.0).await
    }

    async fn elapse(&self, by: Duration) {
        StoreUnderTest::elapse(&self.0, by).await;
    }

    async fn reopen(&self) -> Result<bool, BoxError> {
        StoreUnderTest::reopen(&self.0).await
    }

    fn exact_time() -> bool {
        false
    }
}
