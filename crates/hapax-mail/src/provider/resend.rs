//! Resend: <https://resend.com/docs/api-reference/emails/send-email>

use super::{
    Provider,
    answer::{Read, Verdict, quota, suspended},
    batch::{Batches, Most},
    from_env,
    http::{Answer, Endpoint, Http, Request},
    parts::{Recipients, author, base64, digest, header_key, headers_object, put, rfc3339, texts},
    transport_of_a_provider, unsupported,
};
use crate::{Failure, Frozen, InvalidTransport, MailCategory, Message, Receipt, transport::SendContext};
use bytes::Bytes;
use hyper::{
    Method,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName},
};
use serde_json::{Map, Value, json};
use std::{collections::BTreeSet, time::Duration};

const DAY: Duration = Duration::from_hours(24);

/// Sends via Resend, which recognises a message that it was given before for 24 h.
///
/// A message with a key goes alone, so that its key stays its own: whatever became of the call, the same message under the same
/// key is not delivered twice. Messages without keys go up to 100 in a request. [`batch_keyed`](Self::batch_keyed) puts those
/// with keys there, too.
///
/// Metadata become tags, and tags have the value `true`; both are letters, digits, `-` and `_`. Raw mails, several authors and
/// settings of tracking, which Resend has for a domain, are refused as `message.unsupported`.
pub struct Resend {
    pub(super) http: Http,
    key: String,
    batch_keyed: bool,
}

impl Resend {
    /// With an API key.
    ///
    /// # Errors
    /// None, but that of every provider.
    pub fn new(key: impl Into<String>) -> Result<Self, InvalidTransport> {
        let endpoint = Endpoint::parse("https://api.resend.com")?;
        Ok(Self { http: Http::new(endpoint), key: key.into(), batch_keyed: false })
    }

    /// With the API key in `RESEND_API_KEY`.
    ///
    /// # Errors
    /// The environment has none.
    pub fn from_env() -> Result<Self, InvalidTransport> {
        Self::new(from_env("RESEND_API_KEY")?)
    }

    /// Puts messages with keys into batches, under a key that is made of theirs. A batch is then recognised as a whole and a
    /// message alone no more, so the transport no longer says that it deduplicates.
    #[must_use]
    pub fn batch_keyed(mut self) -> Self {
        self.batch_keyed = true;
        self
    }

    fn headers(&self, key: Option<String>) -> Vec<(HeaderName, String)> {
        let mut headers = vec![
            (AUTHORIZATION, format!("Bearer {}", self.key)),
            (CONTENT_TYPE, "application/json".to_owned()),
            (ACCEPT, "application/json".to_owned()),
        ];
        headers.extend(key.map(|key| (HeaderName::from_static("idempotency-key"), key)));
        headers
    }
}

/// What is compared when a key comes again: it holds neither date nor id, unless the caller has given one.
fn body(message: &Message) -> Result<Map<String, Value>, Failure> {
    if message.tracking().opens.is_some() || message.tracking().clicks.is_some() {
        return Err(unsupported("it has settings of tracking for a domain, not for a message"));
    }
    let recipients = Recipients::of(message);
    if recipients.to.is_empty() {
        return Err(unsupported("it needs a recipient in `to`"));
    }
    let mut body = Map::new();
    put(&mut body, "from", author(message)?.wire_text());
    put(&mut body, "to", texts(&recipients.to));
    put(&mut body, "cc", texts(&recipients.cc));
    put(&mut body, "bcc", texts(&recipients.bcc));
    put(&mut body, "reply_to", texts(message.reply_to()));
    body.insert("subject".to_owned(), message.subject().unwrap_or_default().into());
    put(&mut body, "html", message.html());
    put(&mut body, "text", message.text());
    put(&mut body, "headers", headers_object(message, message.message_id())?);
    let attachments = message.attachments().iter().map(|attachment| {
        let mut object = Map::new();
        put(&mut object, "filename", attachment.filename().or(attachment.cid()));
        put(&mut object, "content", base64(attachment.bytes()));
        put(&mut object, "content_type", attachment.content_type());
        put(&mut object, "content_id", attachment.cid());
        Value::Object(object)
    });
    put(&mut body, "attachments", attachments.collect::<Vec<_>>());
    put(&mut body, "tags", tags(message)?);
    if let Some(at) = message.send_at() {
        put(&mut body, "scheduled_at", rfc3339(at));
    }
    Ok(body)
}

