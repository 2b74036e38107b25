//! What each provider is sent, byte by byte.

use super::{KEY, Peer, Play, context, json, mail, resend, rich};
use crate::{kit::code, support::plain};
use hapax_core::Timestamp;
use hapax_mail::{
    Attachment, Brevo, FailureScope, Mailgun, Postmark, RawMessage, Receipt, SendContext, SendGrid, Transport,
};
use serde_json::{Value, json as value};

fn head(peer: &Peer, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let headers =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<Vec<_>>().concat();
    format!(
        "POST {path} HTTP/1.1\r\nhost: {}\r\nuser-agent: hapax/{}\r\n{headers}content-length: {}\r\n\r\n{body}",
        peer.host(),
        env!("CARGO_PKG_VERSION"),
        body.len()
    )
}

async fn accepted(transport: &impl Transport, message: &hapax_mail::Message) -> Receipt {
    let context = context();
    let receipt = transport.send(message, &context).await;
    assert!(receipt.is_accepted(), "{receipt:?} {:?}", receipt.response);
    assert!(context.is_committed());
    receipt
}

#[tokio::test]
async fn resend_gets_the_message_and_the_key_and_nothing_that_changes() {
    let peer = Peer::start([Play::answer(200, &json("{\"id\":\"49a3999c\"}"))]);
    let receipt = accepted(&resend(&peer), &rich()).await;
    assert_eq!((receipt.provider_id.as_deref(), receipt.provider.as_str()), (Some("49a3999c"), "resend"));
    assert_eq!(receipt.accepted, ["ada@example.com", "b@example.com", "cy@example.com"]);
    let body = value!({
        "from": "\"Shop, \\\"Inc.\\\"\" <shop@xn--bcher-kva.example>",
        "to": ["Ada <ada@example.com>", "\"Lovelace, B.\" <b@example.com>"],
        "bcc": ["Cy <cy@example.com>"],
        "reply_to": ["help@example.com"],
        "subject": "Größe",
        "html": "<p>Hello</p>",
        "text": "Hello",
        "headers": {
            "In-Reply-To": "<first@example.com>",
            "List-Unsubscribe": "<https://example.com/u>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
            "X-Campaign": "spring",
        },
        "attachments": [{ "filename": "terms, 1.txt", "content": "dGVybXM=", "content_type": "text/plain" }],
    })
    .to_string();
    let headers = [
        ("authorization", "Bearer re_secret"),
        ("content-type", "application/json"),
        ("accept", "application/json"),
        ("idempotency-key", KEY),
    ];
    assert_eq!(peer.requests(), [head(&peer, "/emails", &headers, &body)]);
}

#[tokio::test]
async fn postmark_gets_the_message_under_its_own_id() {
    let answer = json("{\"ErrorCode\":0,\"Message\":\"OK\",\"MessageID\":\"b7bc2f4a\"}");
    let peer = Peer::start([Play::answer(200, &answer)]);
    let postmark = Postmark::new("pm_secret").unwrap().with_stream("broadcast");
    let postmark = postmark.with_endpoint(&peer.url()).unwrap();
    // Postmark's error 300: a comma in a name, unquoted, is two addresses.
    let message = hapax_mail::Message::builder()
        .from("\"Shop, Inc.\" <shop@example.com>")
        .to("ada@example.com")
        .subject("Welcome")
        .html("<p>Hi</p>")
        .tag("welcome")
        .metadata("user", "7")
        .track_opens(true)
        .track_clicks(false)
        .attachment(Attachment::inline("logo", "image/png", "png"))
        .build()
        .unwrap();
    let receipt = accepted(&postmark, &message).await;
    assert_eq!(receipt.provider_id.as_deref(), Some("b7bc2f4a"));
    assert_eq!(receipt.message_id, crate::support::frozen().message_id);
    let body = value!({
        "From": "\"Shop, Inc.\" <shop@example.com>",
        "To": "ada@example.com",
        "Subject": "Welcome",
        "HtmlBody": "<p>Hi</p>",
        "Headers": [
            { "Name": "X-PM-KeepID", "Value": "true" },
            { "Name": "Message-ID", "Value": crate::support::frozen().message_id },
        ],
        "Attachments": [
            { "Name": "logo", "Content": "cG5n", "ContentType": "image/png", "ContentID": "cid:logo" },
        ],
        "Tag": "welcome",
        "Metadata": { "user": "7" },
        "TrackOpens": true,
        "TrackLinks": "None",
        "MessageStream": "broadcast",
    })
    .to_string();
    let headers = [
        ("x-postmark-server-token", "pm_secret"),
        ("content-type", "application/json"),
        ("accept", "application/json"),
    ];
    assert_eq!(peer.requests(), [head(&peer, "/email", &headers, &body)]);
}

