//! So many attempts in such a time.

use super::{
    Mail,
    around::{self, Around, transport_around},
};
use crate::{
    Failure, FailureScope, MailCategory, Message, RawMessage, Receipt, envelope,
    receipt::of_a_layer,
    transport::{Commit, Ended, Layer, SendContext, Stack, Transport, stopped},
};
use futures_core::stream::BoxStream;
use hapax_core::{
    BootTime, Clock, Coded as _, Now, SystemClock, Timestamp, limit::Quota, memory::MemoryLimits,
};
use hapax_engine::limit::{Limit, RateLimiter};
use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep_until, timeout_at};

/// What a provider that says "too much" and no more is left alone for.
const BREATH: Duration = Duration::from_secs(1);

/// Lets attempts through at the rate that a provider allows; the others wait for their turn, in the order in which they
/// came.
///
/// What would wait longer than [`with_wait`](Self::with_wait) allows, or than the message has, is answered at once with
/// `ratelimit.wait_exceeded` and the time after which to try again; what finds too many waiting with
/// `ratelimit.queue_full`. When the provider itself says that it was too much, everybody waits for as long as it said.
pub struct RateLimited<T> {
    inner: T,
    limiter: RateLimiter,
    limit: Limit,
    by_recipients: bool,
    wait: Duration,
    most_waiting: usize,
    /// Whoever has it asks the limiter; it is given on in order.
    turn: tokio::sync::Mutex<()>,
    waiting: AtomicUsize,
    blocked_until: Mutex<Option<Instant>>,
}

impl<T: Transport> RateLimited<T> {
    /// A limit of this process.
    pub fn new(inner: T, quota: Quota) -> Self {
        let limiter = RateLimiter::new(Arc::new(MemoryLimits::new(Arc::new(Steady::new()))));
        Self::shared(inner, &limiter, Limit::new("mail", quota))
    }

    /// A limit of all processes that ask that limiter for it. When its store is away nothing is sent, unless the limiter
    /// says otherwise.
    pub fn shared(inner: T, limiter: &RateLimiter, limit: Limit) -> Self {
        Self {
            inner,
            limiter: limiter.clone(),
            limit,
            by_recipients: false,
            wait: Self::WAIT,
            most_waiting: 1000,
            turn: tokio::sync::Mutex::new(()),
            waiting: AtomicUsize::new(0),
            blocked_until: Mutex::default(),
        }
    }

    pub(crate) const WAIT: Duration = Duration::from_secs(30);

    /// A message counts as many times as it has recipients: providers that bill so limit so.
    #[must_use]
    pub fn by_recipients(mut self) -> Self {
        self.by_recipients = true;
        self
    }

    /// How long an attempt waits for its turn (30 s).
    #[must_use]
    pub fn with_wait(mut self, limit: Duration) -> Self {
        self.wait = limit;
        self
    }

    /// How many attempts may wait at a time (1,000).
    #[must_use]
    pub fn with_most_waiting(mut self, most: usize) -> Self {
        self.most_waiting = most;
        self
    }

    fn cost(&self, mail: Mail<'_>) -> u32 {
        let recipients = match mail {
            _ if !self.by_recipients => 1,
            Mail::Message(message) => envelope(message).to.len(),
            Mail::Raw(raw) => raw.to.len(),
        };
        u32::try_from(recipients.max(1)).unwrap_or(u32::MAX)
    }

    /// Waits for a place among those that may start.
    async fn wait(&self, cost: u32, until: Instant) -> Result<(), Failure> {
        let _place = Place::take(&self.waiting, self.most_waiting)?;
        let Ok(_turn) = timeout_at(until, self.turn.lock()).await else {
            return Err(too_long(None));
        };
        loop {
            let blocked = *self.blocked_until.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let at = match blocked.filter(|at| *at > now) {
                Some(at) => at,
                None => match self.limiter.check(self.limit.clone()).cost(cost).await {
                    Ok(decision) if decision.allowed() => return Ok(()),
                    Ok(decision) if decision.never() => return Err(never(cost)),
                    Ok(decision) => now + decision.retry_after().max(Duration::from_millis(1)),
                    Err(error) => {
                        let failure = Failure::new(MailCategory::Unknown, error.code());
                        return Err(failure.with_retryable(true).with_detail(error.to_string()));
                    }
                },
            };
            if at > until {
                return Err(too_long(Some(at - now)));
            }
            sleep_until(at).await;
        }
    }
}

/// A place among those who wait.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicUsize, most: usize) -> Result<Self, Failure> {
        let place = Self(waiting);
        if waiting.fetch_add(1, Ordering::SeqCst) < most.saturating_add(1) {
            return Ok(place);
        }
        Err(Failure::new(MailCategory::RateLimit, "ratelimit.queue_full")
            .with_detail("too many messages wait for the rate limit"))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn too_long(rest: Option<Duration>) -> Failure {
    let failure = Failure::new(MailCategory::RateLimit, "ratelimit.wait_exceeded")
        .with_detail("the rate limit lets nothing more through in the time that the message may wait");
    match rest {
        Some(rest) => failure.with_retry_after(rest),
        None => failure,
    }
}

fn never(cost: u32) -> Failure {
    Failure::new(MailCategory::Configuration, "limit.never")
        .with_scope(FailureScope::Provider)
        .with_detail(format!("the message counts {cost} times, which is above the whole limit"))
}

impl<T: Transport> Around for RateLimited<T> {
    type Pass = ();

    async fn admit<'a>(&'a self, mail: Mail<'a>, context: &'a mut SendContext) -> Result<(), Box<Receipt>> {
        let now = Instant::now();
        let own = now.checked_add(self.wait);
        let until = own.into_iter().chain(context.deadline).min().unwrap_or(now);
        tokio::select! {
            biased;
            () = context.cancel.cancelled() => Err(Box::new(stopped(&Ended::Cancelled, false))),
            turn = self.wait(self.cost(mail), until) => turn.map_err(|failure| Box::new(Receipt::not_sent(failure))),
        }
    }

    fn settle(&self, (): (), receipt: &Receipt) {
        let Some(failure) = receipt.failure() else { return };
        if failure.category != MailCategory::RateLimit || of_a_layer(&failure.code) {
            return;
        }
        let Some(at) = Instant::now().checked_add(failure.retry_after.unwrap_or(BREATH)) else { return };
        let mut blocked = self.blocked_until.lock().unwrap_or_else(PoisonError::into_inner);
        *blocked = Some(blocked.map_or(at, |known| known.max(at)));
    }
}

transport_around!(RateLimited, |this| {
    let stack = this.inner.stack();
    let longest = stack.longest.map(|longest| longest.saturating_add(this.wait));
    Stack { longest, ..stack }.within(Layer::RateLimit)
});

impl<T: fmt::Debug> fmt::Debug for RateLimited<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimited")
            .field("inner", &self.inner)
            .field("quota", &self.limit.quota())
            .finish_non_exhaustive()
    }
}

/// The clock of the runtime, which the waits go by.
#[derive(Debug)]
struct Steady {
    start: Instant,
    wall: Timestamp,
}

impl Steady {
    fn new() -> Self {
        Self { start: Instant::now(), wall: SystemClock.now() }
    }
}

impl Clock for Steady {
    fn read(&self) -> Now {
        let since = self.start.elapsed();
        Now { wall: self.wall.after(since), boot: BootTime::default().after(since) }
    }

    fn boot_id(&self) -> Arc<str> {
        Arc::from("steady")
    }
}
