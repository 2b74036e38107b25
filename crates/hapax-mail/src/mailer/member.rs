//! A transport and what stands before it.

use crate::{
    Mail,
    decorate::{Breaker, RateLimited, Retry, Seat, Takes, Timed, longest_pause},
    transport::{InvalidTransport, Layer, Stack, Transport},
};
use hapax_core::{Span, limit::Quota};
use hapax_engine::{
    limit::{Limit, RateLimiter},
    queue::Backoff,
};
use std::{fmt, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// A transport and what stands before it: attempts, then a breaker, then a rate limit, then the transport, whatever the order
/// of the calls. Each member has its own; nothing of it is shared with another, nor with a clone.
///
/// ```
/// # use hapax_core::limit::Quota;
/// # use hapax_engine::queue::Backoff;
/// # use hapax_mail::{Mailer, Member, Outbox, Stub};
/// # use std::time::Duration;
/// # fn example() -> Result<(), hapax_mail::InvalidTransport> {
/// let first = Member::new(Stub::new())
///     .retry(3, Backoff::exponential(Duration::from_millis(500), Duration::from_secs(30)))
///     .breaker(5, Duration::from_secs(30))
///     .limit(Quota::token_bucket(14, Duration::from_secs(1)));
/// let mailer = Mailer::via(first).or_via(Outbox::new("outbox")).named("shop").build()?;
/// # Ok(()) }
/// ```
#[must_use]
#[derive(Clone)]
pub struct Member {
    transport: Arc<dyn Transport>,
    retry: Option<(u32, Backoff)>,
    total: Option<Duration>,
    longest_pause: Option<Duration>,
    end: Option<CancellationToken>,
    breaker: Option<(u32, Duration)>,
    limits: Vec<Limits>,
    limit_wait: Option<Duration>,
    attempt_timeout: Option<Duration>,
    weight: u32,
    priority: Option<u32>,
    takes: Option<Takes>,
}

#[derive(Clone)]
enum Limits {
    Own { quota: Quota, by_recipients: bool },
    Shared(RateLimiter, Limit),
}

/// How long an attempt may take where neither the transport nor the member says so: the ten minutes that SMTP gives a server to
/// take a mail over, and five for all before that.
const ATTEMPT: Duration = Duration::from_mins(15);

impl Member {
    /// A transport alone.
    pub fn new(transport: impl Transport + 'static) -> Self {
        Self {
            transport: Arc::new(transport),
            retry: None,
            total: None,
            longest_pause: None,
            end: None,
            breaker: None,
            limits: Vec::new(),
            limit_wait: None,
            attempt_timeout: None,
            weight: 1,
            priority: None,
            takes: None,
        }
    }

    /// So many attempts, the first one included, with pauses that are drawn between nothing and those of the backoff. See
    /// [`Retry`].
    pub fn retry(mut self, attempts: u32, backoff: Backoff) -> Self {
        self.retry = Some((attempts, backoff));
        self
    }

    /// For all attempts together.
    pub fn retry_within(mut self, total: Duration) -> Self {
        self.total = Some(total);
        self
    }

    /// A provider that asks for a longer pause is not tried again here (the longest pause of the backoff).
    pub fn longest_pause(mut self, longest: Duration) -> Self {
        self.longest_pause = Some(longest);
        self
    }

    /// When `token` is cancelled, an attempt under way is finished, and no further one is made.
    pub fn retry_until(mut self, token: CancellationToken) -> Self {
        self.end = Some(token);
        self
    }

    /// After so many failures in a row the transport is left alone for a while. See [`Breaker`].
    pub fn breaker(mut self, failures: u32, cool_down: Duration) -> Self {
        self.breaker = Some((failures, cool_down));
        self
    }

    /// So many attempts of this process in such a time. May be given several times. See [`RateLimited`].
    pub fn limit(mut self, quota: Quota) -> Self {
        self.limits.push(Limits::Own { quota, by_recipients: false });
        self
    }

    /// As [`limit`](Self::limit), counting recipients.
    pub fn limit_recipients(mut self, quota: Quota) -> Self {
        self.limits.push(Limits::Own { quota, by_recipients: true });
        self
    }

    /// One limit for all processes.
    pub fn shared_limit(mut self, limiter: &RateLimiter, limit: Limit) -> Self {
        self.limits.push(Limits::Shared(limiter.clone(), limit));
        self
    }

    /// How long an attempt waits for its turn at a limit (30 s).
    pub fn limit_wait(mut self, wait: Duration) -> Self {
        self.limit_wait = Some(wait);
        self
    }

    /// Gives one attempt up after this time, counted from its turn at the limit (what the transport says of itself, else 15
    /// min).
    pub fn attempt_timeout(mut self, limit: Duration) -> Self {
        self.attempt_timeout = Some(limit);
        self
    }

    /// How often it is chosen by [`Strategy::Weighted`](crate::Strategy::Weighted) (1).
    pub fn weight(mut self, n: u32) -> Self {
        self.weight = n;
        self
    }

    /// When it is tried by [`Strategy::Priority`](crate::Strategy::Priority): the smallest number first (its place in the
    /// pool, from 0).
    pub fn priority(mut self, n: u32) -> Self {
        self.priority = Some(n);
        self
    }

    /// Is for these mails alone. Mails that no such member takes go to the members that take everything.
    pub fn only(mut self, takes: impl Fn(Mail<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.takes = Some(Arc::new(takes));
        self
    }

    pub(super) fn id(&self) -> &str {
        self.transport.id()
    }

    fn is_plain(&self) -> bool {
        self.retry.is_none()
            && self.breaker.is_none()
            && self.limits.is_empty()
            && self.attempt_timeout.is_none()
    }

    /// A setting that would do nothing, or could not be used.
    fn fault(&self) -> Option<String> {
        let unless = |needs: bool, set: bool, name: &str, of: &str| {
            (set && !needs).then(|| format!("`{name}` is about {of}, which this member does not have"))
        };
        let bad = |name: &str, duration: Option<Duration>| {
            duration.and_then(|duration| Span::new(duration).err()).map(|error| format!("`{name}`: {error}"))
        };
        let retry = self.retry.is_some();
        let zero = |is: bool, reason: &str| is.then(|| reason.to_owned());
        unless(retry, self.total.is_some(), "retry_within", "further attempts")
            .or_else(|| unless(retry, self.longest_pause.is_some(), "longest_pause", "further attempts"))
            .or_else(|| unless(retry, self.end.is_some(), "retry_until", "further attempts"))
            .or_else(|| unless(!self.limits.is_empty(), self.limit_wait.is_some(), "limit_wait", "a limit"))
            .or_else(|| {
                zero(self.retry.is_some_and(|(n, _)| n == 0), "`retry`: there is at least one attempt")
            })
            .or_else(|| {
                zero(self.breaker.is_some_and(|(n, _)| n == 0), "`breaker`: it takes at least one failure")
            })
            .or_else(|| {
                zero(self.weight == 0, "`weight`: a member that is never chosen is left out of the pool")
            })
            .or_else(|| bad("breaker", self.breaker.map(|(_, cool_down)| cool_down)))
            .or_else(|| bad("attempt_timeout", self.attempt_timeout))
            .or_else(|| bad("retry_within", self.total))
    }

    /// Puts it together, as one of several or alone.
    pub(super) fn seat(self, place: usize, pooled: bool) -> Result<Seat, InvalidTransport> {
        let id = self.id().to_owned();
        if let Some(fault) = self.fault() {
            return Err(InvalidTransport::new(format!("the member `{id}`: {fault}")));
        }
        let mut transport = Arc::clone(&self.transport);
        if pooled || !self.is_plain() {
            let own = transport.stack().longest;
            let limit = self.attempt_timeout.into_iter().chain(own).min().unwrap_or(ATTEMPT);
            transport = Arc::new(Timed::new(transport, limit));
        }
        let wait = self.limit_wait.unwrap_or(RateLimited::<Arc<dyn Transport>>::WAIT);
        for limit in self.limits {
            transport = match limit {
                Limits::Own { quota, by_recipients: false } => {
                    Arc::new(RateLimited::new(transport, quota).with_wait(wait))
                }
                Limits::Own { quota, by_recipients: true } => {
                    Arc::new(RateLimited::new(transport, quota).by_recipients().with_wait(wait))
                }
                Limits::Shared(limiter, limit) => {
                    Arc::new(RateLimited::shared(transport, &limiter, limit).with_wait(wait))
                }
            };
        }
        if let Some((failures, cool_down)) = self.breaker {
            transport = Arc::new(Breaker::new(transport, failures, cool_down));
        }
        if let Some((attempts, backoff)) = self.retry {
            let mut retry = Retry::new(transport)
                .with_attempts(attempts)
                .with_backoff(backoff)
                .with_longest_pause(self.longest_pause.unwrap_or_else(|| longest_pause(backoff)));
            if let Some(total) = self.total {
                retry = retry.with_total(total);
            }
            if let Some(token) = self.end {
                retry = retry.with_end(token);
            }
            transport = Arc::new(retry);
        }
        let priority = self.priority.unwrap_or_else(|| u32::try_from(place).unwrap_or(u32::MAX));
        let seat = Seat { transport, weight: self.weight, priority, takes: self.takes };
        in_order(&id, &seat.transport.stack(), pooled)?;
        Ok(seat)
    }
}

/// Whether the layers of a member, with those around it, stand the right way round.
pub(super) fn in_order(id: &str, stack: &Stack, pooled: bool) -> Result<(), InvalidTransport> {
    let stack = if pooled { stack.clone().within(Layer::Pool) } else { stack.clone() };
    match stack.disorder() {
        None => Ok(()),
        Some((outer, inner, reason)) => {
            let (outer, inner) = (outer.as_str(), inner.as_str());
            let reason = format!("in `{id}`, {outer} stands around {inner}: {reason}");
            Err(InvalidTransport::new(reason))
        }
    }
}

impl<T: Transport + 'static> From<T> for Member {
    fn from(transport: T) -> Self {
        Self::new(transport)
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("transport", &self.transport)
            .field("retry", &self.retry)
            .field("breaker", &self.breaker)
            .field("limits", &self.limits.len())
            .finish_non_exhaustive()
    }
}
