//! What one connection offers.

use crate::{Clock, SystemClock, idempotency::IdempotencyStore};
use std::sync::Arc;

/// The capabilities behind one URL.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Backend {
    /// The driver's name.
    pub name: &'static str,
    /// Idempotency keys.
    pub idempotency: Arc<dyn IdempotencyStore>,
    /// The clock of the process that holds the connection.
    pub clock: Arc<dyn Clock>,
}

impl Backend {
    /// On the machine's own clock.
    pub fn new(name: &'static str, idempotency: Arc<dyn IdempotencyStore>) -> Self {
        Self { name, idempotency, clock: Arc::new(SystemClock) }
    }

    /// On another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }
}
