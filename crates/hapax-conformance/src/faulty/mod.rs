//! A store whose calls fail as a network makes them fail.

mod lock;
mod request;

pub use lock::{FaultyLocks, LockStep};
pub use request::{Answer, Request, Step};

use hapax_core::{
    Name, Span, StoreError, StoreErrorKind, StoreResult, Token, async_trait,
    idempotency::{
        Complete, Completed, Dropped, Extended, IdempotencyStore, List, Page, Record, Reserve, Reserved,
        Resolve, Resolved, Retake, Retaken, Write,
    },
};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// What happens to a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The store is not reached: an error with `Applied::No`.
    Before,
    /// The step is done and its reply is lost: an error with `Applied::Unknown`.
    LostReply,
    /// The request is on its way when its sender gives up: an error with `Applied::Unknown`, and the step is done when
    /// [`Faulty::deliver_delayed`] is called, or never.
    Delayed,
    /// The request arrives twice; the second answer is the one that comes back.
    Duplicate,
    /// The call waits until [`Faulty::let_through`], then goes on as usual.
    Held,
}

/// Decorates a store with faults, each put on one step. Calls without a fault pass through.
///
/// A batch is one call: a fault meets all of it, as the loss of one command does.
///
/// ```
/// # use hapax_conformance::faulty::{Fault, Faulty, Step};
/// # use hapax_core::{*, idempotency::*, memory::MemoryStore};
/// # use std::{sync::Arc, time::Duration};
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let store = Faulty::new(MemoryStore::new(Arc::new(ManualClock::new())));
/// store.inject(Step::Reserve, Fault::LostReply);
///
/// let name = Name::new(&Namespace::default(), &Scope::new("test")?, &Key::new("k")?);
/// let lease = Span::new(Duration::from_mins(1))?;
/// let request = Reserve { name, token: Token::random()?, fingerprint: Fingerprint::ANY, lease };
/// let lost = store.reserve(&request).await;
/// assert!(matches!(lost, Err(error) if error.applied() == Applied::Unknown));
/// assert!(matches!(store.reserve(&request).await?, Reserved::Yours { .. }));
/// # Ok::<(), BoxError>(())
/// # })?;
/// # Ok::<(), BoxError>(())
/// ```
#[derive(Debug)]
pub struct Faulty<S> {
    inner: S,
    state: Mutex<State>,
    /// Calls so far, for those who wait for one.
    calls: watch::Sender<HashMap<Step, usize>>,
    /// How often held calls were let through.
    opened: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct State {
    next: HashMap<Step, VecDeque<Fault>>,
    lasting: HashMap<Step, Fault>,
    sent: Vec<Request>,
    delayed: Vec<Request>,
}

impl<S: IdempotencyStore> Faulty<S> {
    /// A store without faults so far.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            state: Mutex::default(),
            calls: watch::Sender::default(),
            opened: watch::Sender::default(),
        }
    }

    /// Puts a fault on the next call of a step; several come one after another.
    pub fn inject(&self, step: Step, fault: Fault) {
        self.state().next.entry(step).or_default().push_back(fault);
    }

    /// Puts a fault on every call of a step from now on, after those put on single calls.
    pub fn break_step(&self, step: Step, fault: Fault) {
        self.state().lasting.insert(step, fault);
    }

    /// Takes all faults away. Delayed and held calls stay so.
    pub fn heal(&self) {
        let mut state = self.state();
        state.next.clear();
        state.lasting.clear();
    }

    /// Lets the calls go on that are held at this moment; [`called`](Self::called) tells when there is one.
    pub fn let_through(&self) {
        self.opened.send_modify(|opened| *opened += 1);
    }

    /// Delivers the delayed requests, oldest first, each once; nobody waits for the answers.
    pub async fn deliver_delayed(&self) -> Vec<StoreResult<Answer>> {
        let delayed = std::mem::take(&mut self.state().delayed);
        let mut answers = Vec::with_capacity(delayed.len());
        for request in delayed {
            answers.push(request.send(&self.inner).await);
        }
        answers
    }

    /// All writing requests so far, those of faulty calls included, oldest first. Sent to the store inside by
    /// [`Request::send`], one is a duplicate that arrives late.
    pub fn sent(&self) -> Vec<Request> {
        self.state().sent.clone()
    }

    /// How many calls of a step were made: a batch is one.
    pub fn calls(&self, step: Step) -> usize {
        self.calls.borrow().get(&step).copied().unwrap_or_default()
    }

    /// How many calls were made: a batch is one.
    pub fn all_calls(&self) -> usize {
        self.calls.borrow().values().sum()
    }

    /// Waits until so many calls of a step were made.
    pub async fn called(&self, step: Step, times: usize) {
        let mut calls = self.calls.subscribe();
        // The sender lives as long as `self`.
        let _ = calls.wait_for(|calls| calls.get(&step).is_some_and(|so_far| *so_far >= times)).await;
    }

    /// The store inside.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The store inside.
    pub fn into_inner(self) -> S {
        self.inner
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call and picks its fault.
    fn begin(&self, step: Step, requests: &[Request]) -> Option<Fault> {
        let fault = {
            let mut state = self.state();
            state.sent.extend_from_slice(requests);
            let next = state.next.get_mut(&step).and_then(VecDeque::pop_front);
            let fault = next.or_else(|| state.lasting.get(&step).copied());
            if fault == Some(Fault::Delayed) {
                state.delayed.extend_from_slice(requests);
            }
            fault
        };
        self.calls.send_modify(|calls| *calls.entry(step).or_default() += 1);
        fault
    }

    /// Makes one call; `fail` makes its answer out of errors.
    async fn call<T, F>(
        &self,
        step: Step,
        requests: &[Request],
        fail: impl Fn(&dyn Fn() -> StoreError) -> T + Send,
        call: impl Fn() -> F + Send,
    ) -> T
    where
        F: Future<Output = T> + Send,
        T: Send,
    {
        // Before the call is counted: who waits for the count may let it through at once.
        let mut opened = self.opened.subscribe();
        match self.begin(step, requests) {
            None => call().await,
            Some(Fault::Before) => fail(&not_reached),
            Some(Fault::Delayed) => fail(&not_answered),
            Some(Fault::LostReply) => {
                drop(call().await);
                fail(&not_answered)
            }
            Some(Fault::Duplicate) => {
                drop(call().await);
                call().await
            }
            Some(Fault::Held) => {
                // The sender lives as long as `self`.
                let _ = opened.changed().await;
                call().await
            }
        }
    }
}

