//! What SES answers, and what it means.

use crate::{
    Failure, MailCategory,
    provider::{
        answer::{Read, Verdict, quota, suspended},
        http::Answer,
    },
};
use std::time::Duration;

/// The vendor asks for so much before a message beyond the daily quota is tried again.
const QUOTA: Duration = Duration::from_mins(10);

pub(super) fn judge(answer: &Answer, region: &str) -> Verdict {
    let read = Read::new(answer);
    if (200..300).contains(&read.status()) {
        return accepted(&read, region);
    }
    let kind = kind(&read);
    let common = read.common(kind.is_some());
    // Too much at a time is also said with other statuses than 429.
    match (kind, common, read.status()) {
        (Some(kind), None | Some(Verdict::Failed(..)), 400..=499) => by_name(&read, kind),
        (_, Some(verdict), _) => verdict,
        (_, None, _) => read.by_status(),
    }
}

/// SES sends the mail under an id of its own: answers to the mail refer to that.
fn accepted(read: &Read<'_>, region: &str) -> Verdict {
    let id = read.text("MessageId");
    let place = if region == "us-east-1" { "email" } else { region };
    match (read.accepted(id), id) {
        (Verdict::Accepted { provider_id, response, .. }, Some(id)) => {
            let message_id = Some(format!("<{id}@{place}.amazonses.com>"));
            Verdict::Accepted { provider_id, message_id, response }
        }
        (verdict, _) => verdict,
    }
}

/// The name of an error, without what may stand around it: `aws.protocols#BadRequestException:http://…`.
fn kind<'a>(read: &'a Read<'_>) -> Option<&'a str> {
    let name =
        read.header("x-amzn-errortype").or_else(|| read.text("__type")).or_else(|| read.text("code"))?;
    let name = name.split(':').next()?;
    Some(name.rsplit('#').next().unwrap_or(name))
}

fn by_name(read: &Read<'_>, kind: &str) -> Verdict {
    let says = |words: &str| {
        let said = read.text("message").or_else(|| read.text("Message")).unwrap_or_default();
        said.to_ascii_lowercase().contains(words)
    };
    match kind {
        "TooManyRequestsException" | "ThrottlingException" | "Throttling" | "ThrottledException" => {
            if says("daily message quota") {
                return read.failed_with(quota().with_retry_after(QUOTA));
            }
            read.failed(MailCategory::RateLimit, "provider.rate_limited")
        }
        "LimitExceededException" => read.failed_with(quota()),
        "AccountSuspendedException" => read.failed_with(suspended()),
        "SendingPausedException" => {
            let failure = Failure::new(MailCategory::Service, "provider.unavailable").with_retryable(false);
            read.failed_with(
                failure.with_detail("sending is paused, for the account or its configuration set"),
            )
        }
        "MessageRejected" => read.failed(MailCategory::Rejected, "provider.rejected"),
        "MailFromDomainNotVerifiedException" | "NotFoundException" => {
            read.failed(MailCategory::Configuration, "provider.configuration")
        }
        "BadRequestException" | "ValidationException" | "SerializationException" => {
            read.failed(MailCategory::Validation, "provider.validation")
        }
        "ExpiredTokenException"
        | "IncompleteSignature"
        | "IncompleteSignatureException"
        | "RequestExpired" => read.failed(MailCategory::Auth, "provider.auth"),
        _ => match read.status() {
            429 => read.failed(MailCategory::RateLimit, "provider.rate_limited"),
            _ => read.by_status(),
        },
    }
}