#[tokio::test]
async fn sendgrid_gets_each_address_once() {
    let answer = "x-message-id: 14c5d75ce93\r\ncontent-length: 0\r\n\r\n";
    let peer = Peer::start([Play::answer(202, answer)]);
    let sendgrid = SendGrid::new("SG.secret").unwrap().with_endpoint(&peer.url()).unwrap();
    let receipt = accepted(&sendgrid, &rich()).await;
    assert_eq!(receipt.provider_id.as_deref(), Some("14c5d75ce93"));
    let body = value!({
        "personalizations": [{
            "to": [
                { "email": "ada@example.com", "name": "Ada" },
                { "email": "b@example.com", "name": "Lovelace, B." },
            ],
            "bcc": [{ "email": "cy@example.com", "name": "Cy" }],
        }],
        "from": { "email": "shop@xn--bcher-kva.example", "name": "Shop, \"Inc.\"" },
        "reply_to_list": [{ "email": "help@example.com" }],
        "subject": "Größe",
        "content": [
            { "type": "text/plain", "value": "Hello" },
            { "type": "text/html", "value": "<p>Hello</p>" },
        ],
        "attachments": [{
            "content": "dGVybXM=", "type": "text/plain", "filename": "terms, 1.txt", "disposition": "attachment",
        }],
        "headers": {
            "Message-ID": crate::support::frozen().message_id,
            "In-Reply-To": "<first@example.com>",
            "List-Unsubscribe": "<https://example.com/u>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
            "X-Campaign": "spring",
        },
    })
    .to_string();
    let headers = [("authorization", "Bearer SG.secret"), ("content-type", "application/json")];
    assert_eq!(peer.requests(), [head(&peer, "/v3/mail/send", &headers, &body)]);
}

#[tokio::test]
async fn mailgun_gets_the_bytes_and_the_envelope_apart() {
    let answer = json("{\"id\":\"<x@mg.example.com>\",\"message\":\"Queued. Thank you.\"}");
    let peer = Peer::start([Play::answer(200, &answer), Play::answer(200, &answer)]);
    let mailgun = Mailgun::new("mg.example.com", "mg_secret").unwrap().with_endpoint(&peer.url()).unwrap();
    let message =
        plain().bcc("cy@example.com").tag("a").metadata("user", "7").track_opens(false).build().unwrap();
    let receipt = accepted(&mailgun, &message).await;
    assert_eq!(receipt.provider_id.as_deref(), Some("<x@mg.example.com>"));
    let mime = crate::support::text(&message);
    assert!(!mime.contains("cy@example.com"));
    let boundary = format!("form-{}", crate::support::frozen().boundary_seed);
    let part = |name: &str, value: &str| {
        format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let body = [
        part("to", "ada@example.com"),
        part("to", "cy@example.com"),
        part("o:tag", "a"),
        part("v:user", "7"),
        part("o:tracking-opens", "no"),
        format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"message\"; filename=\"message.mime\"\r\n\
             Content-Type: message/rfc822\r\n\r\n{mime}\r\n--{boundary}--\r\n"
        ),
    ]
    .concat();
    let kind = format!("multipart/form-data; boundary={boundary}");
    // The word is `api:mg_secret`.
    let headers = [("authorization", "Basic YXBpOm1nX3NlY3JldA=="), ("content-type", kind.as_str())];
    assert_eq!(peer.requests(), [head(&peer, "/v3/mg.example.com/messages.mime", &headers, &body)]);
    // A mail that is ready goes as it is.
    let raw = RawMessage::new(
        "a@example.com",
        ["b@example.com"],
        "Message-ID: <r@x>\r\nDate: Thu, 1 Jan 2026 00:00:00 +0000\r\nSubject: hi\r\n\r\nhi\r\n",
    );
    let receipt = mailgun.send_raw(&raw, &SendContext::default()).await;
    assert!(receipt.is_accepted());
    assert_eq!(receipt.message_id, "<r@x>");
    let sent = peer.bodies().pop().unwrap();
    assert!(sent.contains(
        "\r\n\r\nMessage-ID: <r@x>\r\nDate: Thu, 1 Jan 2026 00:00:00 +0000\r\nSubject: hi\r\n\r\nhi\r\n\r\n--"
    ));
}

