//! The handle: a store's locks, as this process holds them.

use super::{LockError, LockGuard, WithLock, acquire, hold::Terms};
use crate::protocol::{
    call,
    renewer::{Leases, Renewer},
    runner::Runner,
};
use hapax_core::{
    Backend, Clock, IntoKey, InvalidKey, Name, Namespace, StoreError, StoreErrorKind, StoreResult,
    SystemClock, Token,
    lock::{self, Fence, Holder, HolderInfo, ListLocks, LockInfo, LockPage, LockStore},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The locks of one store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Locks {
    pub(super) inner: Arc<Inner>,
    namespace: Result<Namespace, InvalidKey>,
    ttl: Duration,
    holder: Holder,
}

#[derive(Debug)]
pub(super) struct Inner {
    open: Option<Open>,
    backend: &'static str,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) timeout: Duration,
    pub(super) runner: Runner,
    /// Releases on their way.
    releases: AtomicUsize,
    released: Notify,
}

/// A store that has locks.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) store: Arc<dyn LockStore>,
    pub(super) renewer: Arc<Renewer>,
}

impl Inner {
    pub(super) fn open(&self) -> StoreResult<&Open> {
        self.open.as_ref().ok_or_else(|| {
            StoreError::new(StoreErrorKind::Unsupported, self.backend, "use a lock", "it has no locks")
        })
    }

    /// Gives a lock back in the background: what the store refuses is tried again until `lease` has passed and nothing
    /// is left to give back.
    pub(super) fn release_later(self: &Arc<Self>, name: Name, token: Token, lease: Duration) {
        self.releases.fetch_add(1, Ordering::SeqCst);
        let inner = Arc::clone(self);
        self.runner.spawn(async move {
            let given_up_at = call::from_now(lease);
            let mut pause = FIRST_PAUSE;
            while let Ok(Open { store, .. }) = inner.open() {
                if call::one(inner.timeout, "release a lock", store.release(&name, &token)).await.is_ok()
                    || Instant::now() + pause > given_up_at
                {
                    break;
                }
                tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            inner.releases.fetch_sub(1, Ordering::SeqCst);
            inner.released.notify_waiters();
        });
    }
}

impl Locks {
    /// How long a lock is held unless it is renewed: a crash frees it after so long.
    pub const TTL: Duration = Duration::from_secs(30);

    /// Over a store of your own, on the machine's clock.
    pub fn new(store: Arc<dyn LockStore>) -> Self {
        Self::with(Some(store), "hapax", Arc::new(SystemClock), Duration::from_secs(5))
    }

    /// Over the locks of a backend, on its clock. Where it has none, calls answer `store.unsupported`.
    pub fn of(backend: &Backend, timeout: Duration) -> Self {
        Self::with(backend.locks.clone(), backend.name, Arc::clone(&backend.clock), timeout)
    }

    fn with(
        store: Option<Arc<dyn LockStore>>,
        backend: &'static str,
        clock: Arc<dyn Clock>,
        timeout: Duration,
    ) -> Self {
        let open = store.map(|store| {
            let leases = Leases::Locks(Arc::clone(&store));
            Open { store, renewer: Renewer::new(leases, Arc::clone(&clock), timeout) }
        });
        let runner = Runner::new(clock.is_manual());
        let (releases, released) = (AtomicUsize::new(0), Notify::new());
        let inner = Inner { open, backend, clock, timeout, runner, releases, released };
        let holder = Holder::new(&format!("pid {}", std::process::id()));
        Self { inner: Arc::new(inner), namespace: Ok(Namespace::default()), ttl: Self::TTL, holder }
    }

    /// The locks of another namespace. A name that cannot be used is reported by the first call.
    #[must_use]
    pub fn with_namespace(&self, namespace: Result<Namespace, InvalidKey>) -> Self {
        Self { namespace, ..self.clone() }
    }

    /// Holds locks for so long unless they are renewed (30 s): at least 1 s.
    #[must_use]
    pub fn with_ttl(&self, ttl: Duration) -> Self {
        Self { ttl, ..self.clone() }
    }

    /// What whoever looks at a lock sees of its holder; `pid` and the number of the process without it.
    #[must_use]
    pub fn with_holder(&self, holder: &str) -> Self {
        Self { holder: Holder::new(holder), ..self.clone() }
    }

    /// Runs `body` while the lock is held. It is renewed meanwhile; the result comes back only when the release proves
    /// that the lock was held to the end, and as a part of [`LockError::Lost`] otherwise.
    pub fn with_lock<'a, F, Fut, R>(&self, name: impl IntoKey, body: F) -> WithLock<'a, R>
    where
        F: FnOnce(super::Lock) -> Fut + Send + 'a,
        Fut: Future<Output = R> + Send + 'a,
        R: Send + 'a,
    {
        WithLock::new(self.clone(), self.name(name), body)
    }

