//! Results and releases that the store has not taken yet.

use super::{
    call,
    keeper::{Inner, Keeper},
    renewer::Renewal,
    reservation::report,
    unreadable::{UNENCODABLE, unencodable},
};
use hapax_core::{
    Name, StoreErrorKind, Timestamp, Token,
    idempotency::{Complete, Kind, Record, RecordState},
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// More results than this do not wait: the oldest goes, warned about.
const MOST: usize = 10_000;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Background {
    state: Mutex<State>,
    done: Notify,
}

#[derive(Debug, Default)]
struct State {
    next_id: u64,
    results: Results,
    given_up: usize,
    releases: usize,
}

/// Results on their way, by age and by name. A name has more than one when a lease was lost and the key taken again.
#[derive(Debug, Default)]
struct Results {
    by_age: BTreeMap<u64, Name>,
    by_name: HashMap<Name, Vec<(u64, Record)>>,
}

/// What [`Keeper::close`] found.
#[must_use = "it says what could not be stored"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// Receipts that could not be stored: the calls run again once their leases have passed.
    pub unstored: usize,
    /// Keys that could not be freed: they are free once their leases have passed.
    pub unreleased: usize,
}

impl Closed {
    /// Whether everything is in the store.
    pub fn is_clean(&self) -> bool {
        self.unstored == 0 && self.unreleased == 0
    }
}

impl Results {
    fn add(&mut self, id: u64, name: &Name, record: Record) {
        self.by_age.insert(id, name.clone());
        self.by_name.entry(name.clone()).or_default().push((id, record));
    }

    fn remove(&mut self, id: u64) -> Option<Name> {
        let name = self.by_age.remove(&id)?;
        if let Some(records) = self.by_name.get_mut(&name) {
            records.retain(|(held, _)| *held != id);
            if records.is_empty() {
                self.by_name.remove(&name);
            }
        }
        Some(name)
    }

    /// What the store will say once it has them: a success before an unknown outcome, then the first.
    fn get(&self, name: &Name, now: Timestamp) -> Option<&Record> {
        let mut live =
            self.by_name.get(name)?.iter().map(|(_, record)| record).filter(|record| record.until > now);
        let is_done =
            |record: &&Record| matches!(record.state, RecordState::Settled { kind: Kind::Done, .. });
        live.clone().find(is_done).or_else(|| live.next())
    }
}

impl Background {
    /// The result under `name` that is on its way.
    pub(super) fn record(&self, name: &Name, now: impl FnOnce() -> Timestamp) -> Option<Record> {
        let state = self.state();
        // Hardly ever is there one: every call asks.
        if state.results.by_age.is_empty() { None } else { state.results.get(name, now()).cloned() }
    }

    /// Retries a completion until it is stored or its time is over. The lease is renewed meanwhile.
    pub(super) fn complete(
        &self,
        keeper: &Keeper,
        complete: Complete,
        renewal: Option<Renewal>,
        first_at: Timestamp,
    ) {
        let record = Record::on_its_way(&complete, first_at, &keeper.inner.clock.read());
        let until = record.until;
        let id = self.add(&complete.name, record);
        let inner = Arc::clone(&keeper.inner);
        keeper.inner.runner.spawn(async move {
            let stored = keep_trying(&inner, id, complete, until).await;
            drop(renewal);
            inner.background.end(|state| {
                if state.results.remove(id).is_some() && !stored {
                    state.given_up += 1;
                }
            });
        });
    }

    /// Retries a release until it is done or `lease` has passed and nothing is left to free.
    pub(super) fn release(&self, keeper: &Keeper, name: Name, token: Token, lease: Duration) {
        self.state().releases += 1;
        let inner = Arc::clone(&keeper.inner);
        keeper.inner.runner.spawn(async move {
            let given_up_at = call::from_now(lease);
            let mut pause = FIRST_PAUSE;
            while call::one(inner.timeout, "release", inner.store().release(&name, &token)).await.is_err() {
                if Instant::now() + pause > given_up_at {
                    break;
                }
                next(&mut pause).await;
            }
            inner.background.end(|state| state.releases -= 1);
        });
    }

    pub(super) async fn drain(&self, within: Duration) -> Closed {
        let deadline = call::from_now(within);
        loop {
            let done = self.done.notified();
            tokio::pin!(done);
            // Registered before the look: a last one that ends in between is not missed.
            done.as_mut().enable();
            let (left, waiting) = {
                let state = self.state();
                let waiting = state.results.by_age.len();
                (Closed { unstored: waiting + state.given_up, unreleased: state.releases }, waiting)
            };
            if (waiting == 0 && left.unreleased == 0)
                || tokio::time::timeout_at(deadline, done).await.is_err()
            {
                return left;
            }
        }
    }

    fn add(&self, name: &Name, record: Record) -> u64 {
        let mut state = self.state();
        let id = state.next_id;
        state.next_id += 1;
        if state.results.by_age.len() >= MOST
            && let Some((oldest, _)) = state.results.by_age.first_key_value()
            && let oldest = *oldest
            && let Some(name) = state.results.remove(oldest)
        {
            state.given_up += 1;
            let code = "idempotency.complete_failed";
            tracing::error!(key = ?name, code, "too many receipts wait: this one is given up");
        }
        state.results.add(id, name, record);
        id
    }

    fn holds(&self, id: u64) -> bool {
        self.state().results.by_age.contains_key(&id)
    }

    fn end(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.done.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers whether the result is in the store.
async fn keep_trying(inner: &Inner, id: u64, mut complete: Complete, until: Timestamp) -> bool {
    let mut pause = FIRST_PAUSE;
    while inner.background.holds(id) {
        match call::one(inner.timeout, "complete", inner.store().complete(&complete)).await {
            Ok(answer) => {
                let _ = report(&complete.name, answer);
                return true;
            }
            // It never will: too large, say. Without any result the effect would run again.
            Err(error)
                if error.kind() == StoreErrorKind::Unsupported && complete.receipt.codec != UNENCODABLE =>
            {
                let code = "idempotency.unreadable";
                tracing::warn!(key = ?complete.name, code, %error, "a receipt is kept without its content");
                complete.receipt = unencodable(&format!("the store does not hold the result: {error}"));
                continue;
            }
            Err(error) => tracing::debug!(key = ?complete.name, %error, "a receipt could not be stored yet"),
        }
        if inner.clock.now().after(pause) > until {
            let code = "idempotency.complete_failed";
            tracing::error!(key = ?complete.name, code, "a receipt was never stored");
            return false;
        }
        next(&mut pause).await;
    }
    false
}

/// Backs off with equal jitter.
async fn next(pause: &mut Duration) {
    tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
    *pause = (*pause * 2).min(LONGEST_PAUSE);
}
