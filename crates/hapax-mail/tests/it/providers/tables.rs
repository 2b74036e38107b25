//! What the answers of each provider mean.

use super::{Peer, Play, context, mail};
use crate::kit::code;
use hapax_mail::{Brevo, Mailgun, Postmark, Receipt, Resend, SendGrid, Transport};
use std::time::Duration;

/// What a receipt says.
pub(super) enum Kind {
    /// Category, code, whether it may be tried again.
    No(&'static str, &'static str, bool),
    Unknown(&'static str),
    Yes,
}
pub(super) use Kind::{No, Unknown, Yes};

/// Status, headers, body, and what they mean.
pub(super) type Row = (u16, &'static [(&'static str, &'static str)], &'static str, Kind);

pub(super) async fn check(make: impl Fn(&str) -> Box<dyn Transport>, rows: &[Row]) {
    let plays = rows
        .iter()
        .map(|(status, headers, body, _)| Play::answer(*status, &super::peer::json_with(headers, body)));
    let peer = Peer::start(plays);
    let transport = make(&peer.url());
    for (status, _, body, kind) in rows {
        let context = context();
        let receipt: Receipt = transport.send(&mail(), &context).await;
        let failure = receipt.failure();
        match kind {
            Yes => assert!(receipt.is_accepted(), "{status} {body}: {receipt:?}"),
            Unknown(expected) => {
                assert_eq!((receipt.is_unknown(), code(&receipt)), (true, *expected), "{status} {body}");
            }
            No(category, expected, retryable) => {
                let failure = failure.unwrap_or_else(|| panic!("{status} {body}"));
                assert!(!receipt.is_unknown(), "{status} {body}");
                assert_eq!(
                    (failure.category.as_str(), &*failure.code, failure.retryable),
                    (*category, *expected, *retryable),
                    "{status} {body}"
                );
            }
        }
        if let Some(failure) = receipt.failure() {
            assert_eq!((failure.http_status, failure.stage.as_deref()), (Some(*status), Some("reply")));
            assert!(receipt.response.as_deref().unwrap().starts_with(&status.to_string()));
        }
        assert_eq!(receipt.attempts.len(), 1);
    }
}

const LEAVES_OPEN: &[Row] = &[
    (
        500,
        &[],
        "{\"name\":\"internal_server_error\",\"code\":\"x\",\"errors\":[],\"ErrorCode\":1}",
        Unknown("provider.failed"),
    ),
    (502, &[], "<html>Bad Gateway</html>", Unknown("provider.failed")),
    (504, &[], "<html></html>", Unknown("provider.failed")),
    (408, &[], "", Unknown("provider.failed")),
    (403, &[], "<html>Attention Required! | Cloudflare</html>", Unknown("provider.answer")),
    (503, &[], "<html>Service Unavailable</html>", Unknown("provider.answer")),
];

#[tokio::test]
async fn answers_that_leave_it_open_do_so_for_every_provider() {
    check(|url| Box::new(Resend::new("x").unwrap().with_endpoint(url).unwrap()), LEAVES_OPEN).await;
    check(|url| Box::new(Postmark::new("x").unwrap().with_endpoint(url).unwrap()), LEAVES_OPEN).await;
    check(|url| Box::new(SendGrid::new("x").unwrap().with_endpoint(url).unwrap()), LEAVES_OPEN).await;
    check(|url| Box::new(Mailgun::new("mg.example", "x").unwrap().with_endpoint(url).unwrap()), LEAVES_OPEN)
        .await;
    check(|url| Box::new(Brevo::new("x").unwrap().with_endpoint(url).unwrap()), LEAVES_OPEN).await;
}

#[tokio::test]
async fn resend_answers_by_its_table() {
    check(
        |url| Box::new(Resend::new("x").unwrap().with_endpoint(url).unwrap()),
        &[
            (200, &[], "{\"id\":\"a\"}", Yes),
            // Taken, whatever the rest is.
            (200, &[], "OK", Yes),
            (
                400,
                &[],
                "{\"name\":\"invalid_idempotency_key\"}",
                No("validation", "provider.validation", false),
            ),
            (
                422,
                &[],
                "{\"name\":\"missing_required_field\"}",
                No("validation", "provider.validation", false),
            ),
            (422, &[], "{\"name\":\"invalid_attachment\"}", No("validation", "provider.validation", false)),
            (401, &[], "{\"name\":\"missing_api_key\"}", No("auth", "provider.auth", false)),
            (401, &[], "{\"name\":\"restricted_api_key\"}", No("auth", "provider.auth", false)),
            (403, &[], "{\"name\":\"invalid_api_key\"}", No("auth", "provider.auth", false)),
            (403, &[], "{\"name\":\"suspended_api_key\"}", No("auth", "provider.suspended", false)),
            (
                403,
                &[],
                "{\"name\":\"validation_error\"}",
                No("configuration", "provider.configuration", false),
            ),
            (
                403,
                &[],
                "{\"name\":\"invalid_from_address\"}",
                No("configuration", "provider.configuration", false),
            ),
            (404, &[], "{\"name\":\"not_found\"}", No("configuration", "provider.configuration", false)),
            (
                405,
                &[],
                "{\"name\":\"method_not_allowed\"}",
                No("configuration", "provider.configuration", false),
            ),
            (
                409,
                &[],
                "{\"name\":\"invalid_idempotent_request\"}",
                No("validation", "provider.key_reused", false),
            ),
            (409, &[], "{\"name\":\"concurrent_idempotent_requests\"}", Unknown("provider.in_flight")),
            (429, &[], "{\"name\":\"rate_limit_exceeded\"}", No("rate_limit", "provider.rate_limited", true)),
            (429, &[], "{\"name\":\"daily_quota_exceeded\"}", No("rate_limit", "provider.quota", false)),
            (429, &[], "{\"name\":\"monthly_quota_exceeded\"}", No("rate_limit", "provider.quota", false)),
            (503, &[], "{\"name\":\"service_unavailable\"}", No("service", "provider.unavailable", true)),
            (500, &[], "{\"name\":\"application_error\"}", Unknown("provider.failed")),
        ],
    )
    .await;
}

#[tokio::test]
async fn postmark_answers_by_its_table() {
    check(
        |url| Box::new(Postmark::new("x").unwrap().with_endpoint(url).unwrap()),
        &[
            (200, &[], "{\"ErrorCode\":0,\"MessageID\":\"a\"}", Yes),
            (200, &[], "OK", Yes),
            (401, &[], "{\"ErrorCode\":10}", No("auth", "provider.auth", false)),
            (422, &[], "{\"ErrorCode\":10}", No("auth", "provider.auth", false)),
            (422, &[], "{\"ErrorCode\":100}", No("service", "provider.unavailable", true)),
            (503, &[], "{\"ErrorCode\":100}", No("service", "provider.unavailable", true)),
            (422, &[], "{\"ErrorCode\":300}", No("validation", "provider.validation", false)),
            (422, &[], "{\"ErrorCode\":402}", No("validation", "provider.validation", false)),
            (422, &[], "{\"ErrorCode\":410}", No("validation", "provider.validation", false)),
            (413, &[], "{\"ErrorCode\":413}", No("validation", "provider.validation", false)),
            (422, &[], "{\"ErrorCode\":400}", No("configuration", "provider.configuration", false)),
            (422, &[], "{\"ErrorCode\":401}", No("configuration", "provider.configuration", false)),
            (422, &[], "{\"ErrorCode\":405}", No("auth", "provider.suspended", false)),
            (422, &[], "{\"ErrorCode\":412}", No("auth", "provider.suspended", false)),
            (422, &[], "{\"ErrorCode\":413}", No("auth", "provider.suspended", false)),
            (422, &[], "{\"ErrorCode\":406}", No("rejected", "provider.inactive_recipient", false)),
            (429, &[], "{\"ErrorCode\":429}", No("rate_limit", "provider.rate_limited", true)),
            (500, &[], "{\"ErrorCode\":500}", Unknown("provider.failed")),
        ],
    )
    .await;
}

#[tokio::test]
async fn sendgrid_answers_by_its_table() {
    const ERRORS: &str = "{\"errors\":[{\"message\":\"x\"}]}";
    check(
        |url| Box::new(SendGrid::new("x").unwrap().with_endpoint(url).unwrap()),
        &[
            (202, &[("x-message-id", "a")], "", Yes),
            (202, &[], "", Yes),
            (400, &[], ERRORS, No("validation", "provider.validation", false)),
            (401, &[], ERRORS, No("auth", "provider.auth", false)),
            (403, &[("retry-after", "60")], ERRORS, No("auth", "provider.auth", false)),
            (404, &[], ERRORS, No("configuration", "provider.configuration", false)),
            (406, &[], ERRORS, No("configuration", "provider.configuration", false)),
            (413, &[], ERRORS, No("validation", "message.size", false)),
            (429, &[], ERRORS, No("rate_limit", "provider.rate_limited", true)),
            (451, &[], ERRORS, No("configuration", "provider.configuration", false)),
            (503, &[], ERRORS, No("service", "provider.unavailable", true)),
            (500, &[], ERRORS, Unknown("provider.failed")),
        ],
    )
    .await;
}

#[tokio::test]
async fn mailgun_answers_by_its_table() {
    check(
        |url| Box::new(Mailgun::new("mg.example", "x").unwrap().with_endpoint(url).unwrap()),
        &[
            (200, &[], "{\"id\":\"<a@b>\"}", Yes),
            (400, &[], "{\"message\":\"x\"}", No("validation", "provider.validation", false)),
            (401, &[], "Forbidden", No("auth", "provider.auth", false)),
            (403, &[], "{\"message\":\"x\"}", No("auth", "provider.auth", false)),
            (404, &[], "{\"message\":\"x\"}", No("configuration", "provider.configuration", false)),
            (420, &[], "{\"message\":\"x\"}", No("rate_limit", "provider.rate_limited", true)),
            (429, &[], "{\"message\":\"x\"}", No("rate_limit", "provider.rate_limited", true)),
            (503, &[], "{\"message\":\"x\"}", No("service", "provider.unavailable", true)),
            (500, &[], "{\"message\":\"x\"}", Unknown("provider.failed")),
        ],
    )
    .await;
}

#[tokio::test]
async fn brevo_answers_by_its_table() {
    check(
        |url| Box::new(Brevo::new("x").unwrap().with_endpoint(url).unwrap()),
        &[
            (201, &[], "{\"messageId\":\"<a@b>\"}", Yes),
            (202, &[], "{\"messageId\":\"<a@b>\"}", Yes),
            (400, &[], "{\"code\":\"invalid_parameter\"}", No("validation", "provider.validation", false)),
            (401, &[], "{\"code\":\"unauthorized\"}", No("auth", "provider.auth", false)),
            (402, &[], "{\"code\":\"not_enough_credits\"}", No("rate_limit", "provider.quota", false)),
            (403, &[], "{\"code\":\"permission_denied\"}", No("auth", "provider.auth", false)),
            (
                404,
                &[],
                "{\"code\":\"document_not_found\"}",
                No("configuration", "provider.configuration", false),
            ),
            (429, &[], "{\"code\":\"too_many_requests\"}", No("rate_limit", "provider.rate_limited", true)),
            (503, &[], "{\"code\":\"x\"}", No("service", "provider.unavailable", true)),
        ],
    )
    .await;
}

#[tokio::test]
async fn what_providers_say_about_when_to_come_again_is_in_the_receipt() {
    let now = hapax_core::Clock::now(&hapax_core::SystemClock).as_millis() / 1000;
    let reset = (now + 40).to_string();
    let errors = "{\"errors\":[],\"code\":\"x\",\"name\":\"rate_limit_exceeded\"}";
    let answers = [
        Play::answer(429, &super::peer::json_with(&[("retry-after", "9")], errors)),
        Play::answer(429, &super::peer::json_with(&[("x-ratelimit-reset", &reset)], errors)),
        Play::answer(429, &super::peer::json_with(&[("x-sib-ratelimit-reset", "12")], errors)),
    ];
    let peer = Peer::start(answers);
    let url = peer.url();
    let wait = |receipt: Receipt| receipt.failure().unwrap().retry_after.unwrap();
    let resend = Resend::new("x").unwrap().with_endpoint(&url).unwrap();
    assert_eq!(wait(resend.send(&mail(), &context()).await), Duration::from_secs(9));
    let sendgrid = SendGrid::new("x").unwrap().with_endpoint(&url).unwrap();
    let waited = wait(sendgrid.send(&mail(), &context()).await);
    assert!(waited > Duration::from_secs(30) && waited <= Duration::from_secs(40), "{waited:?}");
    let brevo = Brevo::new("x").unwrap().with_endpoint(&url).unwrap();
    assert_eq!(wait(brevo.send(&mail(), &context()).await), Duration::from_secs(12));
}
