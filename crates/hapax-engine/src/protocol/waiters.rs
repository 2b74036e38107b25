//! Waiting for a call that is in flight, elsewhere or here.
//!
//! Waiters on one key queue at a mutex. Whoever holds it polls, read-only. When the key has settled, the record goes
//! to all of them; when it may be free, the holder keeps the mutex while it tries to reserve, so that the others don't
//! try too. Nobody holds a connection or a writer while waiting.

use super::{call, keeper::Keeper};
use hapax_core::{Name, idempotency::Record};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::OwnedMutexGuard,
    time::{Instant, sleep},
};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(super) struct Waiters {
    turns: Mutex<HashMap<Name, Turn>>,
}

/// The queue of one key, and how the key has settled: who queued before that needs no read of its own.
type Turn = Arc<tokio::sync::Mutex<Option<Record>>>;

/// Why a waiter was woken.
pub(super) enum Woken<'a> {
    /// The call has ended so.
    Settled(Record),
    /// The key may be free: try. Until the place is dropped, no other waiter of this process tries.
    Try(Place<'a>),
}

impl Waiters {
    /// Waits until the key is no longer pending, or the lease that holds it has passed.
    pub(super) async fn wait<'a>(
        &'a self,
        keeper: &Keeper,
        name: &'a Name,
        lease_rest: Duration,
    ) -> Woken<'a> {
        let turn = Arc::clone(self.turns().entry(name.clone()).or_default());
        let mut place = Place { waiters: self, name, turn: Arc::clone(&turn), guard: None };
        let mut guard = turn.lock_owned().await;
        if guard.is_none() {
            *guard = poll(keeper, name, lease_rest).await;
        }
        if let Some(record) = guard.as_ref() {
            let record = record.clone();
            place.close();
            return Woken::Settled(record);
        }
        place.guard = Some(guard);
        Woken::Try(place)
    }

    fn turns(&self) -> MutexGuard<'_, HashMap<Name, Turn>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A waiter's hold on its turn; the last one to leave takes the entry along.
pub(super) struct Place<'a> {
    waiters: &'a Waiters,
    name: &'a Name,
    turn: Turn,
    guard: Option<OwnedMutexGuard<Option<Record>>>,
}

impl Place<'_> {
    /// The turn has its answer: who comes later starts another, for another life of the key.
    fn close(&self) {
        self.leave(|_| true);
    }

    fn leave(&self, when: impl FnOnce(&Turn) -> bool) {
        let mut turns = self.waiters.turns();
        if turns.get(self.name).is_some_and(|turn| Arc::ptr_eq(turn, &self.turn) && when(turn)) {
            turns.remove(self.name);
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.guard = None;
        // The map's hold and this one: nobody else is here, and nobody can come while the map is locked.
        self.leave(|turn| Arc::strong_count(turn) == 2);
    }
}

/// Reads until the key is not pending; answers how it has settled, if it has. Ends at the end of the lease it knows.
async fn poll(keeper: &Keeper, name: &Name, lease_rest: Duration) -> Option<Record> {
    let mut lease_end = call::from_now(lease_rest + jitter(FIRST_PAUSE));
    let mut most = FIRST_PAUSE;
    loop {
        let pause = jitter(most).max(Duration::from_millis(1));
        sleep(pause.min(lease_end.saturating_duration_since(Instant::now()))).await;
        most = (most * 2).min(LONGEST_PAUSE);
        match keeper.read(name).await {
            Ok(Some(record)) if record.is_pending() => {
                let rest = record.until.since(keeper.now());
                if rest.is_zero() {
                    return None;
                }
                lease_end = call::from_now(rest + jitter(FIRST_PAUSE));
            }
            Ok(record) => return record,
            // The reserve that follows says what is wrong.
            Err(_) => return None,
        }
    }
}

fn jitter(most: Duration) -> Duration {
    most.mul_f64(fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::{
        Fingerprint, Key, ManualClock, Namespace, Scope, Span, Token,
        idempotency::{IdempotencyStore, Reserve},
        memory,
    };
    use std::{pin::pin, task::Poll};

    async fn polled_once(future: &mut std::pin::Pin<&mut impl Future<Output = Woken<'static>>>) -> bool {
        std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_that_go_away_leave_nothing() {
        let backend = memory::backend(Arc::new(ManualClock::new()));
        let keeper = Keeper::of(&backend, Duration::from_secs(5));
        let name = Name::new(&Namespace::default(), &Scope::new("s").unwrap(), &Key::new("k").unwrap());
        let (name, waiters): (&'static Name, &'static Waiters) =
            (Box::leak(Box::new(name)), Box::leak(Box::default()));
        let (token, lease) = (Token::random().unwrap(), Span::new(Duration::from_mins(1)).unwrap());
        let request = Reserve { name: name.clone(), token, fingerprint: Fingerprint::ANY, lease };
        let _ = backend.idempotency.reserve(&request).await.unwrap();
        {
            let mut polling = pin!(waiters.wait(&keeper, name, lease.get()));
            let mut queued = pin!(waiters.wait(&keeper, name, lease.get()));
            assert!(!polled_once(&mut polling).await && !polled_once(&mut queued).await);
            assert_eq!(waiters.turns().len(), 1);
        }
        assert_eq!(waiters.turns().len(), 0);

        let _ = backend.idempotency.release(name, &token).await.unwrap();
        let woken = waiters.wait(&keeper, name, lease.get()).await;
        assert!(matches!(woken, Woken::Try(_)));
        assert_eq!(waiters.turns().len(), 1, "its turn lasts while it tries");
        drop(woken);
        assert_eq!(waiters.turns().len(), 0);
    }
}
