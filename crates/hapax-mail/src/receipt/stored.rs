//! Receipts as they lie in a store.
//!
//! JSON of short names, absent where there is nothing to say. What a newer version adds is skipped, and its codes and
//! categories are read as far as they can be told: a receipt that cannot be read would hold its key for nothing.

use super::{Attempt, Failure, FailureScope, MailCategory, Outcome, Receipt, Rejected, known};
use hapax_core::{Timestamp, idempotency};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, time::Duration};

/// Name and version of the form.
pub const CODEC: &str = "mail-receipt/1";

/// The bytes in the store are no receipt of a mail.
#[derive(Debug, thiserror::Error)]
#[error("the stored result is no receipt of a mail that this version can read")]
#[non_exhaustive]
pub struct UnreadableReceipt {
    /// Why.
    #[source]
    source: Option<serde_json::Error>,
}

#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    /// `accepted`, `failed` or `unknown`.
    outcome: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<StoredFailure<'a>>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    message_id: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    provider: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    provider_id: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    response: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    accepted: Cow<'a, [String]>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rejected: Vec<StoredRejected<'a>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    attempts: Vec<StoredAttempt<'a>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    replayed: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    copied: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    deduplicated: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_at: Option<i64>,
}

#[derive(Serialize, Deserialize)]
struct StoredFailure<'a> {
    category: Cow<'a, str>,
    code: Cow<'a, str>,
    #[serde(default)]
    retryable: bool,
    scope: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stage: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    smtp_status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    enhanced_status: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    http_status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<Cow<'a, str>>,
}

#[derive(Serialize, Deserialize)]
struct StoredRejected<'a> {
    address: Cow<'a, str>,
    response: Cow<'a, str>,
    #[serde(default)]
    retryable: bool,
}

#[derive(Serialize, Deserialize)]
struct StoredAttempt<'a> {
    provider: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<Cow<'a, str>>,
}

impl Receipt {
    /// As a store keeps it.
    pub fn to_stored(&self) -> idempotency::Receipt {
        // Plain text and numbers always have a JSON form; without one the record would be held as unreadable.
        let bytes = serde_json::to_vec(&Stored::of(self)).unwrap_or_default();
        idempotency::Receipt::new(CODEC, bytes)
    }

    /// From a store.
    pub fn from_stored(stored: &idempotency::Receipt) -> Result<Self, UnreadableReceipt> {
        if stored.codec != CODEC {
            return Err(UnreadableReceipt { source: None });
        }
        let read: Stored<'_> =
            serde_json::from_slice(&stored.bytes).map_err(|e| UnreadableReceipt { source: Some(e) })?;
        read.into_receipt().ok_or(UnreadableReceipt { source: None })
    }
}

impl<'a> Stored<'a> {
    fn of(receipt: &'a Receipt) -> Self {
        let outcome = match &receipt.outcome {
            Outcome::Accepted => "accepted",
            Outcome::Failed(_) => "failed",
            Outcome::Unknown(_) => "unknown",
        };
        let text = |text: &'a String| Cow::Borrowed(text.as_str());
        Self {
            outcome: outcome.into(),
            failure: receipt.failure().map(StoredFailure::of),
            message_id: text(&receipt.message_id),
            provider: text(&receipt.provider),
            provider_id: receipt.provider_id.as_ref().map(text),
            response: receipt.response.as_ref().map(text),
            accepted: Cow::Borrowed(&receipt.accepted),
            rejected: receipt
                .rejected
                .iter()
                .map(|r| StoredRejected {
                    address: text(&r.address),
                    response: text(&r.response),
                    retryable: r.retryable,
                })
                .collect(),
            attempts: receipt
                .attempts
                .iter()
                .map(|a| StoredAttempt {
                    provider: text(&a.provider),
                    code: a.code.as_deref().map(Cow::Borrowed),
                })
                .collect(),
            replayed: receipt.replayed,
            copied: receipt.copied,
            deduplicated: receipt.deduplicated,
            first_at: receipt.first_at.map(Timestamp::as_millis),
        }
    }

    /// None when the outcome is a word of a newer version: whether the mail went must not be guessed.
    fn into_receipt(self) -> Option<Receipt> {
        let failure = self.failure.map(StoredFailure::into_failure);
        let outcome = match (&*self.outcome, failure) {
            ("accepted", _) => Outcome::Accepted,
            ("failed", Some(failure)) => Outcome::Failed(failure),
            ("unknown", Some(failure)) => Outcome::Unknown(failure),
            _ => return None,
        };
        Some(Receipt {
            outcome,
            message_id: self.message_id.into_owned(),
            provider: self.provider.into_owned(),
            provider_id: self.provider_id.map(Cow::into_owned),
            response: self.response.map(Cow::into_owned),
            accepted: self.accepted.into_owned(),
            rejected: self
                .rejected
                .into_iter()
                .map(|r| Rejected::new(r.address, r.response, r.retryable))
                .collect(),
            attempts: self
                .attempts
                .into_iter()
                .map(|a| Attempt::new(a.provider, a.code.map(stable)))
                .collect(),
            replayed: self.replayed,
            copied: self.copied,
            deduplicated: self.deduplicated,
            first_at: self.first_at.map(Timestamp::from_millis),
        })
    }
}

