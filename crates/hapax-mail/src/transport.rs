//! What sends messages.

mod context;
pub mod faulty;
pub mod outbox;
mod ready;
mod stack;
pub mod stub;

pub use context::SendContext;
pub use faulty::{Fault, Faulty};
pub use outbox::Outbox;
pub use stack::{Layer, Stack};
pub use stub::{Act, Stub, StubCall};

pub(crate) use context::{Ended, attempt, frozen_or_random, mail_digest_of, panicked, stopped};
pub(crate) use ready::{Ready, frozen_raw, invalid, no_chance};

use crate::{Message, RawMessage, Receipt};
use async_trait::async_trait;
use futures_core::stream::BoxStream;
use futures_util::StreamExt;
use std::{fmt, sync::Arc, time::Duration};

/// Whether a transport says when delivery becomes possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Commit {
    /// It calls [`SendContext::commit`] immediately before the first byte after which delivery is possible.
    Supported,
    /// It does not: from its first poll on, a send that is stopped may have gone.
    Unsupported,
}

/// Sends messages. Implemented by the transports and decorators here, and by you.
///
/// A send answers with a receipt, whatever happens. It is stopped by dropping its future: a transport then sends
/// nothing more, and what [`SendContext::commit`] said stands.
#[async_trait]
pub trait Transport: Send + Sync + fmt::Debug {
    /// Names it in receipts, and by default the scope of its idempotency keys: keep it stable.
    fn id(&self) -> &str;

    /// Sends one message.
    async fn send(&self, message: &Message, context: &SendContext) -> Receipt;

    /// Sends bytes that are ready, with their own envelope.
    async fn send_raw(&self, raw: &RawMessage, context: &SendContext) -> Receipt;

    /// One receipt per message, in order. The default sends one after another.
    ///
    /// A transport that sends several in one call takes what is ready and waits for no more: the next message may come
    /// only after a receipt.
    fn send_many<'a>(&'a self, messages: BoxStream<'a, (Message, SendContext)>) -> BoxStream<'a, Receipt> {
        let one = move |(message, context): (Message, SendContext)| async move {
            context.guard(self.commit(), self.send(&message, &context)).await
        };
        Box::pin(messages.then(one))
    }

    /// Whether it says when delivery becomes possible.
    fn commit(&self) -> Commit {
        Commit::Unsupported
    }

    /// For how long the provider recognises a message that it was given before, by
    /// [`SendContext::provider_key`] or by its own means.
    fn dedupes_for(&self) -> Option<Duration> {
        None
    }

    /// What it is made of, for whoever puts more around it. Only decorators have something to say here, and transports
    /// that know how long a send takes at most.
    fn stack(&self) -> Stack {
        Stack::default()
    }
}

macro_rules! forwards {
    ($($pointer:ident),*) => { $(
        #[deny(clippy::missing_trait_methods)]
        #[async_trait]
        impl<T: Transport + ?Sized> Transport for $pointer<T> {
            fn id(&self) -> &str {
                (**self).id()
            }
            async fn send(&self, message: &Message, context: &SendContext) -> Receipt {
                (**self).send(message, context).await
            }
            async fn send_raw(&self, raw: &RawMessage, context: &SendContext) -> Receipt {
                (**self).send_raw(raw, context).await
            }
            fn send_many<'a>(&'a self, messages: BoxStream<'a, (Message, SendContext)>) -> BoxStream<'a, Receipt> {
                (**self).send_many(messages)
            }
            fn commit(&self) -> Commit {
                (**self).commit()
            }
            fn dedupes_for(&self) -> Option<Duration> {
                (**self).dedupes_for()
            }
            fn stack(&self) -> Stack {
                (**self).stack()
            }
        }
    )* };
}
forwards!(Arc, Box);

/// A mailer or transport cannot be built as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the transport is not valid: {reason}")]
#[non_exhaustive]
pub struct InvalidTransport {
    /// One sentence.
    pub reason: String,
}

impl InvalidTransport {
    /// For authors of transports.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

impl hapax_core::Coded for InvalidTransport {
    fn code(&self) -> &'static str {
        "mail.invalid_transport"
    }

    fn category(&self) -> hapax_core::Category {
        hapax_core::Category::Validation
    }

    fn retry(&self) -> hapax_core::Retry {
        hapax_core::Retry::Never
    }
}