fn not_reached() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "faulty", "reach the store", "the connection was refused")
}

fn not_answered() -> StoreError {
    StoreError::new(StoreErrorKind::Timeout, "faulty", "read the reply", "the connection was cut")
        .maybe_applied()
}

fn single<T>(error: &dyn Fn() -> StoreError) -> StoreResult<T> {
    Err(error())
}

fn each<T>(of: usize) -> impl Fn(&dyn Fn() -> StoreError) -> Vec<StoreResult<T>> {
    move |error| (0..of).map(|_| Err(error())).collect()
}

fn all<T: Clone>(reqs: &[T], request: impl Fn(T) -> Request) -> Vec<Request> {
    reqs.iter().cloned().map(request).collect()
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: IdempotencyStore> IdempotencyStore for Faulty<S> {
    async fn reserve(&self, req: &Reserve) -> StoreResult<Reserved> {
        let sent = [Request::Reserve(req.clone())];
        self.call(Step::Reserve, &sent, single, || self.inner.reserve(req)).await
    }
    async fn complete(&self, req: &Complete) -> StoreResult<Completed> {
        let sent = [Request::Complete(req.clone())];
        self.call(Step::Complete, &sent, single, || self.inner.complete(req)).await
    }
    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        let sent = [Request::Release(name.clone(), *token)];
        self.call(Step::Release, &sent, single, || self.inner.release(name, token)).await
    }
    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        let sent = [Request::Extend(name.clone(), *token, lease)];
        self.call(Step::Extend, &sent, single, || self.inner.extend(name, token, lease)).await
    }
    async fn retake_unknown(&self, req: &Retake) -> StoreResult<Retaken> {
        let sent = [Request::RetakeUnknown(req.clone())];
        self.call(Step::RetakeUnknown, &sent, single, || self.inner.retake_unknown(req)).await
    }
    async fn drop_unknown(&self, name: &Name, token: &Token) -> StoreResult<Dropped> {
        let sent = [Request::DropUnknown(name.clone(), *token)];
        self.call(Step::DropUnknown, &sent, single, || self.inner.drop_unknown(name, token)).await
    }
    async fn resolve(&self, req: &Resolve) -> StoreResult<Resolved> {
        let sent = [Request::Resolve(req.clone())];
        self.call(Step::Resolve, &sent, single, || self.inner.resolve(req)).await
    }
    async fn force_release(&self, name: &Name) -> StoreResult<Write> {
        let sent = [Request::ForceRelease(name.clone())];
        self.call(Step::ForceRelease, &sent, single, || self.inner.force_release(name)).await
    }
    async fn read(&self, name: &Name) -> StoreResult<Option<Record>> {
        self.call(Step::Read, &[], single, || self.inner.read(name)).await
    }
    fn token(&self) -> StoreResult<Token> {
        self.inner.token()
    }

    /// Nothing: each question is one that may fail.
    fn peek(&self, _: &Name) -> Option<Record> {
        None
    }

    async fn list(&self, req: &List) -> StoreResult<Page> {
        self.call(Step::List, &[], single, || self.inner.list(req)).await
    }
    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        self.call(Step::Prune, &[], single, || self.inner.prune(limit)).await
    }
    async fn reserve_many(&self, reqs: &[Reserve]) -> Vec<StoreResult<Reserved>> {
        let sent = all(reqs, Request::Reserve);
        self.call(Step::Reserve, &sent, each(reqs.len()), || self.inner.reserve_many(reqs)).await
    }
    async fn complete_many(&self, reqs: &[Complete]) -> Vec<StoreResult<Completed>> {
        let sent = all(reqs, Request::Complete);
        self.call(Step::Complete, &sent, each(reqs.len()), || self.inner.complete_many(reqs)).await
    }
    async fn extend_many(&self, reqs: &[(Name, Token, Span)]) -> Vec<StoreResult<Extended>> {
        let sent = all(reqs, |(name, token, lease)| Request::Extend(name, token, lease));
        self.call(Step::Extend, &sent, each(reqs.len()), || self.inner.extend_many(reqs)).await
    }
    async fn release_many(&self, reqs: &[(Name, Token)]) -> Vec<StoreResult<Write>> {
        let sent = all(reqs, |(name, token)| Request::Release(name, token));
        self.call(Step::Release, &sent, each(reqs.len()), || self.inner.release_many(reqs)).await
    }
    async fn secret(&self) -> StoreResult<Option<[u8; 32]>> {
        self.call(Step::Secret, &[], single, || self.inner.secret()).await
    }
}
