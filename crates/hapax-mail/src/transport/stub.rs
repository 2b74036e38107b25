//! A transport that sends nothing: for tests, for rehearsals, for measuring.

use super::{Commit, SendContext, Transport, context::frozen_or_random};
use crate::{
    Failure, Frozen, MailCategory, Message, Outcome, RawMessage, Receipt, envelope, receipt::Attempt,
};
use async_trait::async_trait;
use hapax_core::{Clock, SystemClock};
use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// Accepts everything, records what it was given, and answers as it was told to.
///
/// Cheap to clone; all clones are one stub.
#[derive(Clone)]
pub struct Stub {
    inner: Arc<Inner>,
}

struct Inner {
    id: String,
    commit: Commit,
    dedupes_for: Option<Duration>,
    records: bool,
    state: Mutex<State>,
    handed: AtomicUsize,
    committed: AtomicUsize,
}

#[derive(Default)]
struct State {
    script: VecDeque<Vec<Act>>,
    calls: Vec<StubCall>,
}

/// One thing that a scripted send does.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "scripts are short")]
pub enum Act {
    /// From here on it may have been delivered.
    Commit,
    /// Lets other tasks run once.
    Yield,
    /// Waits for a signal.
    Wait(Arc<Notify>),
    /// Never ends.
    Hang,
    /// Panics.
    Panic,
    /// Ends with this receipt. Without it, the send is accepted.
    Answer(Receipt),
}

/// A send that a stub was given.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StubCall {
    /// The message, unless it was raw.
    pub message: Option<Message>,
    /// The raw message.
    pub raw: Option<RawMessage>,
    /// What it was told; whether it has committed can be asked of it.
    pub context: SendContext,
}

impl Default for Stub {
    fn default() -> Self {
        Self::new()
    }
}

impl Stub {
    /// Accepts, and remembers every send.
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// Accepts, and remembers how many sends there were.
    pub fn forgetful() -> Self {
        Self::with(|inner| inner.records = false)
    }

    fn with(change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Inner {
            id: "stub".to_owned(),
            commit: Commit::Supported,
            dedupes_for: None,
            records: true,
            state: Mutex::default(),
            handed: AtomicUsize::new(0),
            committed: AtomicUsize::new(0),
        };
        change(&mut inner);
        Self { inner: Arc::new(inner) }
    }

    /// A new stub of that name.
    pub fn named(id: impl Into<String>) -> Self {
        Self::with(|inner| inner.id = id.into())
    }

    /// A new stub that does not say when delivery becomes possible.
    pub fn without_commit() -> Self {
        Self::with(|inner| inner.commit = Commit::Unsupported)
    }

    /// A new stub that claims to recognise messages for so long.
    pub fn deduplicating(window: Duration) -> Self {
        Self::with(|inner| inner.dedupes_for = Some(window))
    }

    /// The answer to the next send that has none yet; after the last one, sends are accepted. What is accepted or
    /// unknown commits, what failed does not.
    pub fn then(&self, receipt: Receipt) -> &Self {
        let commits = !matches!(receipt.outcome, Outcome::Failed(_));
        self.then_act(commits.then_some(Act::Commit).into_iter().chain([Act::Answer(receipt)]))
    }

    /// What the next send that has no script yet does.
    pub fn then_act(&self, acts: impl IntoIterator<Item = Act>) -> &Self {
        self.state().script.push_back(acts.into_iter().collect());
        self
    }

    /// The messages that were handed over, in order, whatever was answered. Raw ones are among the [`calls`](Self::calls).
    pub fn sent(&self) -> Vec<Message> {
        self.state().calls.iter().filter_map(|call| call.message.clone()).collect()
    }

    /// Every send that was handed over.
    pub fn calls(&self) -> Vec<StubCall> {
        self.state().calls.clone()
    }

    /// How many sends were handed over.
    pub fn handed(&self) -> usize {
        self.inner.handed.load(Ordering::SeqCst)
    }

