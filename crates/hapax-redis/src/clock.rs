//! What the server's clock shows, by the difference that its last answer told.
//!
//! No store step is decided by it: leases and results end by the server's own expiry. It fills in the instants that a
//! record shows where no script wrote them, and lets callers compare those with now, whatever their own clock shows.

use hapax_core::{BootTime, Clock, Now, SystemClock, Timestamp};
use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

/// Carried on by the clock that counts from the start of the machine: setting the wall clock changes nothing.
#[derive(Debug, Default)]
pub(crate) struct ServerClock {
    ahead: AtomicI64,
}

impl ServerClock {
    /// The server has just said what it shows.
    pub(crate) fn shows(&self, ms: i64) {
        self.ahead.store(ms.saturating_sub(here()), Ordering::Relaxed);
    }

    /// In milliseconds since 1970.
    pub(crate) fn millis(&self) -> i64 {
        here().saturating_add(self.ahead.load(Ordering::Relaxed))
    }
}

fn here() -> i64 {
    i64::try_from(SystemClock.boot().as_millis()).unwrap_or(i64::MAX)
}

impl Clock for ServerClock {
    fn read(&self) -> Now {
        Now { wall: Clock::now(self), boot: self.boot() }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis())
    }

    fn boot(&self) -> BootTime {
        SystemClock.boot()
    }

    fn boot_id(&self) -> Arc<str> {
        SystemClock.boot_id()
    }
}
