//! A transport that sends each message once per key.

use super::{Batch, BatchSettings, Mail, OnUnknown, Policy, Wrapped};
use crate::{
    Message, RawMessage, Receipt,
    transport::{Commit, Layer, SendContext, Stack, Transport},
};
use async_trait::async_trait;
use futures_core::stream::BoxStream;
use hapax_engine::Idempotency;
use std::{fmt, sync::Arc, time::Duration};

/// Sends a message with an idempotency key once. A later send under the key answers with the receipt of the first, so
/// that a job that runs twice, or a retry after a time-out, sends nothing twice.
///
/// The key is reserved before the message is sent. A send that failed frees it; one that went, or may have gone, keeps
/// it. What tells one message from another is its [fingerprint](crate::fingerprint()); the bytes of attachments are no
/// part of it. A message without a key goes as it is.
///
/// The promise is at least once with deduplication: a crash after the provider took the message and before its receipt
/// was stored lets it go again, once the lease has passed.
///
/// Put it outside of whatever tries again or chooses between providers, so that a message is reserved once for all its
/// attempts.
///
/// ```
/// # use hapax_mail::*;
/// # async fn example() -> Result<(), InvalidMessage> {
/// let transport = IdempotencyTransport::new(Outbox::new("outbox"));
/// let welcome = Message::builder()
///     .from("shop@example.com")
///     .to("ada@example.com")
///     .subject("Welcome")
///     .html("<p>Welcome aboard.</p>")
///     .idempotency_key("welcome:7")
///     .build()?;
/// let receipt = transport.send(&welcome).await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct IdempotencyTransport<T> {
    inner: T,
    policy: Arc<Policy>,
}

impl<T: Transport> IdempotencyTransport<T> {
    /// Keys are kept in this process, at most 100,000 of them, until [`with_idempotency`](Self::with_idempotency).
    pub fn new(inner: T) -> Self {
        let policy = Arc::new(Policy::new(inner.id()));
        Self { inner, policy }
    }

    /// Keys are kept in the store of that handle, in its namespace. Its scope and durations are its own: this decorator
    /// has others.
    #[must_use]
    pub fn with_idempotency(self, idem: &Idempotency) -> Self {
        self.with(|policy| policy.keep_in(idem))
    }

    /// How long a key stays reserved unless it is renewed (10 min, at least 1 s). It is renewed while the message is
    /// sent; after a crash the key is free when it has passed.
    #[must_use]
    pub fn with_lease(self, lease: Duration) -> Self {
        self.with(|policy| policy.lease = lease)
    }

    /// How long a receipt answers (24 h).
    #[must_use]
    pub fn with_ttl(self, ttl: Duration) -> Self {
        self.with(|policy| policy.ttl = ttl)
    }

    /// How long a message that may have gone holds its key (24 h).
    #[must_use]
    pub fn with_unknown_ttl(self, ttl: Duration) -> Self {
        self.with(|policy| policy.unknown_ttl = ttl)
    }

    /// What keeps these keys apart from those of other transports: the id of the wrapped transport by default. Give one
    /// when that id may change.
    #[must_use]
    pub fn with_namespace(self, namespace: impl AsRef<str>) -> Self {
        self.with(|policy| policy.set_scope(&format!("mail:{}", namespace.as_ref())))
    }

    /// The whole scope of the keys, in place of `mail:` and the namespace: for programs that share keys.
    #[must_use]
    pub fn with_scope(self, scope: impl AsRef<str>) -> Self {
        self.with(|policy| policy.set_scope(scope.as_ref()))
    }

    /// The key of a message, in place of its own. Without a key it goes as it is.
    #[must_use]
    pub fn with_key(self, key: impl Fn(&Message) -> Option<String> + Send + Sync + 'static) -> Self {
        self.with(|policy| policy.key = Some(Arc::new(key)))
    }

