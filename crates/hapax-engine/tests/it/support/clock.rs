use hapax_core::{BootTime, Clock, Now, Timestamp};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// Shows the runtime's time: where it is paused, a timer that fires has moved this clock too.
#[derive(Clone, Debug)]
pub(crate) struct PausedClock {
    start: Instant,
    suspended: Arc<AtomicU64>,
    behind: Arc<AtomicU64>,
}

impl PausedClock {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), suspended: Arc::default(), behind: Arc::default() }
    }

    /// Somebody sets the wall clock back.
    pub(crate) fn set_back(&self, by: Duration) {
        self.behind.fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// Time that passes while the process stands still: no timer fires.
    pub(crate) fn suspend(&self, by: Duration) {
        self.suspended.fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for PausedClock {
    fn read(&self) -> Now {
        let suspended = Duration::from_millis(self.suspended.load(Ordering::SeqCst));
        let elapsed = Instant::now().saturating_duration_since(self.start) + suspended;
        let behind = i64::try_from(self.behind.load(Ordering::SeqCst)).unwrap();
        Now {
            wall: Timestamp::from_millis(1_767_225_600_000 - behind).after(elapsed),
            boot: BootTime::default().after(Duration::from_hours(1)).after(elapsed),
        }
    }

    fn boot_id(&self) -> Arc<str> {
        Arc::from("paused")
    }

    fn is_manual(&self) -> bool {
        true
    }
}
