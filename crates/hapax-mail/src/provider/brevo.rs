//! Brevo: <https://developers.brevo.com/reference/send-transac-email>

use super::{
    Provider,
    answer::{Read, Verdict, quota},
    from_env,
    http::{Answer, Endpoint, Http, Request},
    parts::{Recipients, author, base64, headers_object, object, objects, put, rfc3339, uuid_key},
    transport_of_a_provider, unsupported,
};
use crate::{Failure, Frozen, InvalidTransport, MailCategory, Message, Receipt, transport::SendContext};
use hyper::{
    Method,
    header::{ACCEPT, CONTENT_TYPE, HeaderName},
};
use serde_json::{Map, Value};
use std::time::Duration;

/// The vendor's pages name 15 and 30 min.
const WINDOW: Duration = Duration::from_mins(15);

/// Sends via Brevo, which recognises a message that it was given before for 15 min, by a UUID made of the key.
///
/// The provider gives the message an id of its own, which the receipt has. Raw mails, several authors, several addresses to
/// answer to, inline attachments, metadata and settings of tracking are refused as `message.unsupported`.
pub struct Brevo {
    pub(super) http: Http,
    key: String,
}

impl Brevo {
    /// With an API key.
    ///
    /// # Errors
    /// None, but that of every provider.
    pub fn new(key: impl Into<String>) -> Result<Self, InvalidTransport> {
        Ok(Self { http: Http::new(Endpoint::parse("https://api.brevo.com")?), key: key.into() })
    }

    /// With the API key in `BREVO_API_KEY`.
    ///
    /// # Errors
    /// The environment has none.
    pub fn from_env() -> Result<Self, InvalidTransport> {
        Self::new(from_env("BREVO_API_KEY")?)
    }
}

fn body(message: &Message, key: Option<&str>) -> Result<Map<String, Value>, Failure> {
    if message.tracking().opens.is_some() || message.tracking().clicks.is_some() {
        return Err(unsupported("it has settings of tracking for the account, not for a message"));
    }
    if !message.metadata().is_empty() {
        return Err(unsupported("it takes tags, but no metadata"));
    }
    if message.attachments().iter().any(|attachment| attachment.cid().is_some()) {
        return Err(unsupported("it takes no inline attachments"));
    }
    let recipients = Recipients::of(message);
    if recipients.to.is_empty() {
        return Err(unsupported("it needs a recipient in `to`"));
    }
    let mut body = Map::new();
    put(&mut body, "sender", object(author(message)?));
    put(&mut body, "to", objects(&recipients.to));
    put(&mut body, "cc", objects(&recipients.cc));
    put(&mut body, "bcc", objects(&recipients.bcc));
    match message.reply_to() {
        [] => {}
        [one] => put(&mut body, "replyTo", object(one)),
        _ => return Err(unsupported("it takes one address to answer to, not several")),
    }
    body.insert("subject".to_owned(), message.subject().unwrap_or_default().into());
    put(&mut body, "htmlContent", message.html());
    put(&mut body, "textContent", message.text());
    // Bodies may be compared, so the id that is made here for each store is no part of them.
    let mut headers = headers_object(message, message.message_id())?;
    if let Some(key) = key {
        headers.insert("idempotencyKey".to_owned(), uuid_key(key).into());
    }
    put(&mut body, "headers", headers);
    let attachments = message.attachments().iter().map(|attachment| {
        let mut object = Map::new();
        put(&mut object, "content", base64(attachment.bytes()));
        put(&mut object, "name", attachment.filename());
        Value::Object(object)
    });
    put(&mut body, "attachment", attachments.collect::<Vec<_>>());
    put(&mut body, "tags", message.tags().to_vec());
    if let Some(at) = message.send_at() {
        put(&mut body, "scheduledAt", rfc3339(at));
    }
    Ok(body)
}

impl Provider for Brevo {
    const ID: &'static str = "brevo";

    fn http(&self) -> &Http {
        &self.http
    }

    fn request(&self, message: &Message, context: &SendContext, _: &Frozen) -> Result<Request, Failure> {
        Ok(Request {
            method: Method::POST,
            path: "/v3/smtp/email".to_owned(),
            headers: vec![
                (HeaderName::from_static("api-key"), self.key.clone()),
                (CONTENT_TYPE, "application/json".to_owned()),
                (ACCEPT, "application/json".to_owned()),
            ],
            body: Value::Object(body(message, context.provider_key())?).to_string().into(),
        })
    }

    fn judge(&self, answer: &Answer) -> Verdict {
        let read = Read::new(answer);
        if (200..300).contains(&read.status()) {
            let id = read.text("messageId");
            return match (read.accepted(id), id) {
                (Verdict::Accepted { provider_id, response, .. }, Some(id)) => {
                    Verdict::Accepted { provider_id, message_id: Some(id.to_owned()), response }
                }
                (verdict, _) => verdict,
            };
        }
        let own = read.text("code").is_some();
        if read.status() == 429 && own {
            let failure = Failure::new(MailCategory::RateLimit, "provider.rate_limited");
            let reset = read.header("x-sib-ratelimit-reset").and_then(|text| text.trim().parse().ok());
            return read.failed_with(match reset {
                Some(seconds) => failure.with_retry_after(Duration::from_secs(seconds)),
                None => failure,
            });
        }
        match (read.common(own), read.status()) {
            (Some(verdict), _) => verdict,
            (None, 402) => read.failed_with(quota()),
            (None, _) => read.by_status(),
        }
    }
}

transport_of_a_provider!(Brevo, dedupes_for = |_| Some(WINDOW));
