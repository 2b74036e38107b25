//! The handle.

use crate::{
    Codec, EffectError, IdempotencyError, Json, Keeper, KeyState, Lease, Resolve, Run, RunMany,
    batch::{self, Item},
    effect::Call,
    protocol::Terms,
    queue::{OnError, Once},
};
use hapax_core::{
    IntoFingerprint, IntoKey, InvalidKey, Name, Namespace, Scope,
    idempotency::{IdempotencyStore, Write},
};
use std::{fmt, sync::Arc, time::Duration};

/// Runs effects once per key. Cheap to clone: share it, don't wrap it.
#[derive(Clone)]
pub struct Idempotency<C = Json> {
    pub(crate) keeper: Keeper,
    namespace: Result<Namespace, InvalidKey>,
    scope: Result<Scope, InvalidKey>,
    pub(crate) defaults: Defaults,
    pub(crate) codec: C,
}

/// Durations of a handle; checked when a call starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    pub(crate) lease: Duration,
    pub(crate) ttl: Duration,
    pub(crate) unknown_ttl: Duration,
    pub(crate) ceiling: Duration,
}

impl Defaults {
    pub(crate) fn terms(&self) -> Result<Terms, IdempotencyError> {
        Ok(Terms::new(self.lease, self.ttl, self.unknown_ttl)?.ceiling(Some(self.ceiling)))
    }
}

impl<C> fmt::Debug for Idempotency<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency")
            .field("namespace", &self.namespace)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

impl Idempotency {
    /// Over any store, your own included. `scope` says what the keys are for: equal keys of two scopes do not meet.
    pub fn new(store: impl IdempotencyStore + 'static, scope: &str) -> Self {
        Self::on(Keeper::new(Arc::new(store)), Ok(Namespace::default()), scope)
    }

    /// For the facade and for layers: a handle on a keeper that others share.
    pub fn on(keeper: Keeper, namespace: Result<Namespace, InvalidKey>, scope: &str) -> Self {
        let defaults = Defaults {
            lease: Terms::LEASE,
            ttl: Terms::TTL,
            unknown_ttl: Terms::TTL,
            ceiling: Terms::CEILING,
        };
        Self { keeper, namespace, scope: Scope::new(scope), defaults, codec: Json }
    }
}

