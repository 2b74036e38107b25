//! How far keys are reserved ahead.

use std::time::Duration;
use tokio::time::Instant;

/// So many before anything was seen: enough for a native batch call, little enough to lose to a slow provider.
const FIRST: usize = 64;
/// So many at most.
const MOST: u32 = 512;
/// Starts that make a rate worth knowing.
const SAMPLE: u32 = 32;

/// Counts starts, and says how many more will start within a quarter of the lease.
#[derive(Debug)]
pub(super) struct Pace {
    quarter: Duration,
    since: Instant,
    started: u32,
    ahead: usize,
}

impl Pace {
    pub(super) fn new(lease: Duration) -> Self {
        Self { quarter: lease / 4, since: Instant::now(), started: 0, ahead: FIRST }
    }

    pub(super) fn started(&mut self) {
        self.started = self.started.saturating_add(1);
    }

    /// How many keys may be held for messages that have not started.
    pub(super) fn ahead(&mut self) -> usize {
        let elapsed = self.since.elapsed();
        if self.started >= SAMPLE || elapsed >= self.quarter {
            let within =
                f64::from(self.started) * self.quarter.as_secs_f64() / elapsed.as_secs_f64().max(1e-6);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 512")]
            let within = within.clamp(1.0, f64::from(MOST)) as usize;
            self.ahead = within;
            self.since = Instant::now();
            self.started = 0;
        }
        self.ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slow_provider_is_asked_for_few_keys_and_a_fast_one_for_many() {
        let mut pace = Pace::new(Duration::from_mins(1));
        assert_eq!(pace.ahead(), FIRST);
        // One in five seconds: three in a quarter of a minute.
        for _ in 0..3 {
            tokio::time::advance(Duration::from_secs(5)).await;
            pace.started();
        }
        assert_eq!(pace.ahead(), 3);
        tokio::time::advance(Duration::from_secs(15)).await;
        assert_eq!(pace.ahead(), 1);
        (0..SAMPLE).for_each(|_| pace.started());
        assert_eq!(pace.ahead(), MOST as usize);
    }
}
