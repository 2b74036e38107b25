//! The keys of one store, as this process holds them.

use super::{
    background::{Background, Closed},
    call,
    renewer::{Leases, Renewer},
    reservation::Reservation,
    runner::Runner,
    terms::Terms,
    waiters::{Waiters, Woken},
};
use crate::IdempotencyError;
use hapax_core::{
    Applied, Backend, BootTime, Clock, Fingerprint, Name, StoreError, StoreResult, SystemClock, Timestamp,
    fingerprint::Agreement,
    idempotency::{
        IdempotencyStore, Record, RecordState, Reserve, Reserved, Resolve, Resolved, Retake, Retaken, Write,
    },
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// So many keys of a batch are looked up before other tasks of the thread have their turn.
const LOOKS: usize = 64;

/// Reserves keys of one store, renews what it reserved, and finishes what callers left. Cheap to clone; one per store
/// and process, so that renewals go together and a result that waits to be stored answers later calls.
#[derive(Clone, Debug)]
pub struct Keeper {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) store: Arc<dyn IdempotencyStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) timeout: Duration,
    pub(super) runner: Runner,
    pub(super) renewer: Arc<Renewer>,
    pub(super) background: Arc<Background>,
    waiters: Waiters,
    warned_fingerprint: AtomicBool,
}

/// Answer to a reservation.
#[must_use]
#[derive(Debug)]
pub enum Begun {
    /// The key is ours.
    Mine(Reservation),
    /// An earlier call under the key ended; the fingerprint agrees.
    Settled(Record),
}

impl Inner {
    /// Not by way of the `Arc`, whose own implementation would box each call a second time.
    pub(super) fn store(&self) -> &dyn IdempotencyStore {
        &*self.store
    }
}

impl Keeper {
    /// Over any store, on the machine's clock.
    pub fn new(store: Arc<dyn IdempotencyStore>) -> Self {
        Self::with(store, Arc::new(SystemClock), Duration::from_secs(5))
    }

    /// Over the store of a backend, on its clock.
    pub fn of(backend: &Backend, timeout: Duration) -> Self {
        Self::with(Arc::clone(&backend.idempotency), Arc::clone(&backend.clock), timeout)
    }

