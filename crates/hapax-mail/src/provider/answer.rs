//! What providers answer, and what it means: what they have in common.

use super::http::Answer;
use crate::{Failure, FailureScope, MailCategory, Receipt};
use hapax_core::{Clock, SystemClock};
use serde_json::Value;
use std::time::Duration;

/// So much of what a provider says is kept.
const MOST_KEPT: usize = 500;

/// What an answer says about one message.
#[derive(Debug)]
pub(crate) enum Verdict {
    Accepted { provider_id: Option<String>, message_id: Option<String>, response: String },
    Failed(Failure, String),
    Unknown(Failure, String),
}

impl Verdict {
    pub(crate) fn into_receipt(self, status: u16) -> Receipt {
        match self {
            Self::Accepted { provider_id, message_id, response } => {
                let mut receipt = Receipt::accepted().with_response(response);
                receipt.provider_id = provider_id;
                receipt.message_id = message_id.unwrap_or_default();
                receipt
            }
            Self::Failed(failure, response) => {
                Receipt::not_sent(failure.with_stage("reply").with_http_status(status))
                    .with_response(response)
            }
            Self::Unknown(failure, response) => {
                Receipt::not_known(failure.with_stage("reply").with_http_status(status))
                    .with_response(response)
            }
        }
    }
}

/// An answer, read as far as it can be.
pub(crate) struct Read<'a> {
    pub(crate) answer: &'a Answer,
    /// An object or a list; none where it is something else.
    pub(crate) json: Option<Value>,
}

impl<'a> Read<'a> {
    pub(crate) fn new(answer: &'a Answer) -> Self {
        let json = serde_json::from_slice(&answer.body).ok();
        Self { answer, json: json.filter(|json: &Value| json.is_object() || json.is_array()) }
    }

    pub(crate) fn status(&self) -> u16 {
        self.answer.status
    }

    /// Text at a path such as `errors.0.message`.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        let mut at = self.json.as_ref()?;
        for part in path.split('.') {
            at = match part.parse::<usize>() {
                Ok(index) => at.get(index)?,
                Err(_) => at.get(part)?,
            };
        }
        at.as_str()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.answer.headers.get(name)?.to_str().ok()
    }

    /// What the provider said, in its words.
    pub(crate) fn response(&self) -> String {
        let text = String::from_utf8_lossy(&self.answer.body);
        let end = text.char_indices().map(|(at, _)| at).nth(MOST_KEPT).unwrap_or(text.len());
        format!("{} {}", self.status(), text.get(..end).unwrap_or_default()).trim_end().to_owned()
    }

    pub(crate) fn accepted(&self, provider_id: Option<&str>) -> Verdict {
        if provider_id.is_none() {
            tracing::warn!(
                code = "provider.no_id",
                status = self.status(),
                "a provider took a message and gave no id for it"
            );
        }
        Verdict::Accepted {
            provider_id: provider_id.map(ToOwned::to_owned),
            message_id: None,
            response: self.response(),
        }
    }

    pub(crate) fn failed(&self, category: MailCategory, code: &'static str) -> Verdict {
        self.failed_with(Failure::new(category, code))
    }

    pub(crate) fn failed_with(&self, failure: Failure) -> Verdict {
        let failure = match (failure.retry_after, self.retry_after()) {
            (None, Some(wait)) => failure.with_retry_after(wait),
            _ => failure,
        };
        Verdict::Failed(failure, self.response())
    }

    pub(crate) fn unknown(&self, failure: Failure) -> Verdict {
        Verdict::Unknown(failure, self.response())
    }

    /// The answers that are the same for all: those that leave everything open, and those of no provider. `None` where the
    /// provider's own table has the word.
    ///
    /// `own` says that the answer has the form in which the provider speaks.
    pub(crate) fn common(&self, own: bool) -> Option<Verdict> {
        let status = self.status();
        match status {
            200..=299 => None,
            300..=399 => Some(self.failed(MailCategory::Configuration, "provider.redirected")),
            408 | 500 | 502 | 504..=599 => {
                let detail = "the provider failed, and may have taken the message before";
                Some(self.unknown(Failure::new(MailCategory::Service, "provider.failed").with_detail(detail)))
            }
            _ if !own => {
                let detail =
                    "the answer has not the form of the provider's: something between may have given it";
                Some(self.unknown(Failure::new(MailCategory::Unknown, "provider.answer").with_detail(detail)))
            }
            429 => Some(self.failed(MailCategory::RateLimit, "provider.rate_limited")),
            503 | 501 => Some(self.failed(MailCategory::Service, "provider.unavailable")),
            _ => None,
        }
    }

    /// The rest of what providers mean by a status.
    pub(crate) fn by_status(&self) -> Verdict {
        match self.status() {
            401 | 403 => self.failed(MailCategory::Auth, "provider.auth"),
            404..=406 | 451 => self.failed(MailCategory::Configuration, "provider.configuration"),
            _ => self.failed(MailCategory::Validation, "provider.validation"),
        }
    }

    /// `Retry-After`, in seconds or as a date.
    fn retry_after(&self) -> Option<Duration> {
        let text = self.header("retry-after")?.trim();
        if let Ok(seconds) = text.parse::<u64>() {
            return Some(Duration::from_secs(seconds));
        }
        let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
        // A second more: the date has no parts of one.
        let ms = at.as_millisecond().saturating_sub(SystemClock.now().as_millis());
        Some(Duration::from_millis(u64::try_from(ms).ok()?).saturating_add(Duration::from_secs(1)))
    }

    /// Until an instant in seconds since 1970, of a header.
    pub(crate) fn until_epoch(&self, name: &str) -> Option<Duration> {
        let at = self.header(name)?.trim().parse::<i64>().ok()?.checked_mul(1000)?;
        Some(Duration::from_millis(u64::try_from(at.saturating_sub(SystemClock.now().as_millis())).ok()?))
    }
}

