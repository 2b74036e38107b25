//! Sends the mails of a queue, each under its key, which ends with its job.

use super::QueuedMail;
use crate::{
    Failure, MailCategory, Mailer, Outcome as Sent, Receipt, SendContext,
    decorate::{Delivered, Mail},
};
use async_trait::async_trait;
use hapax_core::queue::DeadReason;
use hapax_engine::{
    protocol::Keeper,
    queue::{
        Halt,
        raw::{Handler, Outcome, RawJob, Settled},
    },
};
use std::time::Duration;
use tokio::time::Instant;

/// A mail whose transport is set up wrongly is tried again after so long.
const UNTIL_MENDED: Duration = Duration::from_secs(30);

/// Sends a job's mail through a [`Mailer`]. Where that is idempotent, a mail is sent once under its key, however often its job
/// runs; one without a key has that of its job.
///
/// ```
/// # use hapax_engine::{Idempotency, queue::Queue};
/// # use hapax_mail::{InvalidTransport, Mailer, Outbox, jobs::MailJobs};
/// # fn example(idem: &Idempotency, queue: &Queue) -> Result<(), Box<dyn std::error::Error>> {
/// let mailer = Mailer::via(Outbox::new("outbox")).idempotent(idem).scope("mail").build()?;
/// let worker = queue.raw("mail")?.worker(MailJobs::new(mailer)).concurrency(8);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct MailJobs {
    mailer: Mailer,
}

impl MailJobs {
    /// Through this mailer.
    pub fn new(mailer: Mailer) -> Self {
        Self { mailer }
    }
}

#[async_trait]
impl Handler for MailJobs {
    /// The send knows its deadline: what it had committed by then is unknown, what it had not failed.
    fn keeps_time(&self) -> bool {
        true
    }

    async fn handle(&self, job: RawJob) -> Outcome {
        self.settle(job).await.alone().await
    }

    async fn settle(&self, job: RawJob) -> Settled {
        let mail = match QueuedMail::from_payload(&job.taken.payload) {
            Ok(mail) => mail.keyed(&job.key()),
            Err(invalid) => {
                return Outcome::Dead { reason: invalid.reason(), error: invalid.to_string() }.into();
            }
        };
        let mut context =
            SendContext::default().with_cancel(job.control.token().clone()).with_attempt(job.attempt());
        context.deadline = job.limit.and_then(|limit| Instant::now().checked_add(limit));
        let mail = match &mail {
            QueuedMail::Message(message) => Mail::Message(message),
            QueuedMail::Raw(raw) => Mail::Raw(raw),
        };
        let Delivered { receipt, key } = self.mailer.deliver_open(mail, &context).await;
        let settled = Settled::from(outcome_of(&receipt, job.control.halt()));
        let settled = if receipt.replayed { settled.replayed() } else { settled };
        match key {
            Some((reservation, kind, stored)) => settled.with_key(reservation, kind, stored),
            None => settled,
        }
    }

    fn keys(&self) -> Option<&Keeper> {
        self.mailer.keys()
    }
}

