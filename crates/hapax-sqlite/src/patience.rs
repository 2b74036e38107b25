//! Waiting for another process: in real time, whatever clock a test moves, because the lock is real.

use std::{
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant},
};

const FIRST: Duration = Duration::from_micros(250);
const LONGEST: Duration = Duration::from_millis(8);

#[expect(clippy::disallowed_methods, reason = "locks of other processes are waited for in real time")]
pub(crate) fn real_time() -> Instant {
    Instant::now()
}

/// Pauses between tries for a lock. They grow, and are random: SQLite's own steps are the same in every process, so
/// that many which wait together come back together, and the unlucky starve.
#[derive(Debug)]
pub(crate) struct Patience {
    tries: u32,
    random: RandomState,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self { tries: 0, random: RandomState::new() }
    }

    /// The lock was had: the next wait starts small.
    pub(crate) fn rest(&mut self) {
        self.tries = 0;
    }

    /// Waits a little. Only on threads for blocking work.
    #[expect(
        clippy::disallowed_methods,
        reason = "nothing tells when another process lets go of a lock of SQLite"
    )]
    pub(crate) fn pause(&mut self) {
        std::thread::sleep(self.step());
    }

    fn step(&mut self) -> Duration {
        let most = FIRST.saturating_mul(1 << self.tries.min(5)).min(LONGEST);
        self.tries = self.tries.saturating_add(1);
        let most = u64::try_from(most.as_micros()).unwrap_or(u64::MAX).max(1);
        Duration::from_micros(1 + self.random.hash_one(self.tries) % most)
    }
}

/// A number from 0 to `below` - 1.
pub(crate) fn random(below: u32) -> u32 {
    u32::try_from(RandomState::new().hash_one(0) % u64::from(below.max(1))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_differ() {
        let mut patience = Patience::new();
        let pauses: Vec<_> = (0..200).map(|_| patience.step()).collect();
        assert!(pauses.iter().all(|pause| *pause <= LONGEST));
        assert!(pauses.first().is_some_and(|pause| *pause <= FIRST));
        assert!(pauses.iter().max() > Some(&(LONGEST / 2)));
        let distinct: std::collections::HashSet<_> = pauses.iter().collect();
        assert!(distinct.len() > 100);
    }
}