fn tags(message: &Message) -> Result<Vec<Value>, Failure> {
    let fits = |text: &str| {
        !text.is_empty()
            && text.len() <= 256
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    let metadata = message.metadata().iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut names = BTreeSet::new();
    let mut all = Vec::new();
    for (name, value) in metadata.chain(message.tags().iter().map(|tag| (tag.as_str(), "true"))) {
        if !fits(name) || !fits(value) || !names.insert(name) {
            return Err(unsupported("its tags are 1 to 256 letters, digits, `-` and `_`, each name once"));
        }
        all.push(json!({ "name": name, "value": value }));
    }
    Ok(all)
}

impl Provider for Resend {
    const ID: &'static str = "resend";

    fn http(&self) -> &Http {
        &self.http
    }

    fn request(&self, message: &Message, context: &SendContext, _: &Frozen) -> Result<Request, Failure> {
        Ok(Request {
            method: Method::POST,
            path: "/emails".to_owned(),
            headers: self.headers(context.provider_key().map(header_key)),
            body: Value::Object(body(message)?).to_string().into(),
        })
    }

    fn judge(&self, answer: &Answer) -> Verdict {
        let read = Read::new(answer);
        if (200..300).contains(&read.status()) {
            return read.accepted(read.text("id"));
        }
        refused(&read)
    }
}

fn refused(read: &Read<'_>) -> Verdict {
    let name = read.text("name").unwrap_or_default();
    if !name.ends_with("quota_exceeded")
        && let Some(verdict) = read.common(read.json.is_some())
    {
        return verdict;
    }
    match (read.status(), name) {
        (_, "daily_quota_exceeded" | "monthly_quota_exceeded") => read.failed_with(quota()),
        (_, "concurrent_idempotent_requests") => {
            let failure = Failure::new(MailCategory::Unknown, "provider.in_flight");
            read.unknown(failure.with_detail("a request under the same key has not ended"))
        }
        (_, "invalid_idempotent_request") => read.failed(MailCategory::Validation, "provider.key_reused"),
        (403, "validation_error" | "invalid_from_address") => {
            read.failed(MailCategory::Configuration, "provider.configuration")
        }
        (403, "suspended_api_key") => read.failed_with(suspended()),
        _ => read.by_status(),
    }
}

impl Batches for Resend {
    fn item(&self, message: &Message, context: &SendContext, _: &Frozen) -> Option<Result<Vec<u8>, Failure>> {
        let alone = (context.provider_key().is_some() && !self.batch_keyed)
            || !message.attachments().is_empty()
            || message.send_at().is_some();
        (!alone).then(|| Ok(Value::Object(body(message)?).to_string().into_bytes()))
    }

    fn batch(&self, items: &[Vec<u8>], keys: &[Option<&str>]) -> Request {
        // Without keys, or with some, the batch is as new each time.
        let keys: Option<Vec<&str>> = keys.iter().copied().collect();
        let key =
            keys.filter(|keys| !keys.is_empty()).map(|keys| digest(&[&["batch"], keys.as_slice()].concat()));
        Request {
            method: Method::POST,
            path: "/emails/batch".to_owned(),
            headers: self.headers(key),
            body: Bytes::from([b"[", items.join(&b',').as_slice(), b"]"].concat()),
        }
    }

    fn judge_batch(&self, answer: &Answer, count: usize) -> Vec<Verdict> {
        let read = Read::new(answer);
        if !(200..300).contains(&read.status()) {
            return vec![refused(&read)];
        }
        let ids: Vec<_> = (0..count).map(|n| read.text(&format!("data.{n}.id"))).collect();
        ids.into_iter().map(|id| read.accepted(id)).collect()
    }
}

transport_of_a_provider!(
    Resend,
    batch = Most { messages: 100, bytes: 30 * 1024 * 1024 },
    dedupes_for = |this| (!this.batch_keyed).then_some(DAY)
);
