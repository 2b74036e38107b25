//! A transport that fails as you say: for tests of your own code.

use super::{Commit, SendContext, Transport};
use crate::{Failure, MailCategory, Message, RawMessage, Receipt, receipt::Attempt, smtp::Stage};
use async_trait::async_trait;
use std::{
    collections::VecDeque,
    fmt,
    future::pending,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// What happens to one send.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing: it goes through.
    None,
    /// The connection breaks at this stage. Before [`Stage::Dot`] nothing is sent, and the receipt says so. At the dot nothing
    /// is sent, and at [`Stage::Reply`] the message is; the receipt says of both that nobody knows.
    Drop(Stage),
    /// The other side falls silent at this stage, for ever: the send ends with its deadline, or with whoever drops it. What
    /// was sent by then is as in `Drop`.
    Hang(Stage),
    /// As `Drop`, by a panic.
    Panic(Stage),
}

/// Passes messages on, but for those that it was told to lose.
///
/// ```
/// # use hapax_mail::{*, smtp::Stage, transport::Fault};
/// # async fn example(welcome: &Message) {
/// let faulty = Faulty::new(Stub::new());
/// faulty.then(Fault::Drop(Stage::Reply)); // it arrives, and its sender never hears of it
/// let mailer = IdempotencyTransport::new(faulty);
/// assert!(mailer.send(welcome).await.is_unknown());
/// assert!(mailer.send(welcome).await.replayed); // and not sent a second time
/// # }
/// ```
#[derive(Clone)]
pub struct Faulty<T> {
    inner: T,
    script: Arc<Mutex<Script>>,
}

#[derive(Default)]
struct Script {
    next: VecDeque<Fault>,
    then: Option<Fault>,
}

impl<T: Transport> Faulty<T> {
    /// Without a fault so far.
    pub fn new(inner: T) -> Self {
        Self { inner, script: Arc::default() }
    }

    /// What happens to the next send for which nothing is said yet. After the last one sends go through.
    pub fn then(&self, fault: Fault) -> &Self {
        self.script().next.push_back(fault);
        self
    }

    /// What happens to every send for which nothing else is said.
    pub fn always(&self, fault: Fault) -> &Self {
        self.script().then = Some(fault);
        self
    }

    /// The wrapped transport.
    pub fn get_ref(&self) -> &T {
        &self.inner
    }

    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self) -> Fault {
        let mut script = self.script();
        let next = script.next.pop_front();
        next.or_else(|| script.then.clone()).unwrap_or(Fault::None)
    }

    #[expect(clippy::panic, reason = "it was told to")]
    async fn pass(&self, context: &SendContext, send: impl Future<Output = Receipt> + Send) -> Receipt {
        let fault = self.fault();
        let (Fault::Drop(stage) | Fault::Hang(stage) | Fault::Panic(stage)) = fault else {
            return send.await;
        };
        let sent = if stage == Stage::Reply {
            Some(send.await)
        } else {
            drop(send);
            None
        };
        match sent {
            // What was refused was answered, so there is no reply to lose.
            Some(receipt) if !receipt.is_accepted() => return receipt,
            Some(_) => context.commit(),
            None if stage == Stage::Dot => context.commit(),
            None => {}
        }
        match fault {
            Fault::Hang(_) => pending().await,
            Fault::Panic(_) => panic!("the transport was told to panic"),
            _ => self.lost(stage, sent),
        }
    }

    /// The receipt of the same fault at a mail server.
    fn lost(&self, stage: Stage, sent: Option<Receipt>) -> Receipt {
        let code = match stage {
            Stage::Resolve => "smtp.dns",
            Stage::Connect => "smtp.connect",
            Stage::Tls => "smtp.tls",
            Stage::Greeting | Stage::Hello => "smtp.greeting",
            Stage::Dot => "smtp.dot_write",
            Stage::Reply => "smtp.reply_lost",
            _ => "smtp.connection_lost",
        };
        let failure = Failure::new(MailCategory::Network, code)
            .with_stage(stage.as_str())
            .with_detail("the connection was broken on purpose");
        let mut receipt =
            if stage.is_committed() { Receipt::not_known(failure) } else { Receipt::not_sent(failure) };
        receipt.message_id = sent.map(|sent| sent.message_id).unwrap_or_default();
        receipt.attempts = vec![Attempt::new(self.id(), Some(code.into()))];
        receipt.with_provider(self.id())
    }
}

#[async_trait]
impl<T: Transport> Transport for Faulty<T> {
    fn id(&self) -> &str {
        self.inner.id()
    }

    async fn send(&self, message: &Message, context: &SendContext) -> Receipt {
        context.guard(self.commit(), self.pass(context, self.inner.send(message, context))).await
    }

    async fn send_raw(&self, raw: &RawMessage, context: &SendContext) -> Receipt {
        context.guard(self.commit(), self.pass(context, self.inner.send_raw(raw, context))).await
    }

    fn commit(&self) -> Commit {
        self.inner.commit()
    }

    fn dedupes_for(&self) -> Option<Duration> {
        self.inner.dedupes_for()
    }
}

impl<T: fmt::Debug> fmt::Debug for Faulty<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty").field("inner", &self.inner).finish_non_exhaustive()
    }
}