#[tokio::test]
async fn lists_of_addresses_to_answer_to_arrive_whole() {
    let answer = || Play::answer(200, &json("{\"id\":\"a\",\"ErrorCode\":0,\"MessageID\":\"a\"}"));
    let peer = Peer::start((0..4).map(|_| answer()));
    let url = peer.url();
    let message =
        || plain().reply_to("\"Help, first\" <a@example.com>").reply_to("b@example.com").build().unwrap();
    let _ = accepted(&resend(&peer), &message()).await;
    let _ = accepted(&Postmark::new("x").unwrap().with_endpoint(&url).unwrap(), &message()).await;
    let _ = accepted(&SendGrid::new("x").unwrap().with_endpoint(&url).unwrap(), &message()).await;
    let _ =
        accepted(&Mailgun::new("mg.example", "x").unwrap().with_endpoint(&url).unwrap(), &message()).await;
    let bodies = peer.bodies();
    let parsed = |n: usize| serde_json::from_str::<Value>(&bodies[n]).unwrap();
    assert_eq!(parsed(0)["reply_to"], value!(["\"Help, first\" <a@example.com>", "b@example.com"]));
    assert_eq!(parsed(1)["ReplyTo"], "\"Help, first\" <a@example.com>, b@example.com");
    let list = value!([{ "email": "a@example.com", "name": "Help, first" }, { "email": "b@example.com" }]);
    assert_eq!(parsed(2)["reply_to_list"], list);
    assert!(
        bodies[3].contains("Reply-To: \"Help, first\" <a@example.com>, <b@example.com>\r\n"),
        "{}",
        bodies[3]
    );
}

#[tokio::test]
async fn brevo_gets_a_uuid_made_of_the_key() {
    let peer = Peer::start([Play::answer(201, &json("{\"messageId\":\"<1@smtp-relay.mailin.fr>\"}"))]);
    let brevo = Brevo::new("xkeysib-secret").unwrap().with_endpoint(&peer.url()).unwrap();
    let receipt = accepted(&brevo, &rich()).await;
    // It gives ids of its own: that is the one that answers refer to.
    assert_eq!(receipt.message_id, "<1@smtp-relay.mailin.fr>");
    let body: Value = serde_json::from_str(&peer.bodies()[0]).unwrap();
    let uuid = body["headers"]["idempotencyKey"].as_str().unwrap();
    assert_eq!(uuid.len(), 36);
    let body = value!({
        "sender": { "email": "shop@xn--bcher-kva.example", "name": "Shop, \"Inc.\"" },
        "to": [
            { "email": "ada@example.com", "name": "Ada" },
            { "email": "b@example.com", "name": "Lovelace, B." },
        ],
        "bcc": [{ "email": "cy@example.com", "name": "Cy" }],
        "replyTo": { "email": "help@example.com" },
        "subject": "Größe",
        "htmlContent": "<p>Hello</p>",
        "textContent": "Hello",
        "headers": {
            "In-Reply-To": "<first@example.com>",
            "List-Unsubscribe": "<https://example.com/u>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
            "X-Campaign": "spring",
            "idempotencyKey": uuid,
        },
        "attachment": [{ "content": "dGVybXM=", "name": "terms, 1.txt" }],
    })
    .to_string();
    let headers =
        [("api-key", "xkeysib-secret"), ("content-type", "application/json"), ("accept", "application/json")];
    assert_eq!(peer.requests(), [head(&peer, "/v3/smtp/email", &headers, &body)]);
}