/// What a receipt means for the job of its mail. The code tells before anything else: a send that is in flight elsewhere is of
/// unknown outcome, and yet there is nothing to look into.
pub fn outcome_of(receipt: &Receipt, halt: Option<Halt>) -> Outcome {
    let failure = match &receipt.outcome {
        Sent::Accepted => return Outcome::Done { result: Some(receipt.to_stored()) },
        Sent::Failed(failure) | Sent::Unknown(failure) => failure,
    };
    let later = || Outcome::Snooze { by: failure.retry_after.unwrap_or(Duration::ZERO) };
    match (&*failure.code, &receipt.outcome) {
        // Its job is cancelled with it.
        ("mail.cancelled", _) if halt == Some(Halt::Cancelled) => {
            Outcome::Retry { error: told(failure, receipt), after: None, certain: true }
        }
        // Whoever has the key answers for the mail, and where nobody does by then, it is sent; a worker that stops puts it back;
        // a store is well again some time, and so is a provider.
        ("idempotency.in_flight" | "idempotency.lease_lost" | "mail.cancelled", _)
        | ("idempotency.store_failed" | "limit.store_failed" | "breaker.open", Sent::Failed(_)) => later(),
        ("idempotency.key_reused", _) => {
            Outcome::Dead { reason: DeadReason::KeyReused, error: told(failure, receipt) }
        }
        (_, Sent::Unknown(_)) => Outcome::Unknown { error: told(failure, receipt) },
        _ if failure.category == MailCategory::RateLimit => later(),
        // The same for every mail, until somebody mends it: none of them is at fault.
        _ if failure.category == MailCategory::Configuration => {
            Outcome::Snooze { by: failure.retry_after.unwrap_or(UNTIL_MENDED) }
        }
        _ if failure.retryable => {
            Outcome::Retry { error: told(failure, receipt), after: failure.retry_after, certain: true }
        }
        _ => Outcome::Dead { reason: DeadReason::Refused, error: told(failure, receipt) },
    }
}

/// For people: what hapax says, and what the provider said.
fn told(failure: &Failure, receipt: &Receipt) -> String {
    match &receipt.response {
        Some(response) => format!("{failure}: {response}"),
        None => failure.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(receipt: &Receipt) -> String {
        match outcome_of(receipt, None) {
            Outcome::Done { .. } => "done".to_owned(),
            Outcome::Snooze { by } => format!("snooze {}", by.as_secs()),
            Outcome::Retry { error, after, .. } => format!("retry {after:?}: {error}"),
            Outcome::Dead { reason, error } => format!("{}: {error}", reason.as_str()),
            Outcome::Unknown { error } => format!("unknown: {error}"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn receipts_are_judged_by_their_code_first() {
        let failed = |category, code: &'static str| Receipt::failed(category, code);
        let wait = Duration::from_secs(7);
        let in_flight = Failure::new(MailCategory::Unknown, "idempotency.in_flight").with_retry_after(wait);
        assert_eq!(of(&Receipt::accepted()), "done");
        assert_eq!(of(&Receipt::not_known(in_flight)), "snooze 7");
        assert_eq!(of(&failed(MailCategory::Unknown, "idempotency.store_failed")), "snooze 0");
        assert_eq!(of(&Receipt::unknown("idempotency.lease_lost")), "snooze 0");
        assert_eq!(of(&failed(MailCategory::RateLimit, "http.too_many")), "snooze 0");
        assert_eq!(of(&failed(MailCategory::Service, "breaker.open")), "snooze 0");
        let reused = failed(MailCategory::Validation, "idempotency.key_reused");
        assert_eq!(of(&reused), "key_reused: idempotency.key_reused");
        let unknown = Receipt::unknown("smtp.lost").with_response("250 queued?");
        assert_eq!(of(&unknown), "unknown: smtp.lost: 250 queued?");
        assert_eq!(of(&Receipt::unknown("idempotency.aborted")), "unknown: idempotency.aborted");
        let busy = Failure::new(MailCategory::Service, "smtp.greylisted").with_retry_after(wait);
        assert_eq!(of(&Receipt::not_sent(busy)), "retry Some(7s): smtp.greylisted");
        assert_eq!(of(&failed(MailCategory::Configuration, "file.unwritable")), "snooze 30");
        assert_eq!(of(&failed(MailCategory::Rejected, "smtp.no")), "refused: smtp.no");
    }

    #[test]
    fn a_send_that_was_stopped_is_put_back_unless_its_job_was_cancelled() {
        let stopped = Receipt::failed(MailCategory::Cancelled, "mail.cancelled");
        assert_eq!(of(&stopped), "snooze 0");
        assert!(matches!(outcome_of(&stopped, Some(Halt::Stopping)), Outcome::Snooze { .. }));
        assert!(matches!(outcome_of(&stopped, Some(Halt::Cancelled)), Outcome::Retry { .. }));
    }
}
