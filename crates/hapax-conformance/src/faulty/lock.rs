//! A store of locks whose calls fail as a network makes them fail.

use super::Fault;
use hapax_core::{
    Name, Span, StoreError, StoreErrorKind, StoreResult, Token, async_trait,
    lock::{Acquire, Acquired, Extended, Fence, HolderInfo, ListLocks, LockInfo, LockPage, LockStore, Write},
};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// A step of a holder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LockStep {
    /// `acquire`.
    Acquire,
    /// `extend` and `extend_many`.
    Extend,
    /// `release`.
    Release,
}

#[derive(Debug)]
enum Request {
    Acquire(Acquire),
    Extend(Name, Token, Span),
    Release(Name, Token),
}

/// Decorates a store of locks with faults, each put on one step. Calls without a fault pass through; [`Fault::Held`]
/// does nothing here.
#[derive(Debug)]
pub struct FaultyLocks<S> {
    inner: S,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    faults: HashMap<LockStep, VecDeque<Fault>>,
    broken: HashMap<LockStep, Fault>,
    calls: HashMap<LockStep, usize>,
    delayed: Vec<Request>,
}

impl<S: LockStore> FaultyLocks<S> {
    /// A store without faults yet.
    pub fn new(inner: S) -> Self {
        Self { inner, state: Mutex::default() }
    }

    /// Puts a fault on the next call of a step that has none yet.
    pub fn inject(&self, step: LockStep, fault: Fault) {
        self.state().faults.entry(step).or_default().push_back(fault);
    }

    /// Puts a fault on every call of a step, until [`mend`](Self::mend).
    pub fn break_step(&self, step: LockStep, fault: Fault) {
        self.state().broken.insert(step, fault);
    }

    /// Takes all faults away.
    pub fn mend(&self) {
        let mut state = self.state();
        (state.faults, state.broken) = (HashMap::new(), HashMap::new());
    }

    /// How often a step was called.
    pub fn calls(&self, step: LockStep) -> usize {
        self.state().calls.get(&step).copied().unwrap_or_default()
    }

    /// Carries out what was delayed, in order; answers how many there were.
    pub async fn deliver_delayed(&self) -> StoreResult<usize> {
        let delayed = std::mem::take(&mut self.state().delayed);
        for request in &delayed {
            match request {
                Request::Acquire(req) => drop(self.inner.acquire(req).await?),
                Request::Extend(name, token, lease) => drop(self.inner.extend(name, token, *lease).await?),
                Request::Release(name, token) => drop(self.inner.release(name, token).await?),
            }
        }
        Ok(delayed.len())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn call<T, F>(
        &self,
        step: LockStep,
        request: impl FnOnce() -> Vec<Request> + Send,
        call: impl Fn() -> F + Send + Sync,
    ) -> StoreResult<T>
    where
        T: Send,
        F: Future<Output = StoreResult<T>> + Send,
    {
        let fault = {
            let mut state = self.state();
            *state.calls.entry(step).or_default() += 1;
            let next = state.faults.get_mut(&step).and_then(VecDeque::pop_front);
            next.or_else(|| state.broken.get(&step).copied())
        };
        let error = || StoreError::new(StoreErrorKind::Unavailable, "faulty", "call", "a fault was injected");
        match fault {
            None | Some(Fault::Held) => call().await,
            Some(Fault::Before) => Err(error()),
            Some(Fault::LostReply) => {
                let _ = call().await?;
                Err(error().maybe_applied())
            }
            Some(Fault::Duplicate) => {
                let _ = call().await?;
                call().await
            }
            Some(Fault::Delayed) => {
                let requests = request();
                self.state().delayed.extend(requests);
                Err(error().maybe_applied())
            }
        }
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: LockStore> LockStore for FaultyLocks<S> {
    async fn acquire(&self, req: &Acquire) -> StoreResult<Acquired> {
        let request = || vec![Request::Acquire(req.clone())];
        self.call(LockStep::Acquire, request, || self.inner.acquire(req)).await
    }
    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        let request = || vec![Request::Extend(name.clone(), *token, lease)];
        self.call(LockStep::Extend, request, || self.inner.extend(name, token, lease)).await
    }
    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        let request = || vec![Request::Release(name.clone(), *token)];
        self.call(LockStep::Release, request, || self.inner.release(name, token)).await
    }
    async fn show(&self, name: &Name) -> StoreResult<LockInfo> {
        self.inner.show(name).await
    }
    async fn list(&self, req: &ListLocks) -> StoreResult<LockPage> {
        self.inner.list(req).await
    }
    async fn break_lock(&self, name: &Name) -> StoreResult<Option<HolderInfo>> {
        self.inner.break_lock(name).await
    }
    async fn seed_fence(&self, name: &Name, least: Fence) -> StoreResult<Fence> {
        self.inner.seed_fence(name, least).await
    }
    async fn wait(&self, name: &Name, limit: Duration) -> StoreResult<()> {
        self.inner.wait(name, limit).await
    }
    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        self.inner.prune(limit).await
    }
    async fn extend_many(&self, reqs: &[(Name, Token, Span)]) -> Vec<StoreResult<Extended>> {
        let all = || {
            reqs.iter().map(|(name, token, lease)| Request::Extend(name.clone(), *token, *lease)).collect()
        };
        let call = || async { Ok(self.inner.extend_many(reqs).await) };
        match self.call(LockStep::Extend, all, call).await {
            Ok(answers) => answers,
            Err(error) => reqs
                .iter()
                .map(|_| {
                    let copy = StoreError::new(error.kind(), "faulty", "extend", "a fault was injected");
                    Err(if error.applied() == hapax_core::Applied::Unknown {
                        copy.maybe_applied()
                    } else {
                        copy
                    })
                })
                .collect(),
        }
    }
}
