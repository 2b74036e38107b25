//! Pauses between tries.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};
use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(500);

/// They grow, and are random, so that many clients do not come back together.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    tries: u32,
    random: RandomState,
}

impl Pause {
    /// Whether the next pause ends before the deadline.
    pub(crate) fn fits(&self, deadline: Instant) -> bool {
        Instant::now() + self.longest() < deadline
    }

    pub(crate) async fn rest(&mut self) {
        let longest = self.longest();
        self.tries = self.tries.saturating_add(1);
        let ms = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX).max(1);
        tokio::time::sleep(longest / 2 + Duration::from_millis(self.random.hash_one(self.tries) % ms) / 2)
            .await;
    }

    fn longest(&self) -> Duration {
        FIRST.saturating_mul(1 << self.tries.min(6)).min(LONGEST)
    }
}
