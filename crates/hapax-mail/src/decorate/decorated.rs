//! A decorator of one's own.

use super::{
    Mail,
    around::{self, Around},
};
use crate::{
    Message, RawMessage, Receipt,
    transport::{Commit, SendContext, Stack, Transport},
};
use async_trait::async_trait;
use futures_core::stream::BoxStream;
use std::{fmt, time::Duration};

/// What a decorator without attempts of its own does: [`Decorated`] puts it around a transport.
pub trait Decorate: fmt::Debug + Send + Sync {
    /// What it remembers of a message that it has let in. Dropped without a receipt, the send was dropped.
    type Pass: Send;

    /// Lets a message in, or answers it. It may change what the send is told. Nothing has begun while it waits.
    fn admit<'a>(
        &'a self,
        mail: Mail<'a>,
        context: &'a mut SendContext,
    ) -> impl Future<Output = Result<Self::Pass, Box<Receipt>>> + Send + 'a;

    /// Sees the receipt.
    fn settle(&self, pass: Self::Pass, receipt: &Receipt) {
        let _ = (pass, receipt);
    }

    /// What the transport is made of with this around it.
    fn stack(&self, inner: Stack) -> Stack {
        inner
    }
}

/// A transport with a decorator around it. What the decorator has nothing to say about (the batch of the transport, whether it says
/// when it commits, for how long it recognises a message, what it is made of) is the transport's.
///
/// ```
/// use hapax_mail::{Decorate, Decorated, Mail, MailCategory, Receipt, SendContext, Stub, Transport};
///
/// /// Sends nothing that is for somebody outside.
/// #[derive(Debug)]
/// struct Inside(&'static str);
///
/// impl Decorate for Inside {
///     type Pass = ();
///
///     async fn admit<'a>(&'a self, mail: Mail<'a>, _: &'a mut SendContext) -> Result<(), Box<Receipt>> {
///         let is_inside = match mail {
///             Mail::Message(message) => message.recipients().all(|to| to.domain() == self.0),
///             Mail::Raw(raw) => raw.to.iter().all(|to| to.ends_with(self.0)),
///         };
///         if is_inside { Ok(()) } else { Err(Box::new(Receipt::failed(MailCategory::Rejected, "mail.suppressed"))) }
///     }
/// }
///
/// let transport = Decorated::new(Inside("example.com"), Stub::new());
/// assert_eq!(transport.id(), "stub");
/// ```
#[derive(Debug)]
pub struct Decorated<D, T> {
    around: Own<D>,
    inner: T,
}

/// Somebody's own among the decorators.
#[derive(Debug)]
struct Own<D>(D);

impl<D: Decorate> Around for Own<D> {
    type Pass = D::Pass;

    fn admit<'a>(
        &'a self,
        mail: Mail<'a>,
        context: &'a mut SendContext,
    ) -> impl Future<Output = Result<D::Pass, Box<Receipt>>> + Send + 'a {
        self.0.admit(mail, context)
    }

    fn settle(&self, pass: D::Pass, receipt: &Receipt) {
        self.0.settle(pass, receipt);
    }
}

impl<D: Decorate, T: Transport> Decorated<D, T> {
    /// Puts `decorator` around `inner`.
    pub fn new(decorator: D, inner: T) -> Self {
        Self { around: Own(decorator), inner }
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<D: Decorate, T: Transport> Transport for Decorated<D, T> {
    fn id(&self) -> &str {
        self.inner.id()
    }

    async fn send(&self, message: &Message, context: &SendContext) -> Receipt {
        around::one(&self.around, &self.inner, Mail::Message(message), context).await
    }

    async fn send_raw(&self, raw: &RawMessage, context: &SendContext) -> Receipt {
        around::one(&self.around, &self.inner, Mail::Raw(raw), context).await
    }

    fn send_many<'a>(&'a self, messages: BoxStream<'a, (Message, SendContext)>) -> BoxStream<'a, Receipt> {
        around::many(&self.around, &self.inner, messages)
    }

    /// What it wraps is guarded by itself, so what waits here has not begun.
    fn commit(&self) -> Commit {
        Commit::Supported
    }

    fn dedupes_for(&self) -> Option<Duration> {
        self.inner.dedupes_for()
    }

    fn stack(&self) -> Stack {
        self.around.0.stack(self.inner.stack())
    }
}
