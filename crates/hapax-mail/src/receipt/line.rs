//! The JSON form of a receipt that scripts rely on.

use super::{Receipt, Rejected};
use serde::{Serialize, Serializer, ser::SerializeStruct};

/// The fields of a receipt as the command prints them. Their names are stable; fields may be added.
///
/// `outcome` is `accepted` or `failed`; a failed one with `delivery_unknown` may have gone.
#[derive(Clone, Copy, Debug)]
pub struct ReceiptLine<'a>(&'a Receipt);

impl Receipt {
    /// As one JSON object: see [`ReceiptLine`]. `Serialize` of a receipt gives the same.
    pub fn line(&self) -> ReceiptLine<'_> {
        ReceiptLine(self)
    }
}

#[derive(Serialize)]
struct RejectedLine<'a> {
    address: &'a str,
    response: &'a str,
    retryable: bool,
}

impl<'a> RejectedLine<'a> {
    fn of(rejected: &'a Rejected) -> Self {
        Self { address: &rejected.address, response: &rejected.response, retryable: rejected.retryable }
    }
}

/// What is not there is `null`, never an empty text.
fn or_null(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

impl Serialize for ReceiptLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let receipt = self.0;
        let failure = receipt.failure();
        let outcome = if receipt.is_accepted() { "accepted" } else { "failed" };
        let retry_after = failure
            .and_then(|f| f.retry_after)
            .map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        let rejected: Vec<_> = receipt.rejected.iter().map(RejectedLine::of).collect();
        let mut out = serializer.serialize_struct("Receipt", 20)?;
        out.serialize_field("outcome", outcome)?;
        out.serialize_field("replayed", &receipt.replayed)?;
        out.serialize_field("copied", &receipt.copied)?;
        out.serialize_field("deduplicated", &receipt.deduplicated)?;
        out.serialize_field("category", &failure.map(|f| f.category.as_str()))?;
        out.serialize_field("code", &failure.map(|f| &f.code))?;
        out.serialize_field("retryable", &failure.is_some_and(|f| f.retryable))?;
        out.serialize_field("delivery_unknown", &receipt.is_unknown())?;
        out.serialize_field("retry_after_ms", &retry_after)?;
        out.serialize_field("stage", &failure.and_then(|f| f.stage.as_deref()))?;
        out.serialize_field("smtp_status", &failure.and_then(|f| f.smtp_status))?;
        out.serialize_field("enhanced_status", &failure.and_then(|f| f.enhanced_status.as_deref()))?;
        out.serialize_field("detail", &failure.and_then(|f| f.detail.as_deref()))?;
        out.serialize_field("message_id", &or_null(&receipt.message_id))?;
        out.serialize_field("provider", &or_null(&receipt.provider))?;
        out.serialize_field("provider_id", &receipt.provider_id)?;
        out.serialize_field("accepted", &receipt.accepted)?;
        out.serialize_field("rejected", &rejected)?;
        out.serialize_field("attempts", &receipt.attempts.len())?;
        out.serialize_field("response", &receipt.response)?;
        out.end()
    }
}

impl Serialize for Receipt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.line().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use std::time::Duration;

    #[test]
    fn line_has_the_fields_scripts_rely_on() {
        let receipt = Receipt::accepted()
            .with_message_id("<1@example.com>")
            .with_provider("file")
            .with_accepted(["ada@example.com"])
            .with_rejected([Rejected::new("bob@example.com", "550 no such user", false)]);
        let line = serde_json::to_value(&receipt).unwrap();
        assert_eq!(line["outcome"], "accepted");
        assert_eq!(line["replayed"], false);
        assert_eq!(line["category"], serde_json::Value::Null);
        assert_eq!(line["code"], serde_json::Value::Null);
        assert_eq!(line["retryable"], false);
        assert_eq!(line["delivery_unknown"], false);
        assert_eq!(line["retry_after_ms"], serde_json::Value::Null);
        assert_eq!(line["message_id"], "<1@example.com>");
        assert_eq!(line["provider"], "file");
        assert_eq!(line["provider_id"], serde_json::Value::Null);
        assert_eq!(line["accepted"], serde_json::json!(["ada@example.com"]));
        assert_eq!(line["rejected"][0]["address"], "bob@example.com");
        assert_eq!(line["attempts"], 0);
        assert_eq!(line["response"], serde_json::Value::Null);
    }

    #[test]
    fn unknown_delivery_is_a_failed_line_with_a_flag() {
        let failure = Failure::new(MailCategory::Timeout, "smtp.reply_timeout")
            .with_stage("reply")
            .with_smtp_status(451, Some("4.4.2"))
            .with_retry_after(Duration::from_millis(1500));
        let line = serde_json::to_value(Receipt::not_known(failure)).unwrap();
        assert_eq!(line["outcome"], "failed");
        assert_eq!(line["delivery_unknown"], true);
        assert_eq!(line["category"], "timeout");
        assert_eq!(line["retryable"], false);
        assert_eq!(line["retry_after_ms"], 1500);
        assert_eq!((&line["stage"], &line["smtp_status"]), (&"reply".into(), &451.into()));
        assert_eq!(line["enhanced_status"], "4.4.2");
    }
}