    fn with(store: Arc<dyn IdempotencyStore>, clock: Arc<dyn Clock>, timeout: Duration) -> Self {
        let renewer = Renewer::new(Leases::Keys(Arc::clone(&store)), Arc::clone(&clock), timeout);
        let (runner, background) = (Runner::new(clock.is_manual()), Arc::default());
        let inner = Inner {
            store,
            clock,
            timeout,
            runner,
            renewer,
            background,
            waiters: Waiters::default(),
            warned_fingerprint: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The store itself.
    pub fn store(&self) -> &Arc<dyn IdempotencyStore> {
        &self.inner.store
    }

    /// The clock of this process.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// Reserves `name`, or answers how an earlier call ended. With [`Terms::wait`] it waits for a call in flight.
    ///
    /// # Errors
    /// `idempotency.in_flight`, `idempotency.key_reused`, `idempotency.unreadable`, `idempotency.store_failed`.
    ///
    /// # Cancel safety
    /// A reservation that was granted meanwhile is released.
    pub async fn reserve(
        &self,
        name: &Name,
        fingerprint: Fingerprint,
        terms: &Terms,
    ) -> Result<Begun, IdempotencyError> {
        let answer = self.reserve_now(name, fingerprint, terms).await;
        self.waited(answer, name, fingerprint, terms).await
    }

    /// As [`reserve`](Self::reserve), after a [`glance`](Self::glance) that found nothing.
    pub(crate) async fn reserve_unseen(
        &self,
        name: &Name,
        fingerprint: Fingerprint,
        terms: &Terms,
    ) -> Result<Begun, IdempotencyError> {
        let answer = self.reserve_vacant(name, fingerprint, terms).await;
        self.waited(answer, name, fingerprint, terms).await
    }

    async fn waited(
        &self,
        answer: Result<Begun, IdempotencyError>,
        name: &Name,
        fingerprint: Fingerprint,
        terms: &Terms,
    ) -> Result<Begun, IdempotencyError> {
        match (terms.wait, &answer) {
            (Some(limit), Err(IdempotencyError::InFlight { .. })) => {
                Box::pin(self.wait_and_reserve(name, fingerprint, terms, limit, answer)).await
            }
            _ => answer,
        }
    }

    /// After a first answer that a call is in flight.
    async fn wait_and_reserve(
        &self,
        name: &Name,
        fingerprint: Fingerprint,
        terms: &Terms,
        limit: Duration,
        mut answer: Result<Begun, IdempotencyError>,
    ) -> Result<Begun, IdempotencyError> {
        let waits_until = call::from_now(limit);
        while let Err(IdempotencyError::InFlight { retry_after }) = answer {
            let woken = self.inner.waiters.wait(self, name, retry_after);
            answer = match tokio::time::timeout_at(waits_until, woken).await {
                Ok(Woken::Settled(record)) => self.held(fingerprint, name, record),
                // Held while the store is asked: one waiter of this process tries at a time.
                Ok(Woken::Try(_place)) => self.reserve_now(name, fingerprint, terms).await,
                Err(_) => return self.waited_enough(name, fingerprint, terms).await,
            };
        }
        answer
    }

    /// Reserves a batch in one step where the store can. Never waits; answers in order.
    ///
    /// # Cancel safety
    /// As [`reserve`](Self::reserve).
    pub async fn reserve_many(
        &self,
        calls: &[(Name, Fingerprint)],
        terms: &Terms,
    ) -> Vec<Result<Begun, IdempotencyError>> {
        let mut answers: Vec<Option<Result<Begun, IdempotencyError>>> = Vec::with_capacity(calls.len());
        let (mut open, mut requests) = (Vec::new(), Vec::new());
        for (i, (name, fingerprint)) in calls.iter().enumerate() {
            if i % LOOKS == LOOKS - 1 {
                tokio::task::yield_now().await;
            }
            let known = self.known(name, *fingerprint);
            let request = if known.is_none() { Some(self.request(name, *fingerprint, terms)) } else { None };
            answers.push(match request {
                Some(Ok(request)) => {
                    open.push(i);
                    requests.push(request);
                    None
                }
                Some(Err(error)) => Some(Err(error)),
                None => known,
            });
        }
        if requests.is_empty() {
            return answers.into_iter().flatten().collect();
        }
        let asked = self.inner.clock.boot();
        let guard = Unclaimed { keeper: self, requests: &requests, armed: true };
        let step = self.inner.store().reserve_many(&requests);
        let replies = call::many(self.call_limit(terms), "reserve", requests.len(), step).await;
        guard.disarm();
        for ((at, request), reply) in open.into_iter().zip(&requests).zip(replies) {
            if let Some(answer) = answers.get_mut(at) {
                *answer = Some(self.judge(request, reply, terms, asked));
            }
        }
        // Each has an answer by now: those of this process, and one for each request.
        let answers: Vec<_> = answers.into_iter().flatten().collect();
        warn_not_reserved(calls.iter().map(|(name, _)| name).zip(&answers));
        answers
    }

    /// Holds a key of unknown outcome while somebody is asked about it: releasing the reservation brings the unknown
    /// record back. `None` when the outcome is no longer unknown.
    pub async fn retake(
        &self,
        name: &Name,
        fingerprint: Fingerprint,
        terms: &Terms,
    ) -> Result<Option<Reservation>, IdempotencyError> {
        let request = self.request(name, fingerprint, terms)?;
        let retake = Retake { name: name.clone(), token: request.token, fingerprint, lease: request.lease };
        let asked = self.inner.clock.boot();
        let guard = Unclaimed { keeper: self, requests: std::slice::from_ref(&request), armed: true };
        let answer =
            call::one(self.call_limit(terms), "retake", self.inner.store().retake_unknown(&retake)).await;
        guard.disarm();
        match answer {
            Ok(Retaken::Yours { first_at, .. }) => {
                Ok(Some(Reservation::new(self.clone(), &request, *terms, first_at, asked)))
            }
            Ok(Retaken::Changed(_)) => Ok(None),
            Err(error) => {
                let answer = Err(self.store_failed(&request, error));
                warn_not_reserved(std::iter::once((name, &answer)));
                answer
            }
        }
    }

    /// What is under `name`; a result that waits to be stored counts.
    pub async fn read(&self, name: &Name) -> StoreResult<Option<Record>> {
        if let Some(record) = self.inner.background.record(name, || self.now()) {
            return Ok(Some(record));
        }
        call::one(self.inner.timeout, "read", self.inner.store().read(name)).await
    }

    /// Ends a pending reservation whoever holds it.
    pub async fn force_release(&self, name: &Name) -> StoreResult<Write> {
        call::one(self.inner.timeout, "release", self.inner.store().force_release(name)).await
    }

    /// Settles an unknown outcome by a verdict.
    pub async fn resolve(&self, verdict: &Resolve) -> StoreResult<Resolved> {
        call::one(self.inner.timeout, "resolve", self.inner.store().resolve(verdict)).await
    }

    /// Waits until everything that callers left is stored or released, `within` at most.
    pub async fn close(&self, within: Duration) -> Closed {
        self.inner.background.drain(within).await
    }

    async fn reserve_now(
        &self,
        name: &Name,
        fingerprint: Fingerprint,
        terms: &Terms,
    ) -> Result<Begun, IdempotencyError> {
        match self.known(name, fingerprint) {
            Some(answer) => answer,
            None => self.reserve_vacant(name, fingerprint, terms).await,
        }
    }

    async fn reserve_vacant(
        &self,
        name: &Name,
        fingerprint: Fingerprint,
        terms: &Terms,
    ) -> Result<Begun, IdempotencyError> {
        let request = self.request(name, fingerprint, terms)?;
        let asked = self.inner.clock.boot();
        let guard = Unclaimed { keeper: self, requests: std::slice::from_ref(&request), armed: true };
        let reply = call::one(self.call_limit(terms), "reserve", self.inner.store().reserve(&request)).await;
        guard.disarm();
        let answer = self.judge(&request, reply, terms, asked);
        warn_not_reserved(std::iter::once((name, &answer)));
        answer
    }

    /// What can be answered without a request: a result of this process that the store has not taken yet, or what the
    /// store sees at once.
    fn known(&self, name: &Name, fingerprint: Fingerprint) -> Option<Result<Begun, IdempotencyError>> {
        Some(self.held(fingerprint, name, self.glance(name)?))
    }

    /// The record that can be seen without a request.
    pub(crate) fn glance(&self, name: &Name) -> Option<Record> {
        self.inner.background.record(name, || self.now()).or_else(|| self.inner.store().peek(name))
    }

    fn judge(
        &self,
        request: &Reserve,
        reply: StoreResult<Reserved>,
        terms: &Terms,
        asked: BootTime,
    ) -> Result<Begun, IdempotencyError> {
        match reply {
            Ok(Reserved::Yours { first_at, .. }) => {
                Ok(Begun::Mine(Reservation::new(self.clone(), request, *terms, first_at, asked)))
            }
            Ok(Reserved::Held(record)) => self.held(request.fingerprint, &request.name, record),
            Err(error) => Err(self.store_failed(request, error)),
        }
    }

    /// What a record under the key means for a request.
    fn held(&self, fingerprint: Fingerprint, name: &Name, record: Record) -> Result<Begun, IdempotencyError> {
        if matches!(record.state, RecordState::Unreadable) {
            return Err(IdempotencyError::unreadable("it was written by a newer version of hapax"));
        }
        self.agree(fingerprint, &record.fingerprint)?;
        if record.is_pending() {
            tracing::info!(key = ?name, code = "idempotency.in_flight", "a call is in flight");
            return Err(IdempotencyError::in_flight(self.rest(&record)));
        }
        Ok(Begun::Settled(record))
    }

    /// The last answer to a waiter whose limit has passed.
    async fn waited_enough(
        &self,
        name: &Name,
        fingerprint: Fingerprint,
        terms: &Terms,
    ) -> Result<Begun, IdempotencyError> {
        match self.read(name).await {
            Ok(Some(record)) => self.held(fingerprint, name, record),
            Ok(None) | Err(_) => self.reserve_now(name, fingerprint, terms).await,
        }
    }

    /// The rest of the lease; never nothing, so that nobody retries without a pause.
    fn rest(&self, record: &Record) -> Duration {
        record.until.since(self.now()).max(Duration::from_millis(1))
    }

    fn agree(&self, ours: Fingerprint, stored: &Fingerprint) -> Result<(), IdempotencyError> {
        match ours.agrees_with(stored) {
            Agreement::Same => Ok(()),
            Agreement::Unknowable => {
                let both_any = ours == Fingerprint::ANY && *stored == Fingerprint::ANY;
                if !both_any && !self.inner.warned_fingerprint.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        code = "idempotency.fingerprint_unknown",
                        "a stored fingerprint that cannot be compared counts as equal; further ones are not reported"
                    );
                }
                Ok(())
            }
            Agreement::Other => {
                tracing::warn!(code = "idempotency.key_reused", "a key was used for a different request");
                Err(IdempotencyError::key_reused())
            }
        }
    }

