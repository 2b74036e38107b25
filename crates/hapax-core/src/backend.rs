//! What one connection offers.

use crate::{
    Clock, SystemClock, doctor::Examine, idempotency::IdempotencyStore, limit::LimitStore, lock::LockStore,
    queue::QueueStore,
};
use std::{any::Any, sync::Arc};

/// The capabilities behind one URL.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Backend {
    /// The driver's name.
    pub name: &'static str,
    /// Idempotency keys.
    pub idempotency: Arc<dyn IdempotencyStore>,
    /// Queues of jobs, where the store has them.
    pub queue: Option<Arc<dyn QueueStore>>,
    /// Locks, where the store has them.
    pub locks: Option<Arc<dyn LockStore>>,
    /// Rate limits, where the store has them.
    pub limits: Option<Arc<dyn LimitStore>>,
    /// The clock of the process that holds the connection.
    pub clock: Arc<dyn Clock>,
    /// Tells how the store is, where it can.
    pub examiner: Option<Arc<dyn Examine>>,
    /// The most bytes of a receipt with the name of its codec, where the store has a bound of its own.
    pub max_receipt: Option<usize>,
    /// The store as its own type, for what only that one can do.
    pub native: Option<Arc<dyn Any + Send + Sync>>,
}

impl Backend {
    /// On the machine's own clock.
    pub fn new(name: &'static str, idempotency: Arc<dyn IdempotencyStore>) -> Self {
        Self {
            name,
            idempotency,
            queue: None,
            locks: None,
            limits: None,
            clock: Arc::new(SystemClock),
            examiner: None,
            max_receipt: None,
            native: None,
        }
    }

    /// With queues.
    #[must_use]
    pub fn with_queue(mut self, queue: Arc<dyn QueueStore>) -> Self {
        self.queue = Some(queue);
        self
    }

    /// With locks.
    #[must_use]
    pub fn with_locks(mut self, locks: Arc<dyn LockStore>) -> Self {
        self.locks = Some(locks);
        self
    }

    /// With rate limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Arc<dyn LimitStore>) -> Self {
        self.limits = Some(limits);
        self
    }

    /// With somebody who looks at the store.
    #[must_use]
    pub fn with_examiner(mut self, examiner: Arc<dyn Examine>) -> Self {
        self.examiner = Some(examiner);
        self
    }

    /// With a bound for receipts.
    #[must_use]
    pub fn with_max_receipt(mut self, bytes: usize) -> Self {
        self.max_receipt = Some(bytes);
        self
    }

    /// With the store as its own type.
    #[must_use]
    pub fn with_native(mut self, store: Arc<dyn Any + Send + Sync>) -> Self {
        self.native = Some(store);
        self
    }

    /// The store as its own type, where it is that one.
    pub fn native<S: Any + Send + Sync>(&self) -> Option<Arc<S>> {
        Arc::clone(self.native.as_ref()?).downcast().ok()
    }

    /// On another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }
}
