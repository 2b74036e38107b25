//! What the server's clock shows, by the difference that its last answer told.
//!
//! No store step is decided by it: leases and results end by the server's own expiry. It fills in the instants that a
//! record shows where no script asked for the time, and lets callers compare those with now, whatever their own clock shows.

use hapax_core::{BootTime, Clock, Now, SystemClock, Timestamp};
use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

/// Carried on by the clock that counts from the start of the machine: setting the wall clock changes nothing.
#[derive(Debug, Default)]
pub(crate) struct ServerClock {
    ahead: AtomicI64,
    /// When the server last said what it shows.
    told: AtomicI64,
}

/// So many milliseconds what the server said is carried on before it is asked again: its clock may be set.
const FRESH: i64 = 1000;

impl ServerClock {
    /// The server has just said what it shows.
    pub(crate) fn shows(&self, ms: i64) {
        let here = here();
        self.ahead.store(ms.saturating_sub(here), Ordering::Relaxed);
        self.told.store(here, Ordering::Relaxed);
    }

    /// In milliseconds since 1970, where the server said it a short while ago.
    pub(crate) fn fresh(&self) -> Option<i64> {
        let here = here();
        let is_fresh = here.saturating_sub(self.told.load(Ordering::Relaxed)) < FRESH;
        is_fresh.then(|| here.saturating_add(self.ahead.load(Ordering::Relaxed)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_said_is_good_for_a_while() {
        let clock = ServerClock::default();
        clock.shows(5_000_000);
        assert!(clock.fresh().is_some_and(|ms| (5_000_000..5_001_000).contains(&ms)));
        clock.told.fetch_sub(FRESH, Ordering::Relaxed);
        assert_eq!(clock.fresh(), None);
        assert!(clock.millis() >= 5_000_000);
    }
}