    /// Takes the lock if it is free; none where another holds it.
    ///
    /// # Errors
    /// `lock.invalid`, `lock.store_failed`.
    ///
    /// # Cancel safety
    /// A lock that was granted meanwhile is given back.
    pub async fn try_lock(&self, name: impl IntoKey) -> Result<Option<LockGuard>, LockError> {
        let name = self.name(name)?;
        match acquire::acquire(self, &name, self.terms(None)?, None).await {
            Ok(guard) => Ok(Some(guard)),
            Err(LockError::Busy { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes the lock; waits up to `limit` for it.
    ///
    /// # Errors
    /// `lock.busy`, `lock.invalid`, `lock.store_failed`.
    ///
    /// # Cancel safety
    /// A lock that was granted meanwhile is given back.
    pub async fn lock(&self, name: impl IntoKey, limit: Duration) -> Result<LockGuard, LockError> {
        let name = self.name(name)?;
        acquire::acquire(self, &name, self.terms(None)?, Some(limit)).await
    }

    /// Who holds a lock, and its last fence.
    pub async fn show(&self, name: impl IntoKey) -> Result<LockInfo, LockError> {
        let name = self.name(name)?;
        self.call("look at a lock", self.store()?.show(&name)).await
    }

    /// A page of the locks that are held: those whose name starts with `prefix`, after `after`.
    pub async fn list(
        &self,
        prefix: &str,
        after: Option<hapax_core::Key>,
        limit: usize,
    ) -> Result<LockPage, LockError> {
        let namespace = self.namespace.clone().map_err(LockError::invalid)?;
        let req = ListLocks { namespace, prefix: prefix.to_owned(), after, limit };
        self.call("list locks", self.store()?.list(&req)).await
    }

    /// Takes a lock from its holder, whose work goes on until it hears of it; answers whose it was.
    pub async fn break_lock(&self, name: impl IntoKey) -> Result<Option<HolderInfo>, LockError> {
        let name = self.name(name)?;
        self.call("break a lock", self.store()?.break_lock(&name)).await
    }

    /// Makes the next fence of a lock larger than `least`, which is [`Fence::MAX_SEED`] at most: there is no way down, and where
    /// no larger fence is left, two holders would have the same one.
    pub async fn seed_fence(&self, name: impl IntoKey, least: Fence) -> Result<Fence, LockError> {
        let name = self.name(name)?;
        if least > Fence::MAX_SEED {
            let most = Fence::MAX_SEED;
            return Err(LockError::invalid(format!(
                "a fence can be seeded with {most} at most, not {least}"
            )));
        }
        self.call("seed a fence", self.store()?.seed_fence(&name, least)).await
    }

    /// The store itself, for layers and tools.
    ///
    /// # Errors
    /// `store.unsupported` where the backend has no locks.
    pub fn store(&self) -> Result<&Arc<dyn LockStore>, LockError> {
        self.inner.open().map(|open| &open.store).map_err(LockError::store_failed)
    }

    /// Waits until the locks of guards that were dropped are given back, `within` at most; answers how many are not.
    /// Those are free once their leases have passed.
    pub async fn close(&self, within: Duration) -> usize {
        let deadline = call::from_now(within);
        loop {
            let released = self.inner.released.notified();
            tokio::pin!(released);
            // Registered before the look: a last one that ends in between is not missed.
            released.as_mut().enable();
            let left = self.inner.releases.load(Ordering::SeqCst);
            if left == 0 || tokio::time::timeout_at(deadline, released).await.is_err() {
                return left;
            }
        }
    }

    pub(super) fn holder(&self) -> &Holder {
        &self.holder
    }

    pub(super) fn terms(&self, ttl: Option<Duration>) -> Result<Terms, LockError> {
        Terms::new(ttl.unwrap_or(self.ttl)).map_err(LockError::invalid)
    }

    fn name(&self, name: impl IntoKey) -> Result<Name, LockError> {
        let namespace = self.namespace.as_ref().map_err(LockError::invalid)?;
        lock::name(namespace, name).map_err(LockError::invalid)
    }

    async fn call<T>(
        &self,
        op: &'static str,
        step: impl Future<Output = StoreResult<T>>,
    ) -> Result<T, LockError> {
        call::one(self.inner.timeout, op, step).await.map_err(LockError::store_failed)
    }
}
