//! SendGrid: <https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send>

use super::{
    Provider,
    answer::{Read, Verdict},
    from_env,
    http::{Answer, Endpoint, Http, Request},
    parts::{Recipients, author, base64, epoch, headers_object, object, objects, put},
    transport_of_a_provider, unsupported,
};
use crate::{Failure, Frozen, InvalidTransport, MailCategory, Message, Receipt, transport::SendContext};
use hyper::{
    Method,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use serde_json::{Map, Value, json};

/// Sends via SendGrid. It recognises nothing that it was given before.
///
/// The message keeps its own `Message-ID`. Metadata become custom arguments, tags categories. Raw mails and several authors are
/// refused as `message.unsupported`.
pub struct SendGrid {
    pub(super) http: Http,
    key: String,
}

impl SendGrid {
    /// With an API key. `https://api.eu.sendgrid.com` is the [endpoint](Self::with_endpoint) of the European region.
    ///
    /// # Errors
    /// None, but that of every provider.
    pub fn new(key: impl Into<String>) -> Result<Self, InvalidTransport> {
        Ok(Self { http: Http::new(Endpoint::parse("https://api.sendgrid.com")?), key: key.into() })
    }

    /// With the API key in `SENDGRID_API_KEY`.
    ///
    /// # Errors
    /// The environment has none.
    pub fn from_env() -> Result<Self, InvalidTransport> {
        Self::new(from_env("SENDGRID_API_KEY")?)
    }
}

fn body(message: &Message, frozen: &Frozen) -> Result<Map<String, Value>, Failure> {
    let recipients = Recipients::of(message);
    if recipients.to.is_empty() {
        return Err(unsupported("it needs a recipient in `to`"));
    }
    let mut envelope = Map::new();
    put(&mut envelope, "to", objects(&recipients.to));
    put(&mut envelope, "cc", objects(&recipients.cc));
    put(&mut envelope, "bcc", objects(&recipients.bcc));
    let mut body = Map::new();
    put(&mut body, "personalizations", vec![Value::Object(envelope)]);
    put(&mut body, "from", object(author(message)?));
    put(&mut body, "reply_to_list", objects(message.reply_to()));
    body.insert("subject".to_owned(), message.subject().unwrap_or_default().into());
    let part = |kind: &str, text: &str| json!({ "type": kind, "value": text });
    // The plain text has to come first.
    let text = message.text().map(|text| part("text/plain", text));
    put(
        &mut body,
        "content",
        text.into_iter().chain(message.html().map(|html| part("text/html", html))).collect::<Vec<_>>(),
    );
    let attachments = message.attachments().iter().map(|attachment| {
        let mut object = Map::new();
        put(&mut object, "content", base64(attachment.bytes()));
        put(&mut object, "type", attachment.content_type());
        put(&mut object, "filename", attachment.filename().or(attachment.cid()));
        put(&mut object, "disposition", if attachment.cid().is_some() { "inline" } else { "attachment" });
        put(&mut object, "content_id", attachment.cid());
        Value::Object(object)
    });
    put(&mut body, "attachments", attachments.collect::<Vec<_>>());
    put(&mut body, "headers", headers_object(message, Some(&frozen.message_id))?);
    put(&mut body, "categories", message.tags().to_vec());
    let metadata = message.metadata().iter().map(|(name, value)| (name.clone(), value.as_str().into()));
    put(&mut body, "custom_args", metadata.collect::<Map<_, Value>>());
    put(&mut body, "send_at", message.send_at().map(epoch));
    let mut tracking = Map::new();
    let clicks = message.tracking().clicks.map(|yes| json!({ "enable": yes, "enable_text": yes }));
    put(&mut tracking, "click_tracking", clicks);
    put(&mut tracking, "open_tracking", message.tracking().opens.map(|yes| json!({ "enable": yes })));
    put(&mut body, "tracking_settings", tracking);
    Ok(body)
}

impl Provider for SendGrid {
    const ID: &'static str = "sendgrid";

    fn http(&self) -> &Http {
        &self.http
    }

    fn request(&self, message: &Message, _: &SendContext, frozen: &Frozen) -> Result<Request, Failure> {
        Ok(Request {
            method: Method::POST,
            path: "/v3/mail/send".to_owned(),
            headers: vec![
                (AUTHORIZATION, format!("Bearer {}", self.key)),
                (CONTENT_TYPE, "application/json".to_owned()),
            ],
            body: Value::Object(body(message, frozen)?).to_string().into(),
        })
    }

    fn judge(&self, answer: &Answer) -> Verdict {
        let read = Read::new(answer);
        if (200..300).contains(&read.status()) {
            return read.accepted(read.header("x-message-id"));
        }
        let own = read.json.as_ref().is_some_and(|json| json.get("errors").is_some());
        if read.status() == 429 && own {
            let failure = Failure::new(MailCategory::RateLimit, "provider.rate_limited");
            return read.failed_with(match read.until_epoch("x-ratelimit-reset") {
                Some(wait) => failure.with_retry_after(wait),
                None => failure,
            });
        }
        match read.common(own) {
            Some(verdict) => verdict,
            None if read.status() == 413 => read.failed(MailCategory::Validation, "message.size"),
            None => read.by_status(),
        }
    }
}

transport_of_a_provider!(SendGrid);
