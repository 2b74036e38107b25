//! Whether there is a further attempt, and when.

use crate::{Outcome, Receipt, receipt::of_a_layer};
use hapax_engine::queue::Backoff;
use std::time::Duration;

/// What is to be done after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The receipt stands.
    Stop,
    /// It might pass, but it was tried often enough.
    UsedUp,
    /// It might pass, but not before the deadline.
    TooLate,
    After(Duration),
}

/// The settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) attempts: u32,
    pub(super) backoff: Backoff,
    pub(super) longest_pause: Duration,
}

/// Where a send has come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// The number of attempts that were made.
    pub(super) attempt: u32,
    /// This one or an earlier one may have gone.
    pub(super) unknown: bool,
    /// For how long the provider will still recognise the mail; none where it does not.
    pub(super) known_for: Option<Duration>,
    /// Until the deadline.
    pub(super) left: Option<Duration>,
}

impl Plan {
    pub(super) fn next(&self, receipt: &Receipt, facts: &Facts, chance: f64) -> Next {
        let failure = match &receipt.outcome {
            // The pool has others.
            Outcome::Failed(failure) if failure.code == "breaker.open" => return Next::Stop,
            Outcome::Failed(failure) if failure.retryable => failure,
            // Of a key, or of the caller: nothing that another attempt could mend.
            Outcome::Unknown(failure) if of_a_layer(&failure.code) && failure.code != "mail.timeout" => {
                return Next::Stop;
            }
            Outcome::Unknown(failure) => failure,
            Outcome::Accepted | Outcome::Failed(_) => return Next::Stop,
        };
        if facts.unknown && facts.known_for.is_none() {
            return Next::Stop;
        }
        if facts.attempt >= self.attempts {
            return Next::UsedUp;
        }
        let asked = failure.retry_after.unwrap_or_default();
        if asked > self.longest_pause {
            return Next::Stop;
        }
        let pause = whole(self.backoff, facts.attempt).mul_f64(chance.clamp(0.0, 1.0)).max(asked);
        if facts.unknown && facts.known_for.is_none_or(|known_for| known_for <= pause) {
            return Next::Stop;
        }
        if facts.left.is_some_and(|left| left <= pause) {
            return Next::TooLate;
        }
        Next::After(pause)
    }
}

/// The pause after so many failures, before chance makes it shorter.
fn whole(backoff: Backoff, failures: u32) -> Duration {
    match backoff {
        Backoff::Fixed(every) => every,
        Backoff::Exponential { base, max } => {
            base.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1))).min(max)
        }
    }
}

/// The longest pause of a backoff.
pub(crate) fn longest_pause(backoff: Backoff) -> Duration {
    match backoff {
        Backoff::Fixed(every) => every,
        Backoff::Exponential { max, .. } => max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Failure, MailCategory};

    const MAX: Duration = Duration::from_secs(30);

    fn plan() -> Plan {
        let backoff = Backoff::exponential(Duration::from_millis(500), MAX);
        Plan { attempts: 3, backoff, longest_pause: MAX }
    }

    fn facts(attempt: u32) -> Facts {
        Facts { attempt, unknown: false, known_for: None, left: None }
    }

    fn busy(after: Option<u64>) -> Receipt {
        let failure = Failure::new(MailCategory::Service, "smtp.busy");
        Receipt::not_sent(match after {
            Some(secs) => failure.with_retry_after(Duration::from_secs(secs)),
            None => failure,
        })
    }

    #[test]
    fn what_is_tried_again_is_what_may_pass() {
        let next = |receipt: &Receipt| plan().next(receipt, &facts(1), 1.0);
        assert_eq!(next(&Receipt::accepted()), Next::Stop);
        for (category, again) in [
            (MailCategory::Validation, false),
            (MailCategory::Configuration, false),
            (MailCategory::Auth, false),
            (MailCategory::RateLimit, true),
            (MailCategory::Network, true),
            (MailCategory::Timeout, true),
            (MailCategory::Service, true),
            (MailCategory::Rejected, false),
            (MailCategory::Cancelled, false),
            (MailCategory::Unknown, false),
        ] {
            let expected = if again { Next::After(Duration::from_millis(500)) } else { Next::Stop };
            assert_eq!(next(&Receipt::failed(category, "provider.x")), expected, "{category:?}");
        }
        // An open breaker ends it, though it may pass.
        assert_eq!(next(&Receipt::failed(MailCategory::Service, "breaker.open")), Next::Stop);
    }

    #[test]
    fn pauses_double_up_to_their_bound_and_are_drawn_from_nothing_up() {
        let pause = |attempt, chance| match (Plan { attempts: 100, ..plan() }).next(
            &busy(None),
            &facts(attempt),
            chance,
        ) {
            Next::After(pause) => pause.as_millis(),
            other => panic!("{other:?}"),
        };
        let pauses: Vec<_> = (1..=8).map(|attempt| pause(attempt, 1.0)).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        assert_eq!((pause(3, 0.0), pause(3, 0.5)), (0, 1000));
        assert_eq!(pause(99, 1.0), 30_000);
        assert_eq!(whole(Backoff::fixed(MAX), 7), MAX);
    }

    #[test]
    fn what_a_provider_asks_for_is_never_cut_short() {
        let next = |secs| plan().next(&busy(Some(secs)), &facts(1), 0.0);
        assert_eq!(next(7), Next::After(Duration::from_secs(7)));
        assert_eq!(next(30), Next::After(MAX));
        // Longer than it may wait: the receipt says when.
        assert_eq!(next(31), Next::Stop);
    }

    #[test]
    fn attempts_and_time_come_to_an_end() {
        assert_eq!(plan().next(&busy(None), &facts(3), 1.0), Next::UsedUp);
        let left = |ms| Facts { left: Some(Duration::from_millis(ms)), ..facts(1) };
        assert_eq!(plan().next(&busy(None), &left(500), 1.0), Next::TooLate);
        assert_eq!(plan().next(&busy(None), &left(501), 1.0), Next::After(Duration::from_millis(500)));
    }

    #[test]
    fn what_may_have_gone_is_tried_again_only_while_the_provider_recognises_it() {
        let lost = Receipt::unknown("http.reply_lost");
        let unknown = |known_for| Facts { unknown: true, known_for, ..facts(1) };
        let ms = Duration::from_millis;
        assert_eq!(plan().next(&lost, &unknown(None), 1.0), Next::Stop);
        assert_eq!(plan().next(&lost, &unknown(Some(ms(500))), 1.0), Next::Stop);
        assert_eq!(plan().next(&lost, &unknown(Some(ms(501))), 1.0), Next::After(ms(500)));
        // A failure after it is tried again by the same rule.
        assert_eq!(plan().next(&busy(None), &unknown(None), 1.0), Next::Stop);
        assert_eq!(plan().next(&busy(None), &unknown(Some(ms(501))), 1.0), Next::After(ms(500)));
        // The caller stopped it, or another holds its key.
        for code in ["idempotency.aborted", "idempotency.in_flight"] {
            assert_eq!(plan().next(&Receipt::unknown(code), &unknown(Some(MAX)), 0.0), Next::Stop, "{code}");
        }
    }
}
