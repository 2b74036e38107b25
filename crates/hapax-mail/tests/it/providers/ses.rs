//! Amazon SES: what it is sent, and what its answers mean.

use super::{
    Peer, Play, context, json,
    peer::json_with,
    rich,
    tables::{No, Unknown, Yes, check},
};
use crate::{
    kit::code,
    support::{frozen, plain, text},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hapax_core::Timestamp;
use hapax_mail::{FailureScope, RawMessage, Receipt, SendContext, Ses, Transport};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json as value};
use sha2::{Digest as _, Sha256};
use std::time::Duration;

fn ses(peer: &Peer) -> Ses {
    let ses = Ses::new("eu-west-1", "AKIAEXAMPLE", "ses_secret", Some("lent_token".to_owned())).unwrap();
    ses.with_endpoint(&peer.url()).unwrap()
}

fn taken() -> Play {
    Play::answer(200, &json("{\"MessageId\":\"0102018f\"}"))
}

/// Head and body of a request, and the value of one of its headers.
fn parted(request: &str) -> (&str, &str) {
    request.split_once("\r\n\r\n").unwrap()
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| line.split_once(": ").filter(|(n, _)| *n == name)).map(|(_, v)| v)
}

#[tokio::test]
async fn ses_gets_the_bytes_and_the_envelope_apart() {
    let peer = Peer::start([taken(), taken()]);
    let message =
        plain().cc("Cy <cy@bücher.example>").bcc("hidden@example.com").metadata("campaign", "spring");
    let message = message.build().unwrap();
    let ses = ses(&peer).with_configuration_set("events");
    let receipt = ses.send(&message, &context()).await;
    assert!(receipt.is_accepted(), "{receipt:?}");
    // It sends under an id of its own: that is the one that answers refer to.
    assert_eq!(receipt.message_id, "<0102018f@eu-west-1.amazonses.com>");
    assert_eq!(receipt.provider_id.as_deref(), Some("0102018f"));
    assert_eq!(receipt.accepted, ["ada@example.com", "cy@xn--bcher-kva.example", "hidden@example.com"]);
    let requests = peer.requests();
    let (head, body) = parted(&requests[0]);
    let mime = text(&message);
    assert!(!mime.contains("hidden@"));
    let expected = value!({
        "Destination": {
            "ToAddresses": ["ada@example.com"],
            "CcAddresses": ["cy@xn--bcher-kva.example"],
            "BccAddresses": ["hidden@example.com"],
        },
        "Content": { "Raw": { "Data": STANDARD.encode(&mime) } },
        "EmailTags": [{ "Name": "campaign", "Value": "spring" }],
        "ConfigurationSetName": "events",
    });
    assert_eq!(serde_json::from_str::<Value>(body).unwrap(), expected);
    assert!(head.starts_with("POST /v2/email/outbound-emails HTTP/1.1\r\n"), "{head}");
    let expected = [
        ("host", peer.host()),
        ("content-length", body.len().to_string()),
        ("content-type", "application/json".to_owned()),
        ("x-amz-security-token", "lent_token".to_owned()),
        // Nothing is repeated by the SDK.
        ("amz-sdk-request", "attempt=1; max=1".to_owned()),
    ];
    for (name, value) in expected {
        assert_eq!(header(head, name), Some(value.as_str()), "{name}: {head}");
    }
    let names: Vec<_> = head.lines().skip(1).filter_map(|line| line.split(':').next()).collect();
    let mut once = names.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), names.len(), "{names:?}");
    // A mail that is ready goes as it is.
    let bytes = "Message-ID: <r@x>\r\nDate: Thu, 1 Jan 2026 00:00:00 +0000\r\nSubject: hi\r\n\r\nhi\r\n";
    let raw = RawMessage::new("a@example.com", ["b@example.com"], bytes);
    assert!(ses.send_raw(&raw, &SendContext::default()).await.is_accepted());
    let body: Value = serde_json::from_str(peer.bodies()[1].as_str()).unwrap();
    assert_eq!(body["Content"]["Raw"]["Data"], STANDARD.encode(bytes));
    assert_eq!(body["Destination"], value!({ "ToAddresses": ["b@example.com"] }));
}

