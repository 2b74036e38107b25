//! The whole stack behind one handle.

mod many;
mod member;

pub use many::SendMany;
pub use member::Member;

use crate::{
    Mail, Message, RawMessage, Receipt,
    decorate::{Batch, BatchSettings, Delivered, OnUnknown, Policy, Pool, Strategy, Wrapped},
    transport::{Commit, InvalidTransport, Layer, SendContext, Stack, Transport},
};
use async_trait::async_trait;
use futures_core::{Stream, stream::BoxStream};
use futures_util::{StreamExt, stream};
use hapax_engine::{Idempotency, Keeper, protocol::Terms};
use std::{sync::Arc, time::Duration};

/// Sends mail. Cheap to clone: share it, don't wrap it.
#[derive(Clone, Debug)]
pub struct Mailer {
    transport: Arc<dyn Transport>,
    policy: Option<Arc<Policy>>,
}

impl Mailer {
    /// Starts with the transport that delivers; [`or_via`](MailerBuilder::or_via) makes a pool of it.
    pub fn via(member: impl Into<Member>) -> MailerBuilder {
        let first = member.into();
        let policy = Policy::new(first.id());
        MailerBuilder {
            members: vec![first],
            name: None,
            strategy: None,
            failover_on_unknown: false,
            policy,
            scoped: false,
            idempotent: false,
            about_keys: None,
        }
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

    fn stack(&self) -> Stack {
        let stack = self.transport.stack();
        if self.policy.is_some() { stack.within(Layer::Idempotency) } else { stack }
    }
}

/// A mailer that has not been built.
///
/// Whatever the order of the calls, what is built is: keys, then the pool, then for each member its attempts, its breaker, its
/// limits, the transport. One reservation holds for all attempts; every attempt is seen by the breaker, which ends the attempts
/// at once when it opens, so that the pool moves on; waiting for a limit is no failure. [`Observed`](crate::Observed) goes around the
/// whole, to see each message, or around a transport, to see each attempt.
#[must_use = "call `.build()`"]
#[derive(Debug)]
pub struct MailerBuilder {
    members: Vec<Member>,
    name: Option<String>,
    strategy: Option<Strategy>,
    failover_on_unknown: bool,
    policy: Policy,
    scoped: bool,
    idempotent: bool,
    /// The first setting that is about keys.
    about_keys: Option<&'static str>,
}

impl MailerBuilder {
    /// Another transport: what fails for certain at one, and may fare better at another, goes there. What may have gone does
    /// not, and neither does a message that is refused as it is.
    pub fn or_via(mut self, member: impl Into<Member>) -> Self {
        self.members.push(member.into());
        self
    }

    /// In which order the members are tried (by priority, which is the order in which they were given).
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = Some(strategy);
        self
    }

    /// The id of the pool (`pool`), which names it in receipts and is the default of the keys' scope. It never depends on the
    /// members, so that they may change.
    pub fn named(mut self, id: impl Into<String>) -> Self {
        self.name = Some(id.into());
        self
    }

    /// Goes on to the next member even after a send that may have gone. **It may be delivered twice.**
    pub fn failover_on_unknown(mut self) -> Self {
        self.failover_on_unknown = true;
        self
    }

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
        let mut this = self.set("scope", |policy| policy.set_scope(scope.as_ref()));
        this.scoped = true;
        this
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

    /// Checks the settings, and puts it together.
    ///
    /// # Errors
    /// A duration or a name that cannot be used; a setting of keys without [`idempotent`](Self::idempotent), or of a pool with
    /// one member; decorators of a member that stand the wrong way round; and, with keys, attempts that together can take longer
    /// than a lease is renewed (1 h).
    pub fn build(self) -> Result<Mailer, InvalidTransport> {
        let pooled = self.members.len() > 1;
        let of_a_pool = [
            ("strategy", self.strategy.is_some()),
            ("named", self.name.is_some()),
            ("failover_on_unknown", self.failover_on_unknown),
        ];
        if let Some((name, _)) = of_a_pool.iter().find(|(_, set)| *set && !pooled) {
            let reason = format!("`{name}` is about a pool, and there is one member: call `or_via`");
            return Err(InvalidTransport::new(reason));
        }
        let seats = self.members.into_iter().enumerate().map(|(place, member)| member.seat(place, pooled));
        let mut seats = seats.collect::<Result<Vec<_>, _>>()?;
        let transport: Arc<dyn Transport> = match seats.pop() {
            Some(only) if !pooled => only.transport,
            last => {
                seats.extend(last);
                let id = self.name.unwrap_or_else(|| "pool".to_owned());
                Arc::new(Pool::new(id, seats, self.strategy.unwrap_or_default(), self.failover_on_unknown))
            }
        };
        let mut policy = self.policy;
        if pooled && !self.scoped {
            policy.set_scope(&format!("mail:{}", transport.id()));
        }
        let policy = match (self.idempotent, self.about_keys) {
            (true, _) => {
                policy.check().map_err(InvalidTransport::new)?;
                member::in_order(transport.id(), &transport.stack().within(Layer::Idempotency), false)?;
                in_time(&transport.stack())?;
                Some(Arc::new(policy))
            }
            (false, None) => None,
            (false, Some(name)) => {
                let reason = format!(
                    "`{name}` is about keys, and there is no store to keep them in: call `idempotent`"
                );
                return Err(InvalidTransport::new(reason));
            }
        };
        Ok(Mailer { transport, policy })
    }
}

/// A lease is renewed for an hour and no longer: what may take more could go on while another sends the same mail.
fn in_time(stack: &Stack) -> Result<(), InvalidTransport> {
    let Some(longest) = stack.longest.filter(|longest| *longest > Terms::CEILING) else { return Ok(()) };
    let (longest, most) = (longest.as_secs().div_ceil(60), Terms::CEILING.as_secs() / 60);
    Err(InvalidTransport::new(format!(
        "all attempts of all members can take {longest} min together, and a key is held for {most} min at most: lower the \
         attempts, their time-outs or their pauses"
    )))
}
