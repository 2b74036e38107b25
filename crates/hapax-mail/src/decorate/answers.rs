//! The receipts of sends that are answered without the transport.

use super::{
    once::Mail,
    policy::{Call, OnUnknown, Policy, invalid, why},
};
use crate::{Failure, FailureScope, MailCategory, Outcome, Receipt, Transport, derive_message_id};
use hapax_core::{
    Coded, StoreError,
    idempotency::{Kind, Record, RecordState},
};
use hapax_engine::IdempotencyError;

/// What a receipt does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Kept(Kind),
    Freed,
}

impl Policy {
    /// The receipt of a key that could not be reserved. Nothing was sent.
    pub(super) fn refused(&self, error: &IdempotencyError, mail: Mail<'_>, call: &Call) -> Receipt {
        let failure = |code| Failure::new(MailCategory::Unknown, code).with_detail(error.to_string());
        let receipt = match error {
            IdempotencyError::InFlight { retry_after, .. } => {
                Receipt::not_known(failure("idempotency.in_flight").with_retry_after(*retry_after))
            }
            IdempotencyError::KeyReused { .. } => {
                let failure = Failure::new(MailCategory::Validation, "idempotency.key_reused");
                Receipt::not_sent(failure.with_detail(error.to_string()))
            }
            IdempotencyError::StoreFailed { source, .. } => return self.not_reserved(source, mail, call),
            IdempotencyError::Invalid { .. } => invalid(why(error)),
            // Everything else says that the key holds something.
            other => Receipt::not_known(failure(other.code())),
        };
        receipt.with_message_id(self.known_id(mail, call))
    }

    /// The store failed: this message alone fails, and may be sent again.
    pub(super) fn not_reserved(&self, error: &StoreError, mail: Mail<'_>, call: &Call) -> Receipt {
        let failure = Failure::new(MailCategory::Unknown, "idempotency.store_failed")
            .with_retryable(true)
            .with_detail(format!("the key could not be reserved, so nothing was sent: {error}"));
        Receipt::not_sent(failure).with_message_id(self.known_id(mail, call))
    }

    /// The answer from an earlier send.
    pub(super) fn replay(&self, record: &Record, mail: Mail<'_>, call: &Call) -> Receipt {
        let mut receipt = match &record.state {
            RecordState::Settled { kind, receipt, .. } => match Receipt::from_stored(receipt) {
                Ok(receipt) => receipt,
                // Left behind by a send that was dropped, or whose process ended it: there was no receipt.
                Err(_) if *kind == Kind::Unknown => self.synthetic("idempotency.aborted", mail, call),
                Err(error) => {
                    tracing::warn!(key = ?call.name, code = "idempotency.unreadable", %error, "a receipt cannot be read");
                    self.synthetic("idempotency.unreadable", mail, call)
                }
            },
            _ => self.synthetic("idempotency.unreadable", mail, call),
        };
        tracing::debug!(key = ?call.name, code = receipt.code(), "a send is answered as before");
        receipt.replayed = true;
        receipt.first_at = receipt.first_at.or(Some(record.first_at));
        receipt
    }

    fn synthetic(&self, code: &'static str, mail: Mail<'_>, call: &Call) -> Receipt {
        let failure = Failure::new(MailCategory::Unknown, code)
            .with_scope(FailureScope::Local)
            .with_detail("an earlier send left no receipt that can be read");
        Receipt::not_known(failure).with_message_id(self.known_id(mail, call))
    }

    /// The id under which the message goes or went, as far as it can be told without asking the store.
    fn known_id(&self, mail: Mail<'_>, call: &Call) -> String {
        let derived = || {
            let name = &call.name;
            let domain = mail.author_domain();
            let secret = self.known_secret()?;
            Some(derive_message_id(
                secret,
                name.namespace(),
                name.scope(),
                name.key(),
                &call.fingerprint,
                &domain,
            ))
        };
        mail.own_message_id().or_else(derived).unwrap_or_default()
    }

    /// Whether an unknown outcome is tried again.
    pub(super) fn retries(&self, record: &Record, transport: &dyn Transport) -> bool {
        let RecordState::Settled { kind: Kind::Unknown, .. } = &record.state else { return false };
        match self.on_unknown {
            OnUnknown::Keep => false,
            OnUnknown::Retry => true,
            // From the first attempt: that is the one the provider may have forgotten.
            OnUnknown::RetryIfDeduped => {
                let age = self.keeper.clock().now().since(record.first_at);
                transport.dedupes_for().is_some_and(|window| age < window)
            }
        }
    }

    /// What a receipt does to its key.
    pub(super) fn fate(&self, receipt: &Receipt) -> Fate {
        match &receipt.outcome {
            Outcome::Accepted => Fate::Kept(Kind::Done),
            // A decorator further in did not send it, whoever else may.
            Outcome::Unknown(failure) if failure.code == "idempotency.in_flight" => Fate::Freed,
            Outcome::Unknown(_) => Fate::Kept(Kind::Unknown),
            Outcome::Failed(failure) => {
                let for_good = failure.category == MailCategory::Rejected && !failure.retryable;
                if self.keep_rejected && for_good { Fate::Kept(Kind::Done) } else { Fate::Freed }
            }
        }
    }
}

/// A second message of a batch under the key of the first.
pub(super) fn copy_of(first: &Receipt, was_sent: bool) -> Receipt {
    let mut copy = first.clone();
    copy.copied = true;
    copy.replayed |= was_sent;
    copy
}