    /// The key of a raw message, before its own.
    #[must_use]
    pub fn with_raw_key(self, key: impl Fn(&RawMessage) -> Option<String> + Send + Sync + 'static) -> Self {
        self.with(|policy| policy.raw_key = Some(Arc::new(key)))
    }

    /// Counts the bytes of attachments among what tells one message from another.
    #[must_use]
    pub fn with_strict_fingerprint(self) -> Self {
        self.with(|policy| policy.strict = true)
    }

    /// Waits so long for a send that is in flight under the key, instead of answering at once. Batches never wait.
    #[must_use]
    pub fn with_wait(self, limit: Duration) -> Self {
        self.with(|policy| policy.wait = Some(limit))
    }

    /// What a later send under a key of unknown outcome does.
    #[must_use]
    pub fn with_on_unknown(self, on_unknown: OnUnknown) -> Self {
        self.with(|policy| policy.on_unknown = on_unknown)
    }

    /// Keeps the receipts of permanent refusals too: a later send answers with the refusal instead of trying again.
    #[must_use]
    pub fn keep_rejected(self) -> Self {
        self.with(|policy| policy.keep_rejected = true)
    }

    /// The wrapped transport.
    pub fn get_ref(&self) -> &T {
        &self.inner
    }

    /// Sends a message with a context of its own. With one of yours: [`send_with`](Self::send_with).
    ///
    /// # Cancel safety
    /// Dropped before anything could be delivered: the key is freed. After: it is kept as unknown.
    pub async fn send(&self, message: &Message) -> Receipt {
        self.send_with(message, &SendContext::default()).await
    }

    /// Sends a message: what [`Transport::send`] does, under a name that is not hidden by [`send`](Self::send).
    ///
    /// # Cancel safety
    /// As [`send`](Self::send).
    pub async fn send_with(&self, message: &Message, context: &SendContext) -> Receipt {
        self.policy.send(&self.inner, Mail::Message(message), context).await
    }

    /// Sends a raw message with a context of its own.
    ///
    /// # Cancel safety
    /// As [`send`](Self::send).
    pub async fn send_raw(&self, raw: &RawMessage) -> Receipt {
        self.send_raw_with(raw, &SendContext::default()).await
    }

    /// Sends a raw message: what [`Transport::send_raw`] does.
    ///
    /// # Cancel safety
    /// As [`send`](Self::send).
    pub async fn send_raw_with(&self, raw: &RawMessage, context: &SendContext) -> Receipt {
        self.policy.send(&self.inner, Mail::Raw(raw), context).await
    }

    fn with(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(Arc::make_mut(&mut self.policy));
        self
    }
}

/// Goes through the `send_many` of the wrapped transport. A message whose key was used before, in the batch too, is
/// answered in place.
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<T: Transport> Transport for IdempotencyTransport<T> {
    fn id(&self) -> &str {
        self.inner.id()
    }

    async fn send(&self, message: &Message, context: &SendContext) -> Receipt {
        self.send_with(message, context).await
    }

    async fn send_raw(&self, raw: &RawMessage, context: &SendContext) -> Receipt {
        self.send_raw_with(raw, context).await
    }

    fn send_many<'a>(&'a self, messages: BoxStream<'a, (Message, SendContext)>) -> BoxStream<'a, Receipt> {
        let policy = Some(Arc::clone(&self.policy));
        Box::pin(Batch::new(Wrapped::Lent(&self.inner), policy, messages, BatchSettings::default()))
    }

    /// It says so for whatever it wraps: what does not say it counts as committed from its first poll.
    fn commit(&self) -> Commit {
        Commit::Supported
    }

    fn dedupes_for(&self) -> Option<Duration> {
        self.inner.dedupes_for()
    }

    fn stack(&self) -> Stack {
        self.inner.stack().within(Layer::Idempotency)
    }
}

impl<T: fmt::Debug> fmt::Debug for IdempotencyTransport<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyTransport")
            .field("inner", &self.inner)
            .field("policy", &self.policy)
            .finish()
    }
}