    fn store_failed(&self, request: &Reserve, error: StoreError) -> IdempotencyError {
        if error.applied() == Applied::Unknown {
            self.give_back(request);
        }
        IdempotencyError::store_failed(error)
    }

    /// One best-effort release of a reservation that may have been granted.
    fn give_back(&self, request: &Reserve) {
        self.inner.background.release(self, request.name.clone(), request.token, request.lease.get());
    }

    fn request(
        &self,
        name: &Name,
        fingerprint: Fingerprint,
        terms: &Terms,
    ) -> Result<Reserve, IdempotencyError> {
        let token = self.inner.store().token().map_err(IdempotencyError::store_failed)?;
        Ok(Reserve { name: name.clone(), token, fingerprint, lease: terms.lease })
    }

    /// A call that takes longer than this cannot leave enough of the lease.
    pub(super) fn call_limit(&self, terms: &Terms) -> Duration {
        self.inner.timeout.min(terms.lease.get() / 4)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }
}

/// One warning for a call, however many keys it was for.
fn warn_not_reserved<'a, T: 'a>(answers: impl Iterator<Item = (&'a Name, &'a Result<T, IdempotencyError>)>) {
    let mut failed = answers.filter_map(|(name, answer)| match answer {
        Err(IdempotencyError::StoreFailed { source }) => Some((name, source)),
        _ => None,
    });
    if let Some((name, error)) = failed.next() {
        let (keys, code) = (1 + failed.count(), "idempotency.store_failed");
        tracing::warn!(key = ?name, keys, code, %error, "keys could not be reserved");
    }
}

/// Gives reservations back when their caller goes away before it hears of them.
struct Unclaimed<'a> {
    keeper: &'a Keeper,
    requests: &'a [Reserve],
    armed: bool,
}

impl Unclaimed<'_> {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Unclaimed<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.requests.iter().for_each(|request| self.keeper.give_back(request));
        }
    }
}