/// Signature Version 4, computed from what arrived.
#[tokio::test]
async fn a_request_to_ses_is_signed_for_its_region_and_as_it_arrives() {
    let peer = Peer::start([taken()]);
    assert!(ses(&peer).send(&rich(), &context()).await.is_accepted());
    let requests = peer.requests();
    let (head, body) = parted(&requests[0]);
    let authorization = header(head, "authorization").unwrap();
    let part = |name: &str| {
        let after = authorization.split_once(&format!("{name}=")).unwrap().1;
        after.split(',').next().unwrap().to_owned()
    };
    let date = header(head, "x-amz-date").unwrap();
    let scope = format!("{}/eu-west-1/ses/aws4_request", &date[..8]);
    assert_eq!(part("Credential"), format!("AKIAEXAMPLE/{scope}"));
    let signed = part("SignedHeaders");
    for name in ["host", "x-amz-date", "x-amz-security-token"] {
        assert!(signed.split(';').any(|known| known == name), "{signed}");
    }
    let lines: Vec<_> =
        signed.split(';').map(|name| format!("{name}:{}\n", header(head, name).unwrap().trim())).collect();
    let lines = lines.concat();
    let hash = |text: &str| hex::encode(Sha256::digest(text));
    let request = format!("POST\n/v2/email/outbound-emails\n\n{lines}\n{signed}\n{}", hash(body));
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hash(&request));
    let mac = |key: &[u8], text: &str| {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
        mac.update(text.as_bytes());
        mac.finalize().into_bytes().to_vec()
    };
    let key = ["eu-west-1", "ses", "aws4_request"]
        .iter()
        .fold(mac(b"AWS4ses_secret", &date[..8]), |key, part| mac(&key, part));
    assert_eq!(part("Signature"), hex::encode(mac(&key, &text)));
    assert!(!requests[0].contains("ses_secret"));
}

const fn error(name: &'static str) -> [(&'static str, &'static str); 1] {
    [("x-amzn-errortype", name)]
}

#[tokio::test]
async fn ses_answers_by_its_table() {
    let make = |url: &str| -> Box<dyn Transport> {
        Box::new(Ses::new("eu-west-1", "x", "x", None).unwrap().with_endpoint(url).unwrap())
    };
    check(
        make,
        const {
            &[
                (200, &[], "{\"MessageId\":\"a\"}", Yes),
                // Taken, whatever the rest is.
                (200, &[], "OK", Yes),
                (
                    429,
                    &error("TooManyRequestsException"),
                    "{}",
                    No("rate_limit", "provider.rate_limited", true),
                ),
                (
                    400,
                    &error("ThrottlingException"),
                    "{\"message\":\"Maximum sending rate exceeded.\"}",
                    No("rate_limit", "provider.rate_limited", true),
                ),
                (
                    400,
                    &error("ThrottlingException:http://internal.amazon.com/coral/"),
                    "{\"message\":\"Daily message quota exceeded.\"}",
                    No("rate_limit", "provider.quota", false),
                ),
                (
                    429,
                    &[],
                    "{\"__type\":\"TooManyRequestsException\",\"Message\":\"Daily message quota exceeded\"}",
                    No("rate_limit", "provider.quota", false),
                ),
                (400, &error("LimitExceededException"), "{}", No("rate_limit", "provider.quota", false)),
                (400, &error("AccountSuspendedException"), "{}", No("auth", "provider.suspended", false)),
                (400, &error("SendingPausedException"), "{}", No("service", "provider.unavailable", false)),
                (400, &error("MessageRejected"), "{}", No("rejected", "provider.rejected", false)),
                (
                    400,
                    &error("MailFromDomainNotVerifiedException"),
                    "{}",
                    No("configuration", "provider.configuration", false),
                ),
                (
                    404,
                    &error("NotFoundException"),
                    "{}",
                    No("configuration", "provider.configuration", false),
                ),
                (400, &error("BadRequestException"), "{}", No("validation", "provider.validation", false)),
                (
                    400,
                    &[],
                    "{\"__type\":\"com.amazonaws.sesv2#BadRequestException\"}",
                    No("validation", "provider.validation", false),
                ),
                (403, &error("SignatureDoesNotMatch"), "{}", No("auth", "provider.auth", false)),
                (403, &error("ExpiredTokenException"), "{}", No("auth", "provider.auth", false)),
                (400, &error("ExpiredTokenException"), "{}", No("auth", "provider.auth", false)),
                (403, &error("AccessDeniedException"), "{}", No("auth", "provider.auth", false)),
                (503, &error("ServiceUnavailable"), "{}", No("service", "provider.unavailable", true)),
                (500, &error("InternalServiceErrorException"), "{}", Unknown("provider.failed")),
                (502, &[], "<html></html>", Unknown("provider.failed")),
                (504, &error("x"), "{}", Unknown("provider.failed")),
                (408, &error("RequestTimeoutException"), "{}", Unknown("provider.failed")),
                (400, &[], "<html>Bad Request</html>", Unknown("provider.answer")),
                (403, &[], "{\"message\":\"from a proxy\"}", Unknown("provider.answer")),
                (503, &[], "<html></html>", Unknown("provider.answer")),
            ]
        },
    )
    .await;
}

