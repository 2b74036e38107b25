//! Which messages have a key, and how keys are kept.

use crate::{
    Failure, MailCategory, Message, RawMessage, Receipt, fingerprint, fingerprint_raw, fingerprint_strict,
};
use hapax_core::{
    Coded, Fingerprint, Key, Name, Namespace, Scope, StoreError, StoreErrorKind, StoreResult, SystemClock,
    memory::MemoryStore,
};
use hapax_engine::{Idempotency, IdempotencyError, Keeper, protocol::Terms};
use std::{fmt, sync::Arc, time::Duration};
use tokio::sync::OnceCell;

/// What a later send under a key of unknown outcome does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum OnUnknown {
    /// Answers with the receipt of the first: the message may have gone, so it does not go again.
    #[default]
    Keep,
    /// Sends again as long as the transport recognises what it was given before, and keeps the key otherwise.
    RetryIfDeduped,
    /// Sends again. The message may arrive twice.
    Retry,
}

pub(crate) type KeyOf = Arc<dyn Fn(&Message) -> Option<String> + Send + Sync>;
pub(crate) type RawKeyOf = Arc<dyn Fn(&RawMessage) -> Option<String> + Send + Sync>;

/// How the keys of one decorator are kept.
#[derive(Clone)]
pub(crate) struct Policy {
    pub(super) keeper: Keeper,
    /// The namespace and scope, or why they cannot be used: said by the first send.
    pub(super) namespace: Result<Namespace, String>,
    pub(super) scope: Result<Scope, String>,
    pub(crate) lease: Duration,
    pub(crate) ttl: Duration,
    pub(crate) unknown_ttl: Duration,
    pub(crate) wait: Option<Duration>,
    pub(crate) key: Option<KeyOf>,
    pub(crate) raw_key: Option<RawKeyOf>,
    pub(crate) strict: bool,
    pub(crate) on_unknown: OnUnknown,
    pub(crate) keep_rejected: bool,
    secret: Arc<OnceCell<Option<[u8; 32]>>>,
}

/// A send that has a key.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) name: Name,
    pub(crate) fingerprint: Fingerprint,
}

impl Policy {
    /// Longer than a send takes with all its attempts; a crash holds the key no longer.
    pub(crate) const LEASE: Duration = Duration::from_mins(10);

    /// Keys in this process, until a store is given.
    pub(crate) fn new(transport: &str) -> Self {
        let store = MemoryStore::new(Arc::new(SystemClock));
        Self {
            keeper: Keeper::new(Arc::new(store)),
            namespace: Ok(Namespace::default()),
            scope: scope(&format!("mail:{transport}")),
            lease: Self::LEASE,
            ttl: Terms::TTL,
            unknown_ttl: Terms::TTL,
            wait: None,
            key: None,
            raw_key: None,
            strict: false,
            on_unknown: OnUnknown::Keep,
            keep_rejected: false,
            secret: Arc::default(),
        }
    }

    /// Keys in the store of that handle, in its namespace.
    pub(crate) fn keep_in(&mut self, idem: &Idempotency) {
        self.keeper = idem.keeper().clone();
        self.namespace = idem.namespace().cloned().map_err(|error| why(&error));
        self.secret = Arc::default();
    }

    pub(crate) fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    pub(crate) fn set_scope(&mut self, text: &str) {
        self.scope = scope(text);
    }

