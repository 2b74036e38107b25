//! The clock that leases are counted on.

use rustix::time::{ClockId, clock_gettime};

// The one that goes on while the machine is suspended, by its name on each system.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Milliseconds since the machine started.
pub(crate) fn now_ms() -> u64 {
    let now = clock_gettime(CLOCK);
    let (secs, nanos) = (u64::try_from(now.tv_sec).unwrap_or(0), u64::try_from(now.tv_nsec).unwrap_or(0));
    secs.saturating_mul(1000).saturating_add(nanos / 1_000_000)
}