impl<C: Clone + Send + Sync + 'static> Idempotency<C> {
    /// Keeps results in another form.
    pub fn with_codec<D>(&self, codec: D) -> Idempotency<D> {
        Idempotency {
            keeper: self.keeper.clone(),
            namespace: self.namespace.clone(),
            scope: self.scope.clone(),
            defaults: self.defaults,
            codec,
        }
    }

    /// Keeps its keys apart from those of other namespaces in the same store.
    #[must_use]
    pub fn with_namespace(&self, namespace: &str) -> Self {
        Self { namespace: Namespace::new(namespace), ..self.clone() }
    }

    /// The lease of this handle's calls (60 s, at least 1 s); each call may override it.
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.defaults.lease = lease;
        self
    }

    /// How long results answer (24 h).
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.defaults.ttl = ttl;
        self
    }

    /// How long an unknown outcome holds its key (24 h).
    #[must_use]
    pub fn with_unknown_ttl(mut self, ttl: Duration) -> Self {
        self.defaults.unknown_ttl = ttl;
        self
    }

    /// How long leases are renewed at most (1 h).
    #[must_use]
    pub fn with_ceiling(mut self, ceiling: Duration) -> Self {
        self.defaults.ceiling = ceiling;
        self
    }

    /// What holds this handle's keys: for layers.
    pub fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// The handle's namespace.
    pub fn namespace(&self) -> Result<&Namespace, IdempotencyError> {
        self.namespace.as_ref().map_err(|e| IdempotencyError::invalid(e.clone()))
    }

    /// The handle's scope: layers that keep keys of their own name theirs after it.
    pub fn scope(&self) -> Result<&Scope, IdempotencyError> {
        self.scope.as_ref().map_err(|e| IdempotencyError::invalid(e.clone()))
    }

    /// The durations of this handle's calls, checked: for layers.
    pub fn terms(&self) -> Result<Terms, IdempotencyError> {
        self.defaults.terms()
    }

    /// The full name of a key of this handle.
    pub fn name(&self, key: impl IntoKey) -> Result<Name, IdempotencyError> {
        key.into_name(self.namespace()?, self.scope()?).map_err(IdempotencyError::invalid)
    }

    /// Runs `effect` unless it has run under `key`; then answers what it answered.
    ///
    /// The fingerprint tells one request from another under the same key: `&value` hashes its serde form. An error of
    /// the effect needs a class, see [`EffectExt`](crate::EffectExt).
    ///
    /// # Errors
    /// The outer `Err` is hapax's: nothing is certain but what it says. The inner one is the effect's own, certain
    /// failure, and the key is free again.
    ///
    /// # Cancel safety
    /// Dropped before the effect began: nothing happened, the key is freed. After: the key is kept as unknown
    /// (`idempotency.aborted`). Once the effect has ended its result is stored in any case.
    pub fn run<'a, F, Fut, T, E>(
        &self,
        key: impl IntoKey,
        fingerprint: impl IntoFingerprint,
        effect: F,
    ) -> Run<'a, T, E::Error, C>
    where
        F: FnOnce() -> Fut + Send + 'a,
        Fut: Future<Output = Result<T, E>> + Send + 'a,
        T: Send + 'a,
        E: EffectError + 'a,
        C: Codec<T>,
    {
        self.run_with(key, fingerprint, move |_| effect())
    }

    /// As [`run`](Self::run); the effect is told about its lease: deadline, a key for the provider, when it is lost.
    pub fn run_with<'a, F, Fut, T, E>(
        &self,
        key: impl IntoKey,
        fingerprint: impl IntoFingerprint,
        effect: F,
    ) -> Run<'a, T, E::Error, C>
    where
        F: FnOnce(Lease) -> Fut + Send + 'a,
        Fut: Future<Output = Result<T, E>> + Send + 'a,
        T: Send + 'a,
        E: EffectError + 'a,
        C: Codec<T>,
    {
        let call = Call {
            keeper: self.keeper.clone(),
            codec: self.codec.clone(),
            name: self.name(key),
            fingerprint: fingerprint.into_fingerprint().map_err(IdempotencyError::invalid),
            defaults: self.defaults,
            looked: false,
        };
        Run::new(call, effect)
    }

    /// One answer per item, in order. Keys are reserved ahead in batches, each receipt is kept as soon as it is known,
    /// and the item is the fingerprint. A second item with the key of an earlier one gets a copy of its outcome.
    pub fn run_many<'a, I, K, F, Fut, T, E>(
        &self,
        items: impl IntoIterator<Item = I>,
        key: impl Fn(&I) -> K,
        effect: F,
    ) -> RunMany<'a, T, E::Error>
    where
        I: serde::Serialize + Send + 'a,
        K: IntoKey,
        F: Fn(I) -> Fut + Send + Sync + 'a,
        Fut: Future<Output = Result<T, E>> + Send + 'a,
        T: Clone + Send + 'a,
        E: EffectError + 'a,
        E::Error: 'a,
        C: Codec<T>,
    {
        let items = items.into_iter().map(|item| {
            let call = self.name(key(&item)).and_then(|name| {
                let fingerprint = (&item).into_fingerprint().map_err(IdempotencyError::invalid)?;
                Ok((name, fingerprint))
            });
            Item { call, item }
        });
        batch::run_many(self.keeper.clone(), self.codec.clone(), self.defaults, items.collect(), effect)
    }

    /// What makes a worker idempotent: the keys of its jobs lie in a scope of the worker's own.
    pub(crate) fn for_jobs(&self, on_error: OnError) -> Once {
        // A job has its own limit of time; its key is renewed as long as it runs.
        let terms = self.defaults.terms().map(|terms| terms.ceiling(None)).map_err(|error| error.to_string());
        Once { keeper: self.keeper.clone(), namespace: self.namespace.clone(), terms, on_error }
    }

    /// What is kept under `key`.
    pub async fn get(&self, key: impl IntoKey) -> Result<KeyState, IdempotencyError> {
        let name = self.name(key)?;
        Ok(self.keeper.read(&name).await.map_err(IdempotencyError::store_failed)?.into())
    }

    /// Settles an unknown outcome by hand.
    pub fn resolve(&self, key: impl IntoKey) -> Resolve<'_, C> {
        Resolve::new(&self.keeper, &self.codec, self.name(key), self.defaults)
    }

    /// Ends a pending reservation; a key in any other state is left as it is. The owner learns of it at its next
    /// renewal, and its result still counts.
    pub async fn force_release(&self, key: impl IntoKey) -> Result<(), IdempotencyError> {
        let name = self.name(key)?;
        match self.keeper.force_release(&name).await {
            Ok(Write::Applied | Write::Fenced) => Ok(()),
            Err(error) => Err(IdempotencyError::store_failed(error)),
        }
    }
}