    /// Whether it can be used at all.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.namespace.as_ref().map_err(Clone::clone)?;
        self.scope.as_ref().map_err(Clone::clone)?;
        self.terms().map(drop).map_err(|error| why(&error))
    }

    pub(super) fn terms(&self) -> Result<Terms, IdempotencyError> {
        let terms = Terms::new(self.lease, self.ttl, self.unknown_ttl)?;
        Ok(terms.wait(self.wait).ceiling(Some(Terms::CEILING)))
    }

    /// The call of a message with a key; none without.
    pub(super) fn call(&self, message: &Message) -> Result<Option<Call>, Box<Receipt>> {
        let key = match &self.key {
            Some(key_of) => match key_of(message) {
                Some(text) => Key::new(&text).map_err(|error| Box::new(invalid(error.to_string())))?,
                None => return Ok(None),
            },
            None => match message.idempotency_key() {
                Some(key) => key.clone(),
                None => return Ok(None),
            },
        };
        let fingerprint = if self.strict { fingerprint_strict(message) } else { fingerprint(message) };
        self.named(&key, fingerprint).map(Some)
    }

    /// The call of a raw message: its fingerprint is its envelope. One that cannot be sent must not hold a key.
    pub(super) fn raw_call(&self, raw: &RawMessage) -> Result<Option<Call>, Box<Receipt>> {
        let given = self.raw_key.as_ref().and_then(|key_of| key_of(raw));
        let Some(text) = given.as_ref().or(raw.idempotency_key.as_ref()) else { return Ok(None) };
        raw.check().map_err(|faults| {
            let failure =
                Failure::new(MailCategory::Validation, faults.code()).with_detail(faults.to_string());
            Box::new(Receipt::not_sent(failure))
        })?;
        let key = Key::new(text).map_err(|error| Box::new(invalid(error.to_string())))?;
        self.named(&key, fingerprint_raw(raw)).map(Some)
    }

    fn named(&self, key: &Key, fingerprint: Fingerprint) -> Result<Call, Box<Receipt>> {
        let namespace = self.namespace.as_ref().map_err(|reason| Box::new(invalid(reason.clone())))?;
        let scope = self.scope.as_ref().map_err(|reason| Box::new(invalid(reason.clone())))?;
        Ok(Call { name: Name::new(namespace, scope, key), fingerprint })
    }

    /// The secret of the store, asked for once.
    pub(super) async fn secret(&self) -> StoreResult<&[u8]> {
        let limit = Duration::from_secs(5).min(self.lease / 4);
        let ask = || async {
            let asked = tokio::time::timeout(limit, self.keeper.store().secret()).await;
            asked.unwrap_or_else(|_| {
                let reason = "the store did not answer within the time-out";
                Err(StoreError::new(StoreErrorKind::Timeout, "hapax", "read the secret", reason))
            })
        };
        Ok(as_bytes(self.secret.get_or_try_init(ask).await?.as_ref()))
    }

    /// The secret, where it was asked for already.
    pub(super) fn known_secret(&self) -> Option<&[u8]> {
        self.secret.get().map(|secret| as_bytes(secret.as_ref()))
    }
}

/// A store without a secret gives ids without one.
fn as_bytes(secret: Option<&[u8; 32]>) -> &[u8] {
    secret.map_or(&[], |secret| secret.as_slice())
}

fn scope(text: &str) -> Result<Scope, String> {
    Scope::new(text).map_err(|error| error.to_string())
}

/// The reason in an error that only names its kind.
pub(super) fn why(error: &IdempotencyError) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

pub(super) fn invalid(reason: String) -> Receipt {
    Receipt::not_sent(Failure::new(MailCategory::Validation, "idempotency.invalid").with_detail(reason))
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("namespace", &self.namespace)
            .field("scope", &self.scope)
            .field("lease", &self.lease)
            .field("ttl", &self.ttl)
            .field("unknown_ttl", &self.unknown_ttl)
            .field("on_unknown", &self.on_unknown)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_store_keeps_a_hundred_thousand_keys_of_this_process() {
        let policy = Policy::new("stub");
        let shown = format!("{:?}", policy.keeper.store());
        assert!(shown.starts_with("MemoryStore") && shown.contains("max_entries: 100000"), "{shown}");
    }

    #[test]
    fn defaults_are_ten_minutes_and_a_day() {
        let policy = Policy::new("stub");
        let terms = policy.terms().unwrap();
        assert_eq!(terms.lease.get(), Duration::from_mins(10));
        assert_eq!(
            (terms.ttl.get(), terms.unknown_ttl.get()),
            (Duration::from_hours(24), Duration::from_hours(24))
        );
        assert_eq!(policy.scope.unwrap().as_str(), "mail:stub");
    }
}
