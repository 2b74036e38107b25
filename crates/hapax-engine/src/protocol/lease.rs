//! What an effect may know of its reservation.

use hapax_core::{BootTime, Clock, Key, Name};
use sha2::{Digest, Sha256};
use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};
use tokio::sync::watch;

/// Why a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// The store says that the reservation is another's, or gone.
    Fenced,
    /// It could not be renewed in time.
    Expired,
    /// It was renewed for as long as a call may last.
    Ceiling,
}

impl Loss {
    /// The stable code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Fenced => "idempotency.fenced",
            Self::Expired => "idempotency.lease_lost",
            Self::Ceiling => "idempotency.lease_ceiling",
        }
    }
}

/// A lease at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseView {
    /// Until when it holds, on the boot clock, counted from before the request that granted it.
    pub deadline: BootTime,
    /// Whether, and why, it is lost.
    pub lost: Option<Loss>,
}

/// Told to an effect that wants to know. Owned, cheap to clone.
#[derive(Clone, Debug)]
pub struct Lease {
    name: Name,
    clock: Arc<dyn Clock>,
    view: watch::Receiver<LeaseView>,
    // Most effects ask for neither.
    key: OnceLock<Key>,
    provider_key: OnceLock<String>,
}

impl Lease {
    pub(super) fn new(name: &Name, clock: Arc<dyn Clock>, view: watch::Receiver<LeaseView>) -> Self {
        let (key, provider_key) = (OnceLock::new(), OnceLock::new());
        Self { name: name.clone(), clock, view, key, provider_key }
    }

    /// Of a call that runs without a reservation: there is nothing to lose.
    pub(crate) fn unguarded(name: &Name, clock: Arc<dyn Clock>) -> Self {
        let deadline = BootTime::from_millis(u64::MAX);
        Self::new(name, clock, watch::channel(LeaseView { deadline, lost: None }).1)
    }

    /// The key of the call.
    pub fn key(&self) -> &Key {
        self.key.get_or_init(|| shown(&self.name))
    }

    /// The stable value to hand to a provider that deduplicates: 64 hex digits, the same for every attempt under this
    /// key, and nothing of the key itself.
    pub fn provider_key(&self) -> &str {
        self.provider_key.get_or_init(|| provider_key(&self.name))
    }

    /// Until when the lease holds unless it is renewed.
    pub fn deadline(&self) -> Instant {
        let rest = self.view.borrow().deadline.since(self.clock.boot());
        // A lease without end has no instant: a year stands for it.
        tokio::time::Instant::now().into_std() + rest.min(std::time::Duration::from_hours(365 * 24))
    }

    /// Whether the lease is lost.
    pub fn is_lost(&self) -> bool {
        self.loss().is_some()
    }

    /// Why the lease is lost, if it is.
    pub fn loss(&self) -> Option<Loss> {
        self.view.borrow().lost
    }

    /// Resolves when the lease is lost.
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping it.
    pub async fn lost(&self) {
        let mut view = self.view.clone();
        // The sender lives as long as the reservation: when it is gone, nothing can be lost any more.
        if view.wait_for(|view| view.lost.is_some()).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// For layers that pass the lease on: every new deadline, and the loss.
    pub fn watch(&self) -> watch::Receiver<LeaseView> {
        self.view.clone()
    }
}

fn shown(name: &Name) -> Key {
    // The text of a name is a key already; it cannot be refused.
    Key::from_shown(name.key()).unwrap_or_else(|_| unreachable!("a name holds a valid key"))
}

/// The value forwarded to providers: a digest, so that no address or id inside the key leaves the process.
fn provider_key(name: &Name) -> String {
    let mut hash = Sha256::new();
    hash.update(b"hapax provider key 1\0");
    hash.update(name.joined().as_bytes());
    let digest: [u8; 32] = hash.finalize().into();
    hex::encode(digest)
}
