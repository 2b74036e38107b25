//! How long things hold, checked once.

use crate::IdempotencyError;
use hapax_core::Span;
use std::time::Duration;

/// The durations of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terms {
    /// How long a reservation holds unless it is renewed.
    pub lease: Span,
    /// How long a result answers.
    pub ttl: Span,
    /// How long an unknown outcome holds its key.
    pub unknown_ttl: Span,
    /// How long to wait for a call that is in flight; none answers at once.
    pub wait: Option<Duration>,
    /// How long a lease is renewed at most; none is as long as the reservation lives.
    pub ceiling: Option<Duration>,
}

impl Terms {
    /// A lease of `run`: a crash frees the key after a minute, and renewal keeps a slow effect covered.
    pub const LEASE: Duration = Duration::from_mins(1);
    /// The shortest lease through the engine: below it, the margin for a lost lease would be too small to act in.
    pub const MIN_LEASE: Duration = Duration::from_secs(1);
    /// How long results and unknown outcomes answer: longer than any sensible retry goes on.
    pub const TTL: Duration = Duration::from_hours(24);
    /// How long `run` renews a lease: an effect that hangs must not hold its key for ever.
    pub const CEILING: Duration = Duration::from_hours(1);

    /// Checks the durations.
    pub fn new(lease: Duration, ttl: Duration, unknown_ttl: Duration) -> Result<Self, IdempotencyError> {
        if lease < Self::MIN_LEASE {
            return Err(IdempotencyError::invalid(format!("a lease is at least 1 s, not {lease:?}")));
        }
        let span = |duration| Span::new(duration).map_err(IdempotencyError::invalid);
        let (lease, ttl, unknown_ttl) = (span(lease)?, span(ttl)?, span(unknown_ttl)?);
        Ok(Self { lease, ttl, unknown_ttl, wait: None, ceiling: None })
    }

    /// Waits for a call that is in flight.
    #[must_use]
    pub fn wait(mut self, limit: Option<Duration>) -> Self {
        self.wait = limit;
        self
    }

    /// Bounds the renewal.
    #[must_use]
    pub fn ceiling(mut self, ceiling: Option<Duration>) -> Self {
        self.ceiling = ceiling;
        self
    }

    /// How long before its end a lease that could not be renewed counts as lost.
    pub fn margin(&self) -> Duration {
        let lease = self.lease.get();
        (lease / 10).max(Duration::from_secs(2)).min(lease / 4)
    }

    /// A third of the lease.
    pub(crate) fn tick(&self) -> Duration {
        self.lease.get() / 3
    }

    /// The pause after a renewal that failed.
    pub(super) fn again(&self) -> Duration {
        (self.lease.get() / 10).min(Duration::from_secs(1))
    }

    /// Leases due within this time of each other are renewed together.
    pub(super) fn slack(&self) -> Duration {
        (self.again() / 4).min(Duration::from_millis(50))
    }
}
