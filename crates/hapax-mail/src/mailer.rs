//! The whole stack behind one handle.

mod many;

pub use many::SendMany;

use crate::{
    Message, RawMessage, Receipt,
    decorate::{Batch, BatchSettings, Delivered, Mail, OnUnknown, Policy, Wrapped},
    transport::{Commit, InvalidTransport, SendContext, Transport},
};
use async_trait::async_trait;
use futures_core::{Stream, stream::BoxStream};
use futures_util::{StreamExt, stream};
use hapax_engine::{Idempotency, Keeper};
use std::{sync::Arc, time::Duration};

/// Sends mail. Cheap to clone: share it, don't wrap it.
#[derive(Clone, Debug)]
pub struct Mailer {
    transport: Arc<dyn Transport>,
    policy: Option<Arc<Policy>>,
}

/// A transport and what stands before it.
#[must_use]
#[derive(Clone, Debug)]
pub struct Member {
    transport: Arc<dyn Transport>,
}

impl Member {
    /// A transport alone.
    pub fn new(transport: impl Transport + 'static) -> Self {
        Self { transport: Arc::new(transport) }
    }
}

impl<T: Transport + 'static> From<T> for Member {
    fn from(transport: T) -> Self {
        Self::new(transport)
    }
}

impl Mailer {
    /// Starts with the transport that delivers.
    pub fn via(member: impl Into<Member>) -> MailerBuilder {
        let Member { transport } = member.into();
        let policy = Policy::new(transport.id());
        MailerBuilder { transport, policy, idempotent: false, about_keys: None }
    }

    /// Sends a message.
    ///
    /// # Cancel safety
    /// Dropped before anything could be delivered: nothing was sent, and the key is free. After: the key is kept as
    /// unknown.
    pub fn send(&self, message: &Message) -> impl Future<Output = Receipt> + Send + use<> {
        self.send_with(message, &SendContext::default())
    }

    /// Sends a message, with a deadline, a token to stop it, or an id of your own.
    ///
    /// # Cancel safety
    /// As [`send`](Self::send).
    pub fn send_with(
        &self,
        message: &Message,
        context: &SendContext,
    ) -> impl Future<Output = Receipt> + Send + use<> {
        let (mailer, message, context) = (self.clone(), message.clone(), context.clone());
        async move { mailer.deliver(Mail::Message(&message), &context).await }
    }

    /// Sends bytes that are ready, with their own envelope.
    ///
    /// # Cancel safety
    /// As [`send`](Self::send).
    pub fn send_raw(&self, raw: &RawMessage) -> impl Future<Output = Receipt> + Send + use<> {
        self.send_raw_with(raw, &SendContext::default())
    }

    /// As [`send_raw`](Self::send_raw), with a context.
    ///
    /// # Cancel safety
    /// As [`send`](Self::send).
    pub fn send_raw_with(
        &self,
        raw: &RawMessage,
        context: &SendContext,
    ) -> impl Future<Output = Receipt> + Send + use<> {
        let (mailer, raw, context) = (self.clone(), raw.clone(), context.clone());
        async move { mailer.deliver(Mail::Raw(&raw), &context).await }
    }

    /// Sends many: one receipt per message, in their order. Messages are taken when their turn comes.
    pub fn send_many<'a, I>(&self, messages: I) -> SendMany<'a>
    where
        I: IntoIterator<Item: Into<Message>, IntoIter: Send + 'a>,
    {
        self.send_stream(stream::iter(Messages(messages.into_iter())))
    }

    /// As [`send_many`](Self::send_many), for messages that come one by one.
    pub fn send_stream<'a>(&self, messages: impl Stream<Item = Message> + Send + 'a) -> SendMany<'a> {
        SendMany::new(self.clone(), Box::pin(messages))
    }

    /// Sends one whose key the caller completes.
    pub(crate) async fn deliver_open(&self, mail: Mail<'_>, context: &SendContext) -> Delivered {
        match &self.policy {
            Some(policy) => policy.deliver(&*self.transport, mail, context).await,
            None => mail.alone(&*self.transport, context).await.into(),
        }
    }

    /// Where its keys are, if it has any.
    pub(crate) fn keys(&self) -> Option<&Keeper> {
        self.policy.as_ref().map(|policy| policy.keeper())
    }

    async fn deliver(&self, mail: Mail<'_>, context: &SendContext) -> Receipt {
        match &self.policy {
            Some(policy) => policy.send(&*self.transport, mail, context).await,
            None => mail.alone(&*self.transport, context).await,
        }
    }

    fn batch<'a>(
        &self,
        messages: BoxStream<'a, (Message, SendContext)>,
        settings: BatchSettings,
    ) -> Batch<'a> {
        Batch::new(Wrapped::Shared(Arc::clone(&self.transport)), self.policy.clone(), messages, settings)
    }
}

