//! Recipients that get no mail.

mod list;

pub use list::{InvalidSuppression, SuppressionList};

use super::{Mail, once::named};
use crate::{
    Failure, FailureScope, MailCategory, Message, RawMessage, Receipt, Rejected,
    transport::{Commit, SendContext, Stack, Transport},
};
use std::time::Duration;

/// Leaves out the recipients on a list: those who bounced, complained, or asked for it.
///
/// The others get the mail, and the receipt has those that were left out among `rejected`. Where nobody is left, nothing is sent:
/// `mail.suppressed`. It belongs inside of the keys, so that what a key stands for does not change with the list.
#[derive(Debug)]
pub struct Suppressing<T> {
    inner: T,
    list: SuppressionList,
}

impl<T: Transport> Suppressing<T> {
    /// Leaves these out.
    pub fn new(inner: T, list: SuppressionList) -> Self {
        Self { inner, list }
    }

    async fn pass(&self, mail: Mail<'_>, left_out: Vec<String>, context: &SendContext) -> Receipt {
        let nobody = match mail {
            Mail::Message(message) => message.recipients().next().is_none(),
            Mail::Raw(raw) => raw.to.is_empty(),
        };
        let rejected = left_out
            .into_iter()
            .map(|address| Rejected::new(address, "on the suppression list: nothing was sent there", false));
        if nobody {
            let failure = Failure::new(MailCategory::Rejected, "mail.suppressed")
                .with_scope(FailureScope::Recipient)
                .with_detail("every recipient is on the suppression list");
            return named(Receipt::not_sent(failure).with_rejected(rejected), &self.inner);
        }
        let mut receipt = mail.alone(&self.inner, context).await;
        receipt.rejected.extend(rejected);
        receipt
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait::async_trait]
impl<T: Transport> Transport for Suppressing<T> {
    fn id(&self) -> &str {
        self.inner.id()
    }

    async fn send(&self, message: &Message, context: &SendContext) -> Receipt {
        let (message, left_out) = self.list.leave_out(message);
        self.pass(Mail::Message(&message), left_out, context).await
    }

    async fn send_raw(&self, raw: &RawMessage, context: &SendContext) -> Receipt {
        let (raw, left_out) = self.list.leave_out_raw(raw);
        self.pass(Mail::Raw(&raw), left_out, context).await
    }

    /// One after another: what is left out differs from message to message.
    fn send_many<'a>(
        &'a self,
        messages: futures_core::stream::BoxStream<'a, (Message, SendContext)>,
    ) -> futures_core::stream::BoxStream<'a, Receipt> {
        use futures_util::StreamExt;
        Box::pin(messages.then(move |(message, context)| async move { self.send(&message, &context).await }))
    }

    /// What it wraps is guarded by itself.
    fn commit(&self) -> Commit {
        Commit::Supported
    }

    fn dedupes_for(&self) -> Option<Duration> {
        self.inner.dedupes_for()
    }

    fn stack(&self) -> Stack {
        self.inner.stack()
    }
}