/// Too much in a time that is over later: no further attempts now.
pub(crate) fn quota() -> Failure {
    Failure::new(MailCategory::RateLimit, "provider.quota")
        .with_retryable(false)
        .with_detail("the quota of the account is used up")
}

/// The account may not send.
pub(crate) fn suspended() -> Failure {
    Failure::new(MailCategory::Auth, "provider.suspended").with_detail("the account may not send")
}

/// The recipient is one to whom the provider sends nothing.
pub(crate) fn inactive() -> Failure {
    Failure::new(MailCategory::Rejected, "provider.inactive_recipient")
        .with_scope(FailureScope::Recipient)
        .with_detail("the provider sends nothing to a recipient that bounced or complained")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use hyper::HeaderMap;

    fn answer(status: u16, headers: &[(&'static str, &str)], body: &'static str) -> Answer {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        Answer { status, headers: map, body: Bytes::from_static(body.as_bytes()) }
    }

    fn code(verdict: Option<Verdict>) -> String {
        match verdict {
            None => "own".to_owned(),
            Some(Verdict::Accepted { .. }) => "accepted".to_owned(),
            Some(Verdict::Failed(failure, _)) => format!("failed {}", failure.code),
            Some(Verdict::Unknown(failure, _)) => format!("unknown {}", failure.code),
        }
    }

    #[test]
    fn answers_of_nobody_and_failures_of_the_provider_leave_it_open() {
        for (status, own, expected) in [
            (200, true, "own"),
            (302, false, "failed provider.redirected"),
            (400, true, "own"),
            (403, false, "unknown provider.answer"),
            (429, true, "failed provider.rate_limited"),
            (429, false, "unknown provider.answer"),
            (503, true, "failed provider.unavailable"),
            (503, false, "unknown provider.answer"),
            (408, true, "unknown provider.failed"),
            (500, true, "unknown provider.failed"),
            (502, true, "unknown provider.failed"),
            (504, true, "unknown provider.failed"),
            (520, true, "unknown provider.failed"),
        ] {
            let answer = answer(status, &[], "{}");
            assert_eq!(code(Read::new(&answer).common(own)), expected, "{status} {own}");
        }
    }

    #[test]
    fn retry_after_is_read_in_both_forms_and_never_shortened() {
        let wait = |value: &str| {
            let answer = answer(503, &[("retry-after", value)], "{}");
            match Read::new(&answer).common(true) {
                Some(Verdict::Failed(failure, _)) => failure.retry_after,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(wait("120"), Some(Duration::from_mins(2)));
        let now = SystemClock.now().as_millis();
        let at = jiff::Timestamp::from_millisecond(now + 90_000).unwrap();
        let date = at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let waited = wait(&date).unwrap();
        assert!(waited >= Duration::from_secs(88) && waited <= Duration::from_secs(91), "{waited:?}");
        assert_eq!(wait("soon"), None);
        // One that is over.
        assert_eq!(wait("Tue, 15 Nov 1994 08:12:31 GMT"), None);
    }

    #[test]
    fn what_is_kept_of_an_answer_is_bounded() {
        let body: &'static str = Box::leak("ä".repeat(2000).into_boxed_str());
        let answer = answer(400, &[], body);
        let response = Read::new(&answer).response();
        assert_eq!(response.chars().count(), "400 ".len() + MOST_KEPT);
    }
}