/// Whatever becomes a message. A type of its own, as a closure would ask for the items to live as long as the batch.
struct Messages<I>(I);

impl<I: Iterator<Item: Into<Message>>> Iterator for Messages<I> {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        self.0.next().map(Into::into)
    }
}

/// So that a mailer can be a member of another stack.
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Transport for Mailer {
    fn id(&self) -> &str {
        self.transport.id()
    }

    async fn send(&self, message: &Message, context: &SendContext) -> Receipt {
        self.deliver(Mail::Message(message), context).await
    }

    async fn send_raw(&self, raw: &RawMessage, context: &SendContext) -> Receipt {
        self.deliver(Mail::Raw(raw), context).await
    }

    fn send_many<'a>(&'a self, messages: BoxStream<'a, (Message, SendContext)>) -> BoxStream<'a, Receipt> {
        self.batch(messages, BatchSettings::default()).boxed()
    }

    fn commit(&self) -> Commit {
        if self.policy.is_some() { Commit::Supported } else { self.transport.commit() }
    }

    fn dedupes_for(&self) -> Option<Duration> {
        self.transport.dedupes_for()
    }
}

/// A mailer that has not been built.
#[must_use = "call `.build()`"]
#[derive(Debug)]
pub struct MailerBuilder {
    transport: Arc<dyn Transport>,
    policy: Policy,
    idempotent: bool,
    /// The first setting that is about keys.
    about_keys: Option<&'static str>,
}

impl MailerBuilder {
    /// Each message with a key is sent once: see [`IdempotencyTransport`](crate::IdempotencyTransport). The keys lie in
    /// the store and namespace of this handle; scope and durations are the mailer's own.
    pub fn idempotent(mut self, idem: &Idempotency) -> Self {
        self.policy.keep_in(idem);
        self.idempotent = true;
        self
    }

    fn set(mut self, name: &'static str, change: impl FnOnce(&mut Policy)) -> Self {
        self.about_keys.get_or_insert(name);
        change(&mut self.policy);
        self
    }

    /// How long a key stays reserved unless it is renewed (10 min).
    pub fn lease(self, lease: Duration) -> Self {
        self.set("lease", |policy| policy.lease = lease)
    }

    /// How long a receipt answers (24 h).
    pub fn ttl(self, ttl: Duration) -> Self {
        self.set("ttl", |policy| policy.ttl = ttl)
    }

    /// How long a message that may have gone holds its key (24 h).
    pub fn unknown_ttl(self, ttl: Duration) -> Self {
        self.set("unknown_ttl", |policy| policy.unknown_ttl = ttl)
    }

    /// The scope of the keys (`mail:` and the id of the transport).
    pub fn scope(self, scope: impl AsRef<str>) -> Self {
        self.set("scope", |policy| policy.set_scope(scope.as_ref()))
    }

    /// Waits so long for a send that is in flight under the key. Batches never wait.
    pub fn wait(self, limit: Duration) -> Self {
        self.set("wait", |policy| policy.wait = Some(limit))
    }

    /// What a later send under a key of unknown outcome does.
    pub fn on_unknown(self, on_unknown: OnUnknown) -> Self {
        self.set("on_unknown", |policy| policy.on_unknown = on_unknown)
    }

    /// Keeps the receipts of permanent refusals too.
    pub fn keep_rejected(self, keep: bool) -> Self {
        self.set("keep_rejected", |policy| policy.keep_rejected = keep)
    }

    /// The key of a message, in place of its own.
    pub fn key(self, key: impl Fn(&Message) -> Option<String> + Send + Sync + 'static) -> Self {
        self.set("key", |policy| policy.key = Some(Arc::new(key)))
    }

    /// The key of a raw message, before its own.
    pub fn raw_key(self, key: impl Fn(&RawMessage) -> Option<String> + Send + Sync + 'static) -> Self {
        self.set("raw_key", |policy| policy.raw_key = Some(Arc::new(key)))
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// A duration or a name that cannot be used; a setting of keys without [`idempotent`](Self::idempotent).
    pub fn build(self) -> Result<Mailer, InvalidTransport> {
        let policy = match (self.idempotent, self.about_keys) {
            (true, _) => {
                self.policy.check().map_err(InvalidTransport::new)?;
                Some(Arc::new(self.policy))
            }
            (false, None) => None,
            (false, Some(name)) => {
                let reason = format!(
                    "`{name}` is about keys, and there is no store to keep them in: call `idempotent`"
                );
                return Err(InvalidTransport::new(reason));
            }
        };
        Ok(Mailer { transport: self.transport, policy })
    }
}
