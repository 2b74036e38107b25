//! The transport.

use super::{
    address::path,
    connect::open,
    connection::Connection,
    failure::Trouble,
    options::SmtpOptions,
    pool::{Pool, Turn},
    reply::Reply,
    tls::Tls,
    transaction::{Ended, Mail, Verdict},
};
use crate::{
    Failure, MailCategory, Message, RawMessage, Receipt,
    receipt::{Attempt, Rejected},
    transport::{Commit, InvalidTransport, Ready, SendContext, Transport},
};
use async_trait::async_trait;
use bytes::Bytes;
use hapax_core::{Clock, SystemClock, Timestamp};
use std::{fmt, sync::Arc};

/// Sends by SMTP or LMTP.
///
/// A message goes over one connection to all of its recipients; those that the server refuses are in the receipt, and it
/// goes to the others. Connections are kept for the messages that follow, up to the limits of the [`SmtpOptions`]. Cheap
/// to clone: clones share them.
///
/// ```
/// # use hapax_mail::*;
/// # fn main() -> Result<(), InvalidTransport> {
/// let transport = IdempotencyTransport::new(Smtp::new("smtp://user:pass@mail.example.com:587")?);
/// # Ok(()) }
/// ```
///
/// # Cancel safety
/// A send that is dropped closes its connection. Dropped before the line with the dot was begun, the message was certainly
/// not sent.
#[derive(Clone)]
pub struct Smtp {
    inner: Arc<Inner>,
}

struct Inner {
    options: SmtpOptions,
    tls: Tls,
    pool: Arc<Pool>,
    clock: Arc<dyn Clock>,
}

impl Smtp {
    /// The server of a URL: see [`URLS`](super::URLS). Nothing is connected before the first send.
    pub fn new(url: &str) -> Result<Self, InvalidTransport> {
        Self::with_options(SmtpOptions::parse(url)?)
    }

    /// The server of these options. Files of certificates are read now.
    pub fn with_options(options: SmtpOptions) -> Result<Self, InvalidTransport> {
        let options = options.checked()?;
        let tls = Tls::load(&options.tls)?;
        let pool = Pool::new(options.limits);
        Ok(Self { inner: Arc::new(Inner { options, tls, pool, clock: Arc::new(SystemClock) }) })
    }

    /// Closes the connections that have nothing to do. Those of sends in progress go on.
    pub fn close_idle(&self) {
        self.inner.pool.clear();
    }

    async fn deliver(&self, mut ready: Ready, context: &SendContext) -> Receipt {
        let message_id = std::mem::take(&mut ready.message_id);
        let Some((mail, recipients)) = self.addressed(ready) else {
            let failure = Failure::new(MailCategory::Validation, "message.address");
            return self.not_sent(&message_id, failure.with_detail("an address cannot be sent to a server"));
        };
        context.guard(Commit::Supported, Box::pin(self.transmit(mail, recipients, message_id, context))).await
    }

    async fn transmit(
        &self,
        mail: Mail,
        recipients: Vec<String>,
        message_id: String,
        context: &SendContext,
    ) -> Receipt {
        let turn = self.inner.pool.turn().await;
        let mut round = Round { transport: self, mail: &mail, context, sum: Sum::default() };
        let receipt = match round.run(&turn).await {
            Ok((verdict, connection)) => {
                turn.park(connection);
                round.sum.receipt(verdict, &recipients)
            }
            Err(trouble) => {
                round.sum.receipt(Verdict::Failed(trouble.failure), &recipients).said(trouble.response)
            }
        };
        self.finished(receipt, message_id)
    }

    /// For the wire, signed, and the recipients as the receipt names them.
    fn addressed(&self, ready: Ready) -> Option<(Mail, Vec<String>)> {
        let Ready { bytes, envelope, date, .. } = ready;
        let from = path(&envelope.from, true)?;
        let to: Option<Vec<_>> = envelope.to.iter().map(|address| path(address, false)).collect();
        let mail = Mail { from, to: to?, utf8: envelope.smtputf8, bytes: self.signed(bytes, date) };
        Some((mail, envelope.to))
    }

    /// With the signatures before it. Each is of the message alone.
    fn signed(&self, bytes: Bytes, at: Timestamp) -> Bytes {
        let signers = &self.inner.options.signers;
        if signers.is_empty() {
            return bytes;
        }
        let fields: String = signers.iter().map(|signer| signer.sign(&bytes, at)).collect();
        [fields.as_bytes(), &bytes].concat().into()
    }

    fn not_sent(&self, message_id: &str, failure: Failure) -> Receipt {
        self.finished(Receipt::not_sent(failure), message_id.to_owned())
    }

    fn finished(&self, receipt: Receipt, message_id: String) -> Receipt {
        let code = receipt.failure().map(|failure| failure.code.clone());
        let mut receipt = receipt.with_provider(self.id()).with_message_id(message_id);
        receipt.attempts = vec![Attempt::new(self.id(), code)];
        receipt
    }
}

/// As many transactions as the server wants for the recipients of one message: one, unless it limits them.
struct Round<'a> {
    transport: &'a Smtp,
    mail: &'a Mail,
    context: &'a SendContext,
    sum: Sum,
}

