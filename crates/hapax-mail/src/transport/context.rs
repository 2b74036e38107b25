//! What a send is told, and how it ends when it is stopped.

use super::Commit;
use crate::{Failure, Frozen, MailCategory, Message, Receipt};
use futures_util::FutureExt;
use hapax_core::{Fingerprint, Name};
use hapax_engine::Lease;
use sha2::{Digest, Sha256};
use std::{
    any::Any,
    future::{pending, poll_fn},
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What a transport is told about one send. `SendContext::default()` is enough for a send of its own.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SendContext {
    /// When the send is given up.
    pub deadline: Option<Instant>,
    /// Stops the send: what has not committed by then is certainly not sent, what has may have gone.
    pub cancel: CancellationToken,
    /// Which attempt this is, counted from 1.
    pub attempt: u32,
    /// The id, date and boundaries to send under. A transport without them makes its own.
    pub frozen: Option<Arc<Frozen>>,
    provider_key: Option<ProviderKey>,
    keyed: Option<(Name, Fingerprint)>,
    commit: Arc<AtomicBool>,
    /// Of the layers around: they too want to know.
    outer: Vec<Arc<AtomicBool>>,
    /// Nothing else is left: a breaker that is open lets it through, as its probe.
    insists: bool,
}

/// Made when somebody asks for it: most transports forward none.
#[derive(Clone, Debug)]
enum ProviderKey {
    Given(Arc<str>),
    Of(Arc<Lease>),
}

impl Default for SendContext {
    fn default() -> Self {
        Self {
            deadline: None,
            cancel: CancellationToken::new(),
            attempt: 1,
            frozen: None,
            provider_key: None,
            keyed: None,
            commit: Arc::default(),
            outer: Vec::new(),
            insists: false,
        }
    }
}

impl SendContext {
    /// Gives the send up at `deadline`.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Stops the send when `cancel` is cancelled.
    #[must_use]
    pub fn with_cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }

    /// Which attempt this is, counted from 1.
    #[must_use]
    pub fn with_attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// The id, date and boundaries to send under.
    #[must_use]
    pub fn with_frozen(mut self, frozen: Frozen) -> Self {
        self.frozen = Some(Arc::new(frozen));
        self
    }

    /// The key to hand to a provider that deduplicates.
    #[must_use]
    pub fn with_provider_key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.provider_key = Some(ProviderKey::Given(key.into()));
        self
    }

    /// The one of that lease, unless a layer around has given one.
    pub(crate) fn with_lease(mut self, lease: &Arc<Lease>) -> Self {
        self.provider_key.get_or_insert_with(|| ProviderKey::Of(Arc::clone(lease)));
        self
    }

    /// The key to hand to a provider that deduplicates: the same for every attempt, and nothing of the caller's key.
    pub fn provider_key(&self) -> Option<&str> {
        match self.provider_key.as_ref()? {
            ProviderKey::Given(key) => Some(key),
            ProviderKey::Of(lease) => Some(lease.provider_key()),
        }
    }

    /// Sixty-four hex digits that name this mail under its key: the same for every send of the same message, another
    /// for another message. None without a key.
    pub fn mail_digest(&self) -> Option<String> {
        let (name, fingerprint) = self.keyed.as_ref()?;
        Some(mail_digest_of(name, fingerprint))
    }

    /// To be called immediately before the first byte after which delivery is possible.
    pub fn commit(&self) {
        self.commit.store(true, Ordering::Release);
        self.outer.iter().for_each(|flag| flag.store(true, Ordering::Release));
    }

    /// Whether delivery has become possible.
    pub fn is_committed(&self) -> bool {
        self.commit.load(Ordering::Acquire)
    }

    /// What [`commit`](Self::commit) sets.
    pub fn commit_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.commit)
    }

    /// A context for a layer within: it commits both `flag` and this context.
    #[must_use]
    pub fn within(&self, flag: Arc<AtomicBool>) -> Self {
        let outer = std::iter::once(&self.commit).chain(&self.outer).map(Arc::clone).collect();
        Self { commit: flag, outer, ..self.clone() }
    }

    /// The same for another message: its commit flag is its own.
    pub(crate) fn another(&self) -> Self {
        Self { commit: Arc::default(), outer: Vec::new(), ..self.clone() }
    }

    /// For one attempt of several: its commit flag is its own, and it commits this context too.
    pub(crate) fn for_attempt(&self, attempt: u32) -> Self {
        self.within(Arc::default()).with_attempt(attempt)
    }

    /// Goes through a breaker that is open, unless another does.
    pub(crate) fn insisting(mut self) -> Self {
        self.insists = true;
        self
    }

    pub(crate) fn insists(&self) -> bool {
        self.insists
    }

    pub(crate) fn keyed(mut self, name: &Name, fingerprint: Fingerprint) -> Self {
        self.keyed = Some((name.clone(), fingerprint));
        self
    }

    /// Runs one send within the deadline and the cancellation of this context. For transports and layers: what is
    /// stopped before [`commit`](Self::commit) was certainly not sent, what is stopped after may have gone.
    ///
    /// With [`Commit::Unsupported`] the context is committed right before the first poll.
    pub async fn guard(&self, commit: Commit, send: impl Future<Output = Receipt> + Send) -> Receipt {
        match attempt(self, commit, None, send).await {
            Ended::Receipt(receipt) => receipt,
            Ended::Panicked(panic) => std::panic::resume_unwind(panic),
            end => stopped(&end, self.is_committed()),
        }
    }
}

