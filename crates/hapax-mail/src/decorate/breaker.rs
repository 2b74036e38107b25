//! No attempts while a provider is down.

mod state;

use super::{
    Mail,
    around::{self, Around, transport_around},
};
use crate::{
    Failure, MailCategory, Message, Outcome, RawMessage, Receipt,
    receipt::of_a_layer,
    transport::{Commit, Layer, SendContext, Stack, Transport},
};
use futures_core::stream::BoxStream;
use state::{Admitted, Sight, State};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Answers for a transport that keeps failing, with `breaker.open`, until it has had time to recover.
///
/// It opens after so many failures in a row, or by their share ([`with_rate`](Self::with_rate)), and at once where the
/// provider refuses the credentials. After the cool-down, or after the time that the provider named if that is longer, one
/// send is let through: if it succeeds, the breaker closes; if it fails, it stays open twice as long, up to sixteen times.
///
/// Failures are what says that the provider is not well: the categories network, timeout, service and auth, whether or not
/// the mail may have gone. What is wrong with a message, a limit of the provider, what the caller stopped, and what other
/// decorators answer by themselves are none.
///
/// Each breaker belongs to one transport.
pub struct Breaker<T> {
    inner: T,
    state: Arc<Mutex<State>>,
}

impl<T: Transport> Breaker<T> {
    /// Opens after `failures` in a row (1 at least), for `cool_down`.
    pub fn new(inner: T, failures: u32, cool_down: Duration) -> Self {
        Self { inner, state: Arc::new(Mutex::new(State::new(failures.max(1), cool_down))) }
    }

    /// Opens as well when of the last `calls` that tell something at least `share` (0 to 1) failed.
    #[must_use]
    pub fn with_rate(self, share: f64, calls: usize) -> Self {
        self.state().set_rate(share.clamp(0.0, 1.0), calls.max(1));
        self
    }

    /// Lets so many sends through at a time to see whether the provider is well again (1).
    #[must_use]
    pub fn with_probes(self, probes: u32) -> Self {
        self.state().set_probes(probes.max(1));
        self
    }

    /// Counts refusals for the category `rate_limit` as failures, too.
    #[must_use]
    pub fn with_rate_limits(self) -> Self {
        self.state().count_rate_limits();
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A send that was let through.
pub(super) struct Pass {
    admitted: Admitted,
    state: Arc<Mutex<State>>,
    seen: bool,
}

impl Drop for Pass {
    fn drop(&mut self) {
        if !self.seen {
            locked(&self.state).left(self.admitted);
        }
    }
}

impl<T: Transport> Around for Breaker<T> {
    type Pass = Pass;

    async fn admit<'a>(&'a self, _: Mail<'a>, context: &'a mut SendContext) -> Result<Pass, Box<Receipt>> {
        let admitted = self.state().admit(context.insists());
        match admitted {
            Ok(admitted) => Ok(Pass { admitted, state: Arc::clone(&self.state), seen: false }),
            Err(rest) => {
                let failure = Failure::new(MailCategory::Service, "breaker.open")
                    .with_retry_after(rest)
                    .with_detail("the transport kept failing and is left alone for a while");
                Err(Box::new(Receipt::not_sent(failure)))
            }
        }
    }

    fn settle(&self, mut pass: Pass, receipt: &Receipt) {
        pass.seen = true;
        let turned = self.state().settle(pass.admitted, sight(receipt));
        let transport = self.inner.id();
        match turned {
            Some(true) => {
                metrics::counter!("hapax_mail_breaker_opened_total", "transport" => transport.to_owned())
                    .increment(1);
                tracing::warn!(
                    transport,
                    code = "breaker.open",
                    cause = receipt.code(),
                    "a transport is left alone"
                );
            }
            Some(false) => tracing::info!(transport, "a transport is well again"),
            None => {}
        }
    }
}

/// What a receipt says about the provider.
fn sight(receipt: &Receipt) -> Sight {
    let failure = match &receipt.outcome {
        Outcome::Accepted => return Sight::Well,
        Outcome::Failed(failure) | Outcome::Unknown(failure) => failure,
    };
    // A deadline that passed is the provider's doing; what else a decorator answers is its own.
    if of_a_layer(&failure.code) && failure.code != "mail.timeout" {
        return Sight::Nothing;
    }
    let wait = failure.retry_after.unwrap_or_default();
    match failure.category {
        MailCategory::Network | MailCategory::Timeout | MailCategory::Service => {
            Sight::Failing { wait, at_once: false }
        }
        MailCategory::Auth => Sight::Failing { wait, at_once: true },
        MailCategory::RateLimit => Sight::Limited { wait },
        MailCategory::Unknown if receipt.is_unknown() => Sight::Failing { wait, at_once: false },
        _ => Sight::Nothing,
    }
}

transport_around!(Breaker, |this| this.inner.stack().within(Layer::Breaker));

impl<T: fmt::Debug> fmt::Debug for Breaker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breaker").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_are_seen_by_the_table() {
        let failed = |category, code: &'static str| sight(&Receipt::failed(category, code));
        let fails = |at_once| Sight::Failing { wait: Duration::ZERO, at_once };
        assert_eq!(sight(&Receipt::accepted()), Sight::Well);
        for (category, seen) in [
            (MailCategory::Network, fails(false)),
            (MailCategory::Timeout, fails(false)),
            (MailCategory::Service, fails(false)),
            (MailCategory::Auth, fails(true)),
            (MailCategory::RateLimit, Sight::Limited { wait: Duration::ZERO }),
            (MailCategory::Validation, Sight::Nothing),
            (MailCategory::Configuration, Sight::Nothing),
            (MailCategory::Rejected, Sight::Nothing),
            (MailCategory::Cancelled, Sight::Nothing),
            (MailCategory::Unknown, Sight::Nothing),
        ] {
            assert_eq!(failed(category, "provider.x"), seen, "{category:?}");
        }
        assert_eq!(sight(&Receipt::unknown("smtp.reply_lost")), fails(false));
        assert_eq!(failed(MailCategory::Timeout, "mail.timeout"), fails(false));
        // Of a key, of a layer, of the caller: they say nothing about the provider.
        for code in
            ["idempotency.in_flight", "idempotency.aborted", "idempotency.store_failed", "mail.panicked"]
        {
            assert_eq!(sight(&Receipt::unknown(code)), Sight::Nothing, "{code}");
        }
        assert_eq!(failed(MailCategory::RateLimit, "ratelimit.wait_exceeded"), Sight::Nothing);
        assert_eq!(failed(MailCategory::Service, "breaker.open"), Sight::Nothing);
        assert_eq!(failed(MailCategory::Network, "pool.exhausted"), Sight::Nothing);
        let later = Failure::new(MailCategory::Service, "smtp.busy").with_retry_after(Duration::from_secs(9));
        assert_eq!(
            sight(&Receipt::not_sent(later)),
            Sight::Failing { wait: Duration::from_secs(9), at_once: false }
        );
    }
}