impl Round<'_> {
    async fn run(&mut self, turn: &Turn) -> Result<(Verdict, Connection), Trouble> {
        let mut connection = match turn.idle() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let mut to: Vec<usize> = (0..self.mail.to.len()).collect();
        loop {
            let pipelining = self.transport.inner.options.pipelining;
            let ended = connection.transact(self.mail, &to, pipelining, self.context).await;
            if let Verdict::Stale(failure) = &ended.verdict {
                // Idle connections are closed by servers without a word, or with one that nobody heard. A new one cannot
                // be stale.
                tracing::debug!(code = %failure.code, "an idle connection was closed by the server");
                connection = self.connect().await?;
                continue;
            }
            let (verdict, put_off) = self.sum.add(ended);
            match verdict {
                Verdict::Taken if !put_off.is_empty() && connection.is_reusable() => {
                    to = put_off.iter().map(|(number, _)| *number).collect();
                    self.sum.left = put_off;
                }
                verdict => {
                    self.sum.left.extend(put_off);
                    return Ok((verdict, connection));
                }
            }
        }
    }

    async fn connect(&self) -> Result<Connection, Trouble> {
        Box::pin(open(&self.transport.inner.options, &self.transport.inner.tls)).await
    }
}

/// What all transactions of one message came to.
#[derive(Default)]
struct Sum {
    accepted: Vec<usize>,
    refused: Vec<(usize, Reply)>,
    /// Those that were put off, until they had their own transaction.
    left: Vec<(usize, Reply)>,
    response: Option<String>,
}

impl Sum {
    fn add(&mut self, ended: Ended) -> (Verdict, Vec<(usize, Reply)>) {
        let settled = |number: &usize| {
            ended.accepted.contains(number) || ended.refused.iter().any(|(refused, _)| refused == number)
        };
        // Who may have it now was not refused. What failed as a whole leaves those that wait for it as they are.
        let is_unknown = matches!(ended.verdict, Verdict::Unknown(_));
        self.left.retain(|(number, _)| !is_unknown && !settled(number));
        // What became of the first recipients is what the receipt is about.
        if self.accepted.is_empty() || !matches!(ended.verdict, Verdict::Failed(_)) {
            self.response = ended.response.or(self.response.take());
        }
        self.accepted.extend(ended.accepted);
        self.refused.extend(ended.refused);
        (ended.verdict, ended.put_off)
    }

    fn receipt(self, verdict: Verdict, recipients: &[String]) -> Receipt {
        let name = |number: usize| recipients.get(number).cloned().unwrap_or_default();
        let receipt = match verdict {
            Verdict::Unknown(failure) => Receipt::not_known(failure),
            // The first recipients have it, whatever became of those that were put off.
            _ if !self.accepted.is_empty() => Receipt::accepted(),
            Verdict::Failed(failure) | Verdict::Stale(failure) => Receipt::not_sent(failure),
            Verdict::Taken => Receipt::accepted(),
        };
        let mut refused = [self.refused, self.left].concat();
        refused.sort_by_key(|(number, _)| *number);
        let mut accepted = self.accepted;
        accepted.sort_unstable();
        let rejected = refused
            .into_iter()
            .map(|(number, reply)| Rejected::new(name(number), reply.text(), reply.is_transient()));
        let mut receipt =
            receipt.with_rejected(rejected).with_accepted(accepted.into_iter().map(name)).said(self.response);
        if receipt.is_accepted() {
            receipt.provider_id = receipt.response.as_deref().and_then(queue_id).map(str::to_owned);
        }
        receipt
    }
}

impl Receipt {
    fn said(mut self, response: Option<String>) -> Self {
        self.response = response.or(self.response);
        self
    }
}

/// Under which name the server has the message, as far as the usual servers say: `queued as X`, `id=X`, `X Message
/// accepted`.
fn queue_id(response: &str) -> Option<&str> {
    let first = |text: &str| {
        let is_id = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        text.find(|c| !is_id(c)).unwrap_or(text.len())
    };
    let marked =
        ["queued as ", "id="].into_iter().find_map(|mark| response.split_once(mark)).map(|(_, rest)| rest);
    let named = || response.split_once(" Message accepted for delivery")?.0.rsplit(' ').next();
    let text = marked.or_else(named)?;
    let id = text.get(..first(text))?.trim_end_matches('.');
    (!id.is_empty()).then_some(id)
}

#[async_trait]
impl Transport for Smtp {
    fn id(&self) -> &str {
        &self.inner.options.id
    }

    async fn send(&self, message: &Message, context: &SendContext) -> Receipt {
        let now = self.inner.clock.now();
        match Ready::of(message, context, now) {
            Ok(ready) if message.send_at().is_some_and(|at| at > now) => {
                let failure = Failure::new(MailCategory::Validation, "message.unsupported");
                self.not_sent(&ready.message_id, failure.with_detail("send_at: a mail server sends at once"))
            }
            Ok(ready) => self.deliver(ready, context).await,
            Err(not) => self.not_sent(&not.message_id, not.failure),
        }
    }

    async fn send_raw(&self, raw: &RawMessage, context: &SendContext) -> Receipt {
        match Ready::of_raw(raw, context, self.inner.clock.now()) {
            Ok(ready) => self.deliver(ready, context).await,
            Err(not) => self.not_sent(&not.message_id, not.failure),
        }
    }

    fn commit(&self) -> Commit {
        Commit::Supported
    }
}

impl fmt::Debug for Smtp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.inner.options;
        f.debug_struct("Smtp").field("id", &options.id).field("place", &options.place).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_servers_name_what_they_took() {
        for (response, id) in [
            ("250 2.0.0 Ok: queued as 4fXyZ01abc", Some("4fXyZ01abc")),
            ("250 OK id=1rABCD-0000000001-Xy", Some("1rABCD-0000000001-Xy")),
            ("250 2.0.0 5d41402a Message accepted for delivery", Some("5d41402a")),
            ("250 2.0.0 Ok: queued as ", None),
            ("250 ok", None),
        ] {
            assert_eq!(queue_id(response), id, "{response}");
        }
    }
}