/// A digest of a mail that is named twice the same only when it is the same, as hex.
fn digest(kind: &str, name: &str, fingerprint: &Fingerprint) -> String {
    let fingerprint = fingerprint.to_string();
    let mut hash = Sha256::new_with_prefix(b"hapax mail digest 1\0");
    for part in [kind, name, &fingerprint] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hex::encode(hash.finalize())
}

/// The digest of the mail under a key.
pub(crate) fn mail_digest_of(name: &Name, fingerprint: &Fingerprint) -> String {
    digest("name", name.joined(), fingerprint)
}

/// The digest of a mail that has a key and comes without a decorator, which would give it a namespace and a scope.
pub(super) fn digest_of_key(key: &str, fingerprint: &Fingerprint) -> String {
    digest("key", key, fingerprint)
}

/// How one attempt came to an end. Its future is gone by then, so the commit flag stands.
#[expect(clippy::large_enum_variant, reason = "it is moved once, and most are receipts")]
pub(crate) enum Ended {
    Receipt(Receipt),
    Panicked(Box<dyn Any + Send>),
    Cancelled,
    TimedOut,
    LeaseLost,
    /// A batch ended without a word on it.
    NoReceipt,
}

/// Runs a send until it ends, or is stopped: by its deadline, by the caller, by a panic, or because its lease was lost
/// before anything could be delivered. After that moment a lost lease changes nothing: the receipt is worth having.
pub(crate) async fn attempt(
    context: &SendContext,
    commit: Commit,
    lease: Option<&Lease>,
    send: impl Future<Output = Receipt> + Send,
) -> Ended {
    let begun = async {
        if commit == Commit::Unsupported {
            context.commit();
        }
        send.await
    };
    let mut begun = pin!(AssertUnwindSafe(begun).catch_unwind());
    let mut stop = pin!(stop(context, lease));
    poll_fn(|cx| {
        // Until something could be delivered, a reason to stop comes first; afterwards a receipt that is there does.
        if !context.is_committed()
            && let Poll::Ready(end) = stop.as_mut().poll(cx)
        {
            return Poll::Ready(end);
        }
        match begun.as_mut().poll(cx) {
            Poll::Ready(Ok(receipt)) => Poll::Ready(Ended::Receipt(receipt)),
            Poll::Ready(Err(panic)) => Poll::Ready(Ended::Panicked(panic)),
            Poll::Pending => stop.as_mut().poll(cx),
        }
    })
    .await
}

/// Resolves when the send is to end without a receipt.
async fn stop(context: &SendContext, lease: Option<&Lease>) -> Ended {
    let lost = async {
        match lease {
            Some(lease) => lease.lost().await,
            None => pending().await,
        }
        if context.is_committed() {
            pending::<()>().await;
        }
    };
    let late = async {
        match context.deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => pending().await,
        }
    };
    tokio::select! {
        biased;
        () = context.cancel.cancelled() => Ended::Cancelled,
        () = late => Ended::TimedOut,
        () = lost => Ended::LeaseLost,
    }
}

/// The receipt of an attempt that was stopped.
pub(crate) fn stopped(end: &Ended, committed: bool) -> Receipt {
    let (category, code, detail) = match end {
        Ended::TimedOut => (MailCategory::Timeout, "mail.timeout", "the deadline of the message passed"),
        Ended::LeaseLost => (
            MailCategory::Unknown,
            "idempotency.lease_lost",
            "the lease was lost before the message was sent",
        ),
        Ended::NoReceipt => (
            MailCategory::Unknown,
            "mail.no_receipt",
            "the transport ended without a receipt for the message",
        ),
        _ if committed => {
            (MailCategory::Unknown, "idempotency.aborted", "the send was stopped after it had begun")
        }
        _ => (MailCategory::Cancelled, "mail.cancelled", "the caller stopped the send before it had begun"),
    };
    let failure = Failure::new(category, code).with_detail(detail);
    // Without the lease another process may be sending it.
    if committed || matches!(end, Ended::LeaseLost) {
        Receipt::not_known(failure)
    } else {
        Receipt::not_sent(failure)
    }
}

/// The receipt of an attempt that panicked.
pub(crate) fn panicked(committed: bool) -> Receipt {
    let failure = |code| Failure::new(MailCategory::Unknown, code).with_detail("the transport panicked");
    if committed {
        Receipt::not_known(failure("idempotency.aborted"))
    } else {
        Receipt::not_sent(failure("mail.panicked"))
    }
}

/// The id and date of a send that was given none.
pub(crate) fn frozen_or_random(
    message: &Message,
    context: &SendContext,
    now: hapax_core::Timestamp,
) -> hapax_core::StoreResult<Arc<Frozen>> {
    match &context.frozen {
        Some(frozen) => Ok(Arc::clone(frozen)),
        None => Frozen::random(message, now).map(Arc::new),
    }
}