impl<'a> StoredFailure<'a> {
    fn of(failure: &'a Failure) -> Self {
        let text = |text: &'a Cow<'static, str>| Cow::Borrowed(&**text);
        Self {
            category: failure.category.as_str().into(),
            code: text(&failure.code),
            retryable: failure.retryable,
            scope: failure.scope.as_str().into(),
            retry_after_ms: failure
                .retry_after
                .map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            stage: failure.stage.as_ref().map(text),
            smtp_status: failure.smtp_status,
            enhanced_status: failure.enhanced_status.as_deref().map(Cow::Borrowed),
            http_status: failure.http_status,
            detail: failure.detail.as_ref().map(text),
        }
    }

    fn into_failure(self) -> Failure {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Failure {
            category: MailCategory::from_word(&self.category),
            code: stable(self.code),
            retryable: self.retryable,
            scope: FailureScope::from_word(&self.scope),
            retry_after: self.retry_after_ms.map(Duration::from_millis),
            stage: self.stage.map(owned),
            smtp_status: self.smtp_status,
            enhanced_status: self.enhanced_status.as_deref().map(Box::from),
            http_status: self.http_status,
            detail: self.detail.map(owned),
        }
    }
}

fn stable(code: Cow<'_, str>) -> Cow<'static, str> {
    known(&code).map_or_else(|| Cow::Owned(code.into_owned()), Cow::Borrowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Receipt {
        let failure = Failure::new(MailCategory::Service, "smtp.greylisted")
            .with_retryable(true)
            .with_scope(FailureScope::Recipient)
            .with_retry_after(Duration::from_mins(5))
            .with_stage("rcpt")
            .with_smtp_status(451, Some("4.7.1"))
            .with_http_status(503)
            .with_detail("try later");
        Receipt {
            outcome: Outcome::Failed(failure),
            message_id: "<a@example.com>".to_owned(),
            provider: "smtp".to_owned(),
            provider_id: Some("q1".to_owned()),
            response: Some("451 \"later\"\n".to_owned()),
            accepted: vec!["ada@example.com".to_owned()],
            rejected: vec![Rejected::new("bob@example.com", "550", true)],
            attempts: vec![Attempt::new("smtp", Some("smtp.greylisted".into())), Attempt::new("smtp", None)],
            replayed: true,
            copied: true,
            deduplicated: true,
            first_at: Some(Timestamp::from_millis(7)),
        }
    }

    #[test]
    fn receipts_come_back_as_they_were() {
        for receipt in [full(), Receipt::accepted(), Receipt::unknown("idempotency.aborted")] {
            assert_eq!(Receipt::from_stored(&receipt.to_stored()).unwrap(), receipt);
        }
    }

    #[test]
    fn plain_receipt_is_short() {
        let receipt = Receipt::accepted().with_message_id("<a@b.example>").with_provider("file");
        let stored = receipt.to_stored();
        assert_eq!(
            &*stored.bytes,
            br#"{"outcome":"accepted","message_id":"<a@b.example>","provider":"file"}"#
        );
    }

    #[test]
    fn receipts_of_a_newer_version_can_be_read() {
        let json = r#"{"outcome":"failed","failure":{"category":"weather","code":"sky.fell","scope":"planet",
            "new_field":[1]},"also_new":{"a":1}}"#;
        let receipt = Receipt::from_stored(&idempotency::Receipt::new(CODEC, json.as_bytes())).unwrap();
        let failure = receipt.failure().unwrap();
        assert_eq!((failure.category, &*failure.code), (MailCategory::Unknown, "sky.fell"));
        assert_eq!(failure.scope, FailureScope::Local);
    }

    #[test]
    fn an_outcome_that_is_not_known_is_not_guessed() {
        for json in [r#"{"outcome":"perhaps"}"#, r#"{"outcome":"failed"}"#, "", "{}", "[]"] {
            assert!(
                Receipt::from_stored(&idempotency::Receipt::new(CODEC, json.as_bytes())).is_err(),
                "{json}"
            );
        }
        assert!(Receipt::from_stored(&idempotency::Receipt::new("json/1", "{}")).is_err());
    }

    #[test]
    fn known_codes_become_stable_text_again() {
        let stored = Receipt::unknown("idempotency.aborted").to_stored();
        let receipt = Receipt::from_stored(&stored).unwrap();
        assert!(matches!(receipt.failure().unwrap().code, Cow::Borrowed("idempotency.aborted")));
    }
}
