//! Where this process learns what time it is. Sleeping is another matter and stays with the runtime.

use crate::{BootTime, Now, Timestamp};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// The readings of one machine.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// Both clocks, read together.
    fn read(&self) -> Now;

    /// Wall-clock time.
    fn now(&self) -> Timestamp {
        self.read().wall
    }

    /// Wall-clock time at the last tick of the system: some milliseconds behind at most, and far cheaper to read.
    fn recent(&self) -> Timestamp {
        self.now()
    }

    /// Time since the machine started, suspended time included.
    fn boot(&self) -> BootTime {
        self.read().boot
    }

    /// Names the life of the machine in which [`boot`](Self::boot) counts. Readings of different lives cannot be
    /// compared.
    fn boot_id(&self) -> Arc<str>;

    /// Whether a test moves this clock. Work that would run on a thread of its own then runs as a task, so that it
    /// follows the runtime of the test.
    fn is_manual(&self) -> bool {
        false
    }

    /// Lets time pass, on a clock that a test moves; answers `false`, and does nothing, on any other.
    fn pass(&self, by: Duration) -> bool {
        let _ = by;
        false
    }
}

/// The machine's own clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn read(&self) -> Now {
        Now { wall: self.now(), boot: self.boot() }
    }

    #[expect(clippy::disallowed_methods, reason = "this is the place that reads the clock for everyone else")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::default().after(since)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn recent(&self) -> Timestamp {
        system::recent()
    }

    fn boot(&self) -> BootTime {
        system::boot()
    }

    fn boot_id(&self) -> Arc<str> {
        system::boot_id()
    }
}

#[cfg(unix)]
mod system {
    use crate::BootTime;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    use crate::Timestamp;
    use rustix::time::{ClockId, Timespec, clock_gettime};
    use std::sync::{Arc, OnceLock};

    // The clock that goes on while the machine is suspended: a lease must not stretch over a closed lid.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;

    pub(super) fn boot() -> BootTime {
        BootTime::from_millis(millis(clock_gettime(CLOCK)))
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn recent() -> Timestamp {
        let millis = millis(clock_gettime(ClockId::RealtimeCoarse));
        Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
    }

    fn millis(t: Timespec) -> u64 {
        let secs = u64::try_from(t.tv_sec).unwrap_or(0);
        secs.saturating_mul(1000).saturating_add(u64::try_from(t.tv_nsec / 1_000_000).unwrap_or(0))
    }

    pub(super) fn boot_id() -> Arc<str> {
        static ID: OnceLock<Arc<str>> = OnceLock::new();
        Arc::clone(ID.get_or_init(|| {
            let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().or_else(|| {
                let out = std::process::Command::new("sysctl")
                    .args(["-n", "kern.bootsessionuuid"])
                    .output()
                    .ok()?;
                out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
            });
            // Without an id every life of the machine looks like this one. Readings restart near zero, so a lease of
            // an earlier life could look live for as long as that life lasted, and ends on its own after that.
            id.map_or_else(|| Arc::from("unknown"), |id| Arc::from(id.trim()))
        }))
    }
}

#[cfg(not(unix))]
mod system {
    use crate::BootTime;
    use std::sync::{Arc, OnceLock};

    #[expect(clippy::disallowed_methods, reason = "this is the place that reads the clock for everyone else")]
    pub(super) fn boot() -> BootTime {
        // No safe call gives the time since the machine started here: the life of the process takes its place, and
        // the id below keeps readings of two processes apart.
        static START: OnceLock<std::time::Instant> = OnceLock::new();
        BootTime::default().after(START.get_or_init(std::time::Instant::now).elapsed())
    }

    pub(super) fn boot_id() -> Arc<str> {
        Arc::from(format!("process-{}", std::process::id()))
    }
}

/// A clock that moves when told. Cheap to clone; all clones are one clock. For tests.
#[derive(Clone, Debug)]
pub struct ManualClock {
    elapsed: Arc<AtomicU64>,
    skew: Duration,
}

impl ManualClock {
    const START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

    /// Starts at 2026-01-01 UTC, with a machine that started an hour before.
    pub fn new() -> Self {
        Self { elapsed: Arc::default(), skew: Duration::ZERO }
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        let ms = u64::try_from(by.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        self.elapsed.fetch_add(ms, Ordering::SeqCst);
    }

    /// The same clock, whose wall time is ahead: what another machine may show.
    #[must_use]
    pub fn ahead(&self, by: Duration) -> Self {
        Self { elapsed: Arc::clone(&self.elapsed), skew: by }
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn read(&self) -> Now {
        let elapsed = Duration::from_millis(self.elapsed.load(Ordering::SeqCst));
        Now {
            wall: Self::START.after(elapsed).after(self.skew),
            boot: BootTime::default().after(Duration::from_hours(1)).after(elapsed),
        }
    }

    fn boot_id(&self) -> Arc<str> {
        Arc::from("manual")
    }

    fn is_manual(&self) -> bool {
        true
    }

    fn pass(&self, by: Duration) -> bool {
        self.advance(by);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_of_a_manual_clock_are_one_clock() {
        let clock = ManualClock::new();
        let (other, before) = (clock.clone(), clock.read());
        clock.advance(Duration::from_secs(5));
        assert_eq!(other.now().since(before.wall), Duration::from_secs(5));
        assert_eq!(other.boot().since(before.boot), Duration::from_secs(5));
    }

    #[test]
    fn system_clock_never_runs_backwards() {
        let clock = SystemClock;
        let first = clock.boot();
        assert!(clock.boot() >= first);
        assert!(clock.now() > ManualClock::START);
        assert_eq!(clock.boot_id(), clock.boot_id());
    }
}