/// What a provider compares when a key comes again: the same message under another id and date has the same body.
#[tokio::test]
async fn what_is_compared_under_a_key_does_not_change_with_the_attempt() {
    let answers = || (0..2).map(|_| Play::answer(200, &json("{\"id\":\"a\",\"messageId\":\"<a@b>\"}")));
    for brevo in [false, true] {
        let peer = Peer::start(answers());
        for seed in ["a", "b"] {
            let frozen =
                hapax_mail::Frozen::new(format!("<{seed}@example.com>"), Timestamp::from_millis(0), seed);
            let context = SendContext::default().with_provider_key(KEY).with_frozen(frozen);
            let receipt = if brevo {
                let brevo = Brevo::new("x").unwrap().with_endpoint(&peer.url()).unwrap();
                brevo.send(&mail(), &context).await
            } else {
                resend(&peer).send(&mail(), &context).await
            };
            assert!(receipt.is_accepted());
        }
        let requests = peer.requests();
        assert_eq!(requests[0], requests[1]);
    }
}

#[tokio::test]
async fn what_a_provider_cannot_do_is_refused_and_another_may_do_it() {
    let peer = Peer::start([]);
    let url = peer.url();
    let resend = resend(&peer);
    let postmark = Postmark::new("x").unwrap().with_endpoint(&url).unwrap();
    let brevo = Brevo::new("x").unwrap().with_endpoint(&url).unwrap();
    let sendgrid = SendGrid::new("x").unwrap().with_endpoint(&url).unwrap();
    let two_authors = || plain().from("b@example.com").sender("a@example.com").build().unwrap();
    let hidden = || {
        hapax_mail::Message::builder().from("a@example.com").bcc("b@example.com").text("").build().unwrap()
    };
    let twice = || plain().header("X-A", "1").header("x-a", "2").build().unwrap();
    let many = (0..51).fold(plain(), |message, n| message.cc(format!("u{n}@example.com"))).build().unwrap();
    let cases: Vec<(&dyn Transport, hapax_mail::Message)> = vec![
        (&resend, two_authors()),
        (&resend, hidden()),
        (&resend, twice()),
        (&resend, plain().track_opens(true).build().unwrap()),
        (&resend, plain().tag("not a word").build().unwrap()),
        (&postmark, plain().tag("a").tag("b").build().unwrap()),
        (&postmark, plain().send_at(Timestamp::from_millis(1_896_080_400_000)).build().unwrap()),
        (&postmark, many),
        (&brevo, plain().reply_to("a@example.com").reply_to("b@example.com").build().unwrap()),
        (&brevo, plain().metadata("a", "b").build().unwrap()),
        (
            &brevo,
            plain().html("<p>").attachment(Attachment::inline("logo", "image/png", "x")).build().unwrap(),
        ),
        (&sendgrid, hidden()),
    ];
    for (transport, message) in cases {
        let receipt = transport.send(&message, &SendContext::default()).await;
        assert_eq!(code(&receipt), "message.unsupported", "{transport:?} {message:?}");
        assert_eq!(receipt.failure().unwrap().scope, FailureScope::Provider);
    }
    let raw = RawMessage::new("a@example.com", ["b@example.com"], "Subject: hi\r\n\r\nhi\r\n");
    assert_eq!(code(&resend.send_raw(&raw, &SendContext::default()).await), "message.unsupported");
    assert_eq!(peer.connections(), 0);
}

#[tokio::test]
async fn times_to_send_at_are_in_the_form_of_the_provider() {
    let at = || plain().send_at(Timestamp::from_millis(1_896_080_400_000)).build().unwrap();
    let answer = || Play::answer(200, &json("{\"id\":\"a\",\"messageId\":\"<a@b>\"}"));
    let peer = Peer::start((0..4).map(|_| answer()));
    let url = peer.url();
    let _ = accepted(&resend(&peer), &at()).await;
    let _ = accepted(&SendGrid::new("x").unwrap().with_endpoint(&url).unwrap(), &at()).await;
    let _ = accepted(&Brevo::new("x").unwrap().with_endpoint(&url).unwrap(), &at()).await;
    let _ = accepted(&Mailgun::new("mg.example.com", "x").unwrap().with_endpoint(&url).unwrap(), &at()).await;
    let bodies = peer.bodies();
    assert!(bodies[0].contains("\"scheduled_at\":\"2030-01-31T09:00:00Z\""), "{}", bodies[0]);
    assert!(bodies[1].contains("\"send_at\":1896080400"), "{}", bodies[1]);
    assert!(bodies[2].contains("\"scheduledAt\":\"2030-01-31T09:00:00Z\""), "{}", bodies[2]);
    assert!(bodies[3].contains("name=\"o:deliverytime\"\r\n\r\n1896080400\r\n"), "{}", bodies[3]);
}