#[tokio::test]
async fn ses_says_when_its_quota_may_be_tried_again() {
    let body = "{\"message\":\"Daily message quota exceeded.\"}";
    let answer = json_with(&error("ThrottlingException"), body);
    let peer = Peer::start([Play::answer(400, &answer)]);
    let receipt = ses(&peer).send(&rich(), &context()).await;
    assert_eq!(receipt.failure().unwrap().retry_after, Some(Duration::from_mins(10)));
}

/// What may have gone is told as exactly as for the other providers: the SDK neither repeats nor hides it.
#[tokio::test]
async fn ses_is_cut_off_before_and_behind_the_commitment() {
    for (play, expected, unknown) in [
        (Play::ResetAfter(100), "http.write", false),
        (Play::CloseUnanswered, "http.reply_lost", true),
        (Play::ResetUnanswered, "http.reply_lost", true),
        (
            Play::AnswerAndClose(b"HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{\"Mess".to_vec()),
            "http.reply_lost",
            true,
        ),
        (Play::AnswerAndClose(b"220 smtp.example.com\r\n".to_vec()), "http.reply_garbled", true),
        (Play::StallAfter(100), "http.write", false),
        (Play::Stall, "http.reply_timeout", true),
    ] {
        let peer = Peer::start([play.clone()]);
        let waits = matches!(play, Play::Stall | Play::StallAfter(_));
        let limit = Duration::from_millis(if waits { 300 } else { 30_000 });
        let ses = ses(&peer).with_times(Duration::from_secs(5), limit);
        // What is cut off before its end is larger than what both sides buffer.
        let bytes = if matches!(play, Play::ResetAfter(_) | Play::StallAfter(_)) { 8 << 20 } else { 10 };
        let message = plain().attach("a.bin", "application/octet-stream", vec![7_u8; bytes]).build().unwrap();
        let context = context();
        let receipt = ses.send(&message, &context).await;
        assert_eq!((code(&receipt), receipt.is_unknown()), (expected, unknown), "{play:?}: {receipt:?}");
        assert_eq!(context.is_committed(), unknown, "{play:?}");
        assert!(peer.connections() == 1 && peer.requests().len() <= 1, "{play:?}: sent again");
    }
    // Nobody listens.
    let ses = Ses::new("eu-west-1", "x", "x", None).unwrap().with_endpoint("http://127.0.0.1:9").unwrap();
    let receipt = ses.send(&rich(), &context()).await;
    assert_eq!((code(&receipt), receipt.is_unknown()), ("http.connect", false));
}

#[tokio::test]
async fn what_ses_cannot_do_is_refused_and_another_may_do_it() {
    let peer = Peer::start([]);
    let many = (0..51).fold(plain(), |message, n| message.cc(format!("u{n}@example.com")));
    for builder in [
        plain().tag("welcome"),
        plain().metadata("not a word", "1"),
        plain().metadata("word", "ü"),
        plain().track_opens(true),
        plain().send_at(Timestamp::from_millis(4_102_444_800_000)),
        plain().cc("jørgen@example.com"),
        many,
    ] {
        let receipt: Receipt = ses(&peer).send(&builder.build().unwrap(), &context()).await;
        assert_eq!(code(&receipt), "message.unsupported");
        assert_eq!(receipt.failure().unwrap().scope, FailureScope::Provider);
        assert_eq!(receipt.message_id, frozen().message_id);
    }
    assert_eq!(peer.connections(), 0);
}

#[test]
fn ses_needs_a_region_and_shows_no_key() {
    for bad in ["", "eu west", "../x", "EU", "eu-west-1.evil.example"] {
        assert!(Ses::new(bad, "AKIAEXAMPLE", "ses_secret", None).is_err(), "{bad}");
    }
    let ses = Ses::new("cn-north-1", "AKIAEXAMPLE", "ses_secret", Some("lent_token".to_owned())).unwrap();
    let shown = format!("{ses:?}");
    assert!(shown.contains("https://email.cn-north-1.amazonaws.com.cn"), "{shown}");
    assert!(!shown.contains("AKIA") && !shown.contains("secret") && !shown.contains("lent"), "{shown}");
    assert_eq!(
        ses.with_times(Duration::from_secs(5), Duration::from_secs(10)).stack().longest,
        Some(Duration::from_secs(25))
    );
}
