//! Further attempts.

mod plan;

use super::{
    Mail,
    around::{chance, freeze},
    once::through_guarded,
};
use crate::{
    Failure, Message, Outcome, RawMessage, Receipt,
    receipt::Attempt,
    transport::{Commit, Layer, SendContext, Stack, Transport},
};
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, stream};
use hapax_core::{Clock, SystemClock};
use hapax_engine::queue::Backoff;
pub(crate) use plan::longest_pause;
use plan::{Next, Plan};
use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

type GivenUp = Arc<dyn Fn(Mail<'_>, &Receipt) + Send + Sync>;

/// Tries again what failed for certain and may pass.
///
/// A mail that may have gone is tried again only where the transport recognises what it was given before
/// ([`Transport::dedupes_for`]), with the same bytes, and while the provider still knows the first attempt; if that fails
/// too, its outcome stays unknown. All attempts have one `Message-ID`, one date and one provider key.
///
/// Pauses are those of the backoff, drawn at random between nothing and their whole (full jitter). What a provider asks for is
/// never cut short: if it is longer than the longest pause, the receipt comes back at once and says when to try again. An open
/// breaker, a caller that stops, and the deadline end the attempts.
pub struct Retry<T> {
    inner: T,
    attempts: u32,
    backoff: Backoff,
    longest_pause: Option<Duration>,
    total: Option<Duration>,
    end: CancellationToken,
    given_up: Option<GivenUp>,
}

impl<T: Transport> Retry<T> {
    /// Three attempts, with pauses of 500 ms to 30 s.
    pub fn new(inner: T) -> Self {
        Self {
            inner,
            attempts: 3,
            backoff: Backoff::exponential(Duration::from_millis(500), Duration::from_secs(30)),
            longest_pause: None,
            total: None,
            end: CancellationToken::new(),
            given_up: None,
        }
    }

    /// How many attempts there are, the first one included.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// How long the pauses are.
    #[must_use]
    pub fn with_backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// A provider that asks for more is tried later, by somebody else (the longest pause of the backoff).
    #[must_use]
    pub fn with_longest_pause(mut self, longest: Duration) -> Self {
        self.longest_pause = Some(longest);
        self
    }

    /// For all attempts together. A pause that would end after it is not begun: `retry.deadline`.
    #[must_use]
    pub fn with_total(mut self, limit: Duration) -> Self {
        self.total = Some(limit);
        self
    }

    /// When `token` is cancelled, an attempt under way is finished, and no further one is made.
    #[must_use]
    pub fn with_end(mut self, token: CancellationToken) -> Self {
        self.end = token;
        self
    }

    /// Is given each mail that still fails when all attempts are used up, with its receipt.
    #[must_use]
    pub fn with_given_up(mut self, given_up: impl Fn(Mail<'_>, &Receipt) + Send + Sync + 'static) -> Self {
        self.given_up = Some(Arc::new(given_up));
        self
    }

    fn longest_pause(&self) -> Duration {
        self.longest_pause.unwrap_or_else(|| longest_pause(self.backoff))
    }

    fn prepare(&self, mail: Mail<'_>, context: &SendContext) -> Sending {
        let mut fixed = freeze(mail, context);
        let dedupes = self.inner.dedupes_for();
        // Without a key of its own the mail gets one for its attempts.
        if dedupes.is_some() && fixed.provider_key().is_none() {
            let mut bytes = [0; 32];
            if getrandom::fill(&mut bytes).is_ok() {
                fixed = fixed.with_provider_key(hex::encode(bytes));
            }
        }
        let begun = Instant::now();
        let own = self.total.and_then(|total| begun.checked_add(total));
        Sending {
            deadline: own.into_iter().chain(fixed.deadline).min(),
            window: dedupes.filter(|_| fixed.provider_key().is_some()),
            // A key that was used before began to be known then.
            age: fixed.frozen.as_ref().map_or(Duration::ZERO, |frozen| {
                SystemClock.now().since(frozen.date).saturating_sub(ONE_SECOND)
            }),
            begun,
            attempt: 1,
            context: fixed,
            earlier: Vec::new(),
            standing: None,
        }
    }

    /// Goes on from the receipt of an attempt until there is one to keep.
    async fn settle(&self, mail: Mail<'_>, mut send: Sending, mut receipt: Receipt) -> Receipt {
        let plan =
            Plan { attempts: self.attempts, backoff: self.backoff, longest_pause: self.longest_pause() };
        loop {
            send.book(&mut receipt, self.inner.id());
            let unknown = send.standing.is_some();
            let stops = send.context.cancel.is_cancelled() || self.end.is_cancelled();
            let next = if stops { Next::Stop } else { plan.next(&receipt, &send.facts(unknown), chance()) };
            let at = match next {
                Next::Stop => return self.ended(mail, send, receipt, false),
                Next::UsedUp => return self.ended(mail, send, receipt, true),
                Next::TooLate => {
                    receipt = too_late(receipt);
                    return self.ended(mail, send, receipt, false);
                }
                Next::After(pause) => match Instant::now().checked_add(pause) {
                    Some(at) => at,
                    None => return self.ended(mail, send, receipt, false),
                },
            };
            tokio::select! {
                biased;
                () = send.context.cancel.cancelled() => return self.ended(mail, send, receipt, false),
                () = self.end.cancelled() => return self.ended(mail, send, receipt, false),
                () = sleep_until(at) => {}
            }
            send.attempt += 1;
            receipt = through_guarded(mail, &self.inner, &send.context()).await;
        }
    }

    fn ended(&self, mail: Mail<'_>, send: Sending, last: Receipt, used_up: bool) -> Receipt {
        let mut receipt = match send.standing {
            // Only a success settles what may have gone.
            Some(standing) if !last.is_accepted() => *standing,
            _ => last,
        };
        receipt.attempts = send.earlier;
        if used_up && let Some(given_up) = &self.given_up {
            given_up(mail, &receipt);
        }
        receipt
    }
}

const ONE_SECOND: Duration = Duration::from_secs(1);

/// One mail on its way through its attempts.
struct Sending {
    context: SendContext,
    attempt: u32,
    deadline: Option<Instant>,
    window: Option<Duration>,
    /// Of the first attempt, when this send began.
    age: Duration,
    begun: Instant,
    earlier: Vec<Attempt>,
    /// The first receipt that says that it may have gone.
    standing: Option<Box<Receipt>>,
}

impl Sending {
    fn context(&self) -> SendContext {
        let number = self.context.attempt.saturating_add(self.attempt - 1);
        let mut context = self.context.for_attempt(number);
        context.deadline = self.deadline;
        context
    }

    fn book(&mut self, receipt: &mut Receipt, transport: &str) {
        if receipt.attempts.is_empty() {
            let code = receipt.failure().map(|failure| failure.code.clone());
            receipt.attempts = vec![Attempt::new(transport, code)];
        }
        self.earlier.append(&mut receipt.attempts);
        if receipt.is_unknown() && self.standing.is_none() {
            self.standing = Some(Box::new(receipt.clone()));
        }
    }

    fn facts(&self, unknown: bool) -> plan::Facts {
        let now = Instant::now();
        plan::Facts {
            attempt: self.attempt,
            unknown,
            known_for: self.window.map(|window| {
                window.saturating_sub(self.age).saturating_sub(now.saturating_duration_since(self.begun))
            }),
            left: self.deadline.map(|deadline| deadline.saturating_duration_since(now)),
        }
    }
}

/// What failed and would be tried again, if there were time.
fn too_late(mut receipt: Receipt) -> Receipt {
    if let Outcome::Failed(failure) = &mut receipt.outcome {
        let last = std::mem::replace(failure, Failure::new(failure.category, "retry.deadline"));
        *failure = Failure {
            code: "retry.deadline".into(),
            detail: Some(
                format!("no time is left for a further attempt; the last one ended with {}", last.code)
                    .into(),
            ),
            ..last
        };
    }
    receipt
}

#[deny(clippy::missing_trait_methods)]
#[async_trait::async_trait]
impl<T: Transport> Transport for Retry<T> {
    fn id(&self) -> &str {
        self.inner.id()
    }

    async fn send(&self, message: &Message, context: &SendContext) -> Receipt {
        let mail = Mail::Message(message);
        let send = self.prepare(mail, context);
        let receipt = through_guarded(mail, &self.inner, &send.context()).await;
        self.settle(mail, send, receipt).await
    }

    async fn send_raw(&self, raw: &RawMessage, context: &SendContext) -> Receipt {
        let mail = Mail::Raw(raw);
        let send = self.prepare(mail, context);
        let receipt = through_guarded(mail, &self.inner, &send.context()).await;
        self.settle(mail, send, receipt).await
    }

    /// The first attempts go through the batch of the wrapped transport, further ones one by one.
    fn send_many<'a>(&'a self, messages: BoxStream<'a, (Message, SendContext)>) -> BoxStream<'a, Receipt> {
        let sent: Arc<Mutex<VecDeque<(Message, Sending)>>> = Arc::default();
        let places = Arc::clone(&sent);
        let first = messages.map(move |(message, context)| {
            let send = self.prepare(Mail::Message(&message), &context);
            let within = send.context();
            if self.inner.commit() == Commit::Unsupported {
                within.commit();
            }
            places.lock().unwrap_or_else(PoisonError::into_inner).push_back((message.clone(), send));
            (message, within)
        });
        let receipts = self.inner.send_many(Box::pin(first));
        Box::pin(stream::unfold(receipts, move |mut receipts| {
            let sent = Arc::clone(&sent);
            async move {
                let receipt = receipts.next().await?;
                let place = sent.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                let receipt = match place {
                    Some((message, send)) => self.settle(Mail::Message(&message), send, receipt).await,
                    None => receipt,
                };
                Some((receipt, receipts))
            }
        }))
    }

    /// Each attempt is guarded by itself.
    fn commit(&self) -> Commit {
        Commit::Supported
    }

    fn dedupes_for(&self) -> Option<Duration> {
        self.inner.dedupes_for()
    }

    fn stack(&self) -> Stack {
        let stack = self.inner.stack();
        let longest = stack.longest.map(|one| {
            let pauses = self.longest_pause().saturating_mul(self.attempts - 1);
            let all = one.saturating_mul(self.attempts).saturating_add(pauses);
            self.total.map_or(all, |total| all.min(total))
        });
        Stack { longest, ..stack }.within(Layer::Retry)
    }
}

impl<T: fmt::Debug> fmt::Debug for Retry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("inner", &self.inner)
            .field("attempts", &self.attempts)
            .field("backoff", &self.backoff)
            .finish_non_exhaustive()
    }
}
