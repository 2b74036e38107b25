//! A store that fails when told, on a clock that follows the paused time of the runtime.

mod clock;
mod effects;
mod logs;
mod store;

pub(crate) use clock::PausedClock;
pub(crate) use effects::{Broken, Calls, Failure, once, poll_over_time, poll_times, until};
pub(crate) use logs::Logs;
pub(crate) use store::{Fault, Op, Scripted};

use hapax_core::{
    Backend, Fingerprint, Namespace, Span, Token,
    idempotency::{IdempotencyStore, Record, RecordState, Reserve, Reserved},
};
use hapax_engine::{Idempotency, Keeper, KeyState};
use std::{sync::Arc, time::Duration};

pub(crate) const LEASE: Duration = Duration::from_mins(1);
pub(crate) const DAY: Duration = Duration::from_hours(24);

pub(crate) fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// One store, and any number of processes that share it. Needs a runtime whose time is paused.
pub(crate) struct World {
    pub(crate) store: Arc<Scripted>,
    pub(crate) clock: PausedClock,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = PausedClock::new();
        Self { store: Arc::new(Scripted::new(clock.clone())), clock }
    }

    /// A store whose steps yield before and after they are applied.
    pub(crate) fn yielding() -> Self {
        let clock = PausedClock::new();
        Self { store: Arc::new(Scripted::new(clock.clone()).yielding()), clock }
    }

    /// What another process sees: a keeper of its own.
    pub(crate) fn process(&self) -> Idempotency {
        let store: Arc<dyn IdempotencyStore> = Arc::clone(&self.store) as _;
        let backend = Backend::new("scripted", store).with_clock(Arc::new(self.clock.clone()));
        Idempotency::on(Keeper::of(&backend, secs(5)), Ok(Namespace::default()), "test")
    }

    /// What the store holds, whatever a process still has to tell it.
    pub(crate) async fn record(&self, key: &str) -> Option<Record> {
        let name = self.process().name(key).unwrap();
        self.store.record(&name).await
    }

    pub(crate) async fn state(&self, key: &str) -> State {
        State::of(&self.process().get(key).await.unwrap())
    }

    /// A process that reserved `key` and died.
    pub(crate) async fn dead_owner(&self, key: &str, fingerprint: Fingerprint, lease: Duration) -> Token {
        let (name, token) = (self.process().name(key).unwrap(), Token::random().unwrap());
        let request = Reserve { name, token, fingerprint, lease: Span::new(lease).unwrap() };
        assert!(matches!(self.store.inner().reserve(&request).await, Ok(Reserved::Yours { .. })));
        token
    }
}

/// What lies under a key, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Vacant,
    Pending,
    Done,
    Unknown,
    Unreadable,
}

impl State {
    fn of(state: &KeyState) -> Self {
        match state {
            KeyState::Vacant => Self::Vacant,
            KeyState::Pending { .. } => Self::Pending,
            KeyState::Done { .. } => Self::Done,
            KeyState::Unknown { .. } => Self::Unknown,
            _ => Self::Unreadable,
        }
    }
}

/// The codec and the text of a kept receipt.
pub(crate) fn receipt(record: &Record) -> (String, String) {
    let RecordState::Settled { receipt, .. } = &record.state else { panic!("not settled: {record:?}") };
    (receipt.codec.to_string(), String::from_utf8_lossy(&receipt.bytes).into_owned())
}
