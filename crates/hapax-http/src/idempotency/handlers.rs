//! The owner of the handlers, also of those whose clients have gone.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The handlers of one layer, or of several: how many may run at a time, and whether any still does. Cheap to clone.
///
/// A handler that has begun is not cancelled when its client goes away, so a server that has closed its connections may
/// have handlers that run. Wait for [`finished`](Self::finished) before the store is closed.
#[derive(Clone, Debug)]
pub struct Handlers {
    slots: Arc<Semaphore>,
    most: u32,
}

impl Default for Handlers {
    /// 1,024 at a time.
    fn default() -> Self {
        Self::new(1024)
    }
}

impl Handlers {
    /// So many at a time, at least one; those beyond are answered with 503.
    pub fn new(most: u32) -> Self {
        let most = most.max(1);
        // On machines with narrower words a semaphore holds less.
        let slots = usize::try_from(most).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self { slots: Arc::new(Semaphore::new(slots)), most }
    }

    /// How many run.
    pub fn running(&self) -> usize {
        usize::try_from(self.most).unwrap_or(usize::MAX).saturating_sub(self.slots.available_permits())
    }

    /// Waits until none runs. Meanwhile no other begins: requests under a key are answered with 503.
    ///
    /// # Cancel safety
    /// Dropped before its end, requests are carried out again.
    pub async fn finished(&self) {
        // The semaphore is never closed.
        let _all = self.slots.acquire_many(self.most).await;
    }

    /// Room for one; none where all are taken.
    pub(super) fn room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.slots).try_acquire_owned().ok()
    }
}
