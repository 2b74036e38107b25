//! One URL, all capabilities.

use crate::Unfit;
use hapax_core::{
    Backend, BackendUrl, BoxFuture, InvalidKey, ManualClock, Namespace, Registry, StoreError, SystemClock,
    memory, registry::ConnectOptions,
};
use hapax_engine::{Closed, Idempotency, Keeper, limit::RateLimiter, lock::Locks, queue::Queue};
use std::{sync::Arc, time::Duration};

/// The scope of keys whose receipts commit with the caller's own rows, whatever the database.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) const TRANSACTION: &str = "transaction";

/// Connects to a store: `memory:` for this process, `sqlite:PATH` for this machine, `redis://HOST` and its kin,
/// `postgres://HOST/DATABASE` or `mongodb://HOST/DATABASE` for many.
pub fn connect(url: impl AsRef<str>) -> Connect {
    let options = ConnectOptions::default();
    Connect { url: url.as_ref().to_owned(), namespace: None, options, strict: false }
}

/// A connection that has not been made.
#[must_use = "nothing is connected until this is awaited"]
pub struct Connect {
    url: String,
    namespace: Option<String>,
    options: ConnectOptions,
    strict: bool,
}

impl std::fmt::Debug for Connect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The URL may hold a password.
        f.debug_struct("Connect").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl Connect {
    /// Keeps the keys apart from those of other namespaces in the same store (`default`).
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Also looks at the store, as `hapax doctor` does, and refuses one that cannot keep its promise.
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Deadline of every call to the store (5 s).
    pub fn timeout(mut self, each: Duration) -> Self {
        self.options.timeout = each;
        self
    }
}

impl IntoFuture for Connect {
    type Output = Result<Hapax, ConnectError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let url = BackendUrl::parse(&self.url)?;
            let backend = registry().connect(&url, &self.options).await?;
            let namespace = match &self.namespace {
                Some(text) => Namespace::new(text)?,
                None => Namespace::default(),
            };
            let hapax = Hapax::on(backend, Ok(namespace), self.options.timeout);
            if self.strict {
                Unfit::check(&hapax.examine().await?)?;
            }
            Ok(hapax)
        })
    }
}

/// The drivers of this build: which stores it has, and what their URLs look like.
pub fn registry() -> Registry {
    let registry = Registry::new();
    #[cfg(feature = "sqlite")]
    let registry = registry.with(hapax_sqlite::DRIVER);
    #[cfg(feature = "redis")]
    let registry = registry.with(hapax_redis::DRIVER);
    #[cfg(feature = "postgres")]
    let registry = registry.with(hapax_postgres::DRIVER);
    #[cfg(feature = "mongodb")]
    let registry = registry.with(hapax_mongodb::DRIVER);
    registry
}

/// The store could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The store, or its URL.
    #[error("the store could not be opened")]
    Store(#[from] StoreError),
    /// The namespace.
    #[error("the namespace cannot be used")]
    Namespace(#[from] InvalidKey),
    /// [`strict`](Connect::strict) found errors.
    #[error("the store is not fit")]
    Unfit(#[from] Unfit),
}

/// A connected store. Cheap to clone; share it, don't wrap it.
#[derive(Clone, Debug)]
pub struct Hapax {
    backend: Backend,
    keeper: Keeper,
    queue: Queue,
    locks: Locks,
    limits: RateLimiter,
    namespace: Result<Namespace, InvalidKey>,
}

impl Hapax {
    /// A store inside this process, on the machine's clock.
    pub fn memory() -> Self {
        Self::on(memory::backend(Arc::new(SystemClock)), Ok(Namespace::default()), ConnectOptions::TIMEOUT)
    }

    /// A store inside this process, on a clock that a test moves.
    pub fn memory_with(clock: &ManualClock) -> Self {
        Self::on(memory::backend(Arc::new(clock.clone())), Ok(Namespace::default()), ConnectOptions::TIMEOUT)
    }

    fn on(backend: Backend, namespace: Result<Namespace, InvalidKey>, timeout: Duration) -> Self {
        let (keeper, queue) = (Keeper::of(&backend, timeout), Queue::of(&backend, timeout));
        let (locks, limits) = (Locks::of(&backend, timeout), RateLimiter::of(&backend, timeout));
        Self { backend, keeper, queue, locks, limits, namespace }
    }

    /// The same store under another namespace. A name that cannot be used is reported by the first call.
    #[must_use]
    pub fn namespace(&self, namespace: &str) -> Self {
        Self { namespace: Namespace::new(namespace), ..self.clone() }
    }

    /// Runs effects once per key; `scope` says what the keys are for.
    pub fn idempotency(&self, scope: &str) -> Idempotency {
        Idempotency::on(self.keeper.clone(), self.namespace.clone(), scope)
    }

    /// Durable jobs. Where the store has no queues, calls answer `store.unsupported`.
    pub fn queue(&self) -> Queue {
        self.queue.with_namespace(self.namespace.clone())
    }

    /// Locks that are renewed while they are held. Where the store has none, calls answer `store.unsupported`.
    pub fn locks(&self) -> Locks {
        self.locks.with_namespace(self.namespace.clone())
    }

    /// Rate limits. Where the store has none, calls answer `store.unsupported`.
    pub fn limits(&self) -> RateLimiter {
        self.limits.with_namespace(self.namespace.clone())
    }

    /// What holds the keys of this process: for layers.
    pub fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// The capabilities of the store, for layers and tools.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Waits for receipts and releases that the store has not taken yet. Call it before the process ends.
    pub fn close(&self) -> Close {
        Close { keeper: self.keeper.clone(), locks: self.locks.clone(), within: Duration::from_mins(1) }
    }
}

/// The end of a connection.
#[must_use = "nothing is waited for until this is awaited"]
#[derive(Debug)]
pub struct Close {
    keeper: Keeper,
    locks: Locks,
    within: Duration,
}

impl Close {
    /// Waits no longer than this (60 s).
    pub fn within(mut self, limit: Duration) -> Self {
        self.within = limit;
        self
    }
}

impl IntoFuture for Close {
    type Output = Closed;
    type IntoFuture = BoxFuture<'static, Closed>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let locks = async { self.locks.close(self.within).await };
            let (mut closed, unreleased) = tokio::join!(self.keeper.close(self.within), locks);
            closed.unreleased += unreleased;
            closed
        })
    }
}