    /// How many sends have come to the point from which they may have been delivered.
    pub fn committed(&self) -> usize {
        self.inner.committed.load(Ordering::SeqCst)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the script of this send.
    fn take(
        &self,
        message: Option<&Message>,
        raw: Option<&RawMessage>,
        context: &SendContext,
    ) -> Option<Vec<Act>> {
        self.inner.handed.fetch_add(1, Ordering::SeqCst);
        let mut state = self.state();
        if self.inner.records {
            state.calls.push(StubCall {
                message: message.cloned(),
                raw: raw.cloned(),
                context: context.clone(),
            });
        }
        state.script.pop_front()
    }

    fn commits(&self, context: &SendContext) {
        if self.inner.commit == Commit::Supported {
            context.commit();
        }
        self.inner.committed.fetch_add(1, Ordering::SeqCst);
    }

    #[expect(clippy::panic, reason = "it was told to")]
    async fn act(&self, script: Option<Vec<Act>>, context: &SendContext) -> Receipt {
        let Some(script) = script else {
            self.commits(context);
            return Receipt::accepted();
        };
        for act in script {
            match act {
                Act::Commit => self.commits(context),
                Act::Yield => tokio::task::yield_now().await,
                Act::Wait(signal) => signal.notified().await,
                Act::Hang => std::future::pending().await,
                Act::Panic => std::panic::panic_any("the stub was told to panic"),
                Act::Answer(receipt) => return receipt,
            }
        }
        Receipt::accepted()
    }

    fn finished(
        &self,
        mut receipt: Receipt,
        message_id: &str,
        recipients: impl FnOnce() -> Vec<String>,
    ) -> Receipt {
        if receipt.is_accepted() && receipt.accepted.is_empty() && receipt.rejected.is_empty() {
            receipt.accepted = recipients();
        }
        if receipt.message_id.is_empty() {
            message_id.clone_into(&mut receipt.message_id);
        }
        if receipt.provider.is_empty() {
            self.id().clone_into(&mut receipt.provider);
        }
        if receipt.attempts.is_empty() {
            let code = receipt.failure().map(|failure| failure.code.clone());
            receipt.attempts = vec![Attempt::new(self.id(), code)];
        }
        receipt
    }
}

#[async_trait]
impl Transport for Stub {
    fn id(&self) -> &str {
        &self.inner.id
    }

    async fn send(&self, message: &Message, context: &SendContext) -> Receipt {
        let script = self.take(Some(message), None, context);
        let id = match frozen_or_random(message, context, SystemClock.now()) {
            Ok(frozen) => frozen.message_id.clone(),
            Err(_) => String::new(),
        };
        let receipt = context.guard(self.inner.commit, self.act(script, context)).await;
        self.finished(receipt, &id, || envelope(message).to)
    }

    async fn send_raw(&self, raw: &RawMessage, context: &SendContext) -> Receipt {
        let script = self.take(None, Some(raw), context);
        let envelope = match raw.check().and_then(|()| raw.envelope()) {
            Ok(envelope) => envelope,
            Err(faults) => {
                let failure = Failure::new(MailCategory::Validation, hapax_core::Coded::code(&faults));
                return self.finished(
                    Receipt::not_sent(failure.with_detail(faults.to_string())),
                    "",
                    Vec::new,
                );
            }
        };
        let own = || {
            let domain = raw.from_domain().unwrap_or_else(|| "localhost".to_owned());
            Frozen::random_at(&domain, SystemClock.now()).map(|frozen| frozen.message_id).unwrap_or_default()
        };
        let given = || context.frozen.as_ref().map(|frozen| frozen.message_id.clone());
        let id = raw.message_id().or_else(given).unwrap_or_else(own);
        let receipt = context.guard(self.inner.commit, self.act(script, context)).await;
        self.finished(receipt, &id, || envelope.to)
    }

    fn commit(&self) -> Commit {
        self.inner.commit
    }

    fn dedupes_for(&self) -> Option<Duration> {
        self.inner.dedupes_for
    }
}

impl fmt::Debug for Stub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stub")
            .field("id", &self.inner.id)
            .field("handed", &self.handed())
            .finish_non_exhaustive()
    }
}
