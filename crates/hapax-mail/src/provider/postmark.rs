//! Postmark: <https://postmarkapp.com/developer/api/email-api>

use super::{
    Provider,
    answer::{Read, Verdict, inactive, suspended},
    batch::{Batches, Most},
    from_env,
    http::{Answer, Endpoint, Http, Request},
    lookup::{Found, Lookup, Sought},
    parts::{Recipients, author, base64, headers, put, texts},
    transport_of_a_provider, unsupported,
};
use crate::{Failure, Frozen, InvalidTransport, MailCategory, Message, Receipt, transport::SendContext};
use bytes::Bytes;
use hyper::{
    Method,
    header::{ACCEPT, CONTENT_TYPE, HeaderName},
};
use serde_json::{Map, Value, json};

/// What a message is found by.
const METADATA: &str = "hapax-mail";
/// The recipients of one message, by Postmark's rule.
const MOST_RECIPIENTS: usize = 50;

/// Sends via Postmark: up to 500 messages in a request. It recognises nothing that it was given before; it can be asked whether
/// it has a message ([`Lookup`]), which it finds by a digest among the metadata.
///
/// The message keeps its own `Message-ID`. Raw mails, several authors, more than one tag, more than 50 recipients and times to
/// send at are refused as `message.unsupported`.
pub struct Postmark {
    pub(super) http: Http,
    token: String,
    stream: Option<String>,
}

impl Postmark {
    /// With a server token.
    ///
    /// # Errors
    /// None, but that of every provider.
    pub fn new(token: impl Into<String>) -> Result<Self, InvalidTransport> {
        let endpoint = Endpoint::parse("https://api.postmarkapp.com")?;
        Ok(Self { http: Http::new(endpoint), token: token.into(), stream: None })
    }

    /// With the token in `POSTMARK_SERVER_TOKEN`.
    ///
    /// # Errors
    /// The environment has none.
    pub fn from_env() -> Result<Self, InvalidTransport> {
        Self::new(from_env("POSTMARK_SERVER_TOKEN")?)
    }

    /// The message stream, such as `broadcast` (the server's default).
    #[must_use]
    pub fn with_stream(mut self, stream: impl Into<String>) -> Self {
        self.stream = Some(stream.into());
        self
    }

    fn headers(&self) -> Vec<(HeaderName, String)> {
        vec![
            (HeaderName::from_static("x-postmark-server-token"), self.token.clone()),
            (CONTENT_TYPE, "application/json".to_owned()),
            (ACCEPT, "application/json".to_owned()),
        ]
    }

    fn body(&self, message: &Message, context: &SendContext, frozen: &Frozen) -> Result<Vec<u8>, Failure> {
        if message.send_at().is_some() {
            return Err(unsupported("it sends at once and cannot wait for a time"));
        }
        let recipients = Recipients::of(message);
        if recipients.len() > MOST_RECIPIENTS {
            return Err(unsupported("it takes 50 recipients at most"));
        }
        let mut body = Map::new();
        let list = |addresses: Vec<String>| (!addresses.is_empty()).then(|| addresses.join(", "));
        put(&mut body, "From", author(message)?.wire_text());
        put(&mut body, "To", list(texts(&recipients.to)));
        put(&mut body, "Cc", list(texts(&recipients.cc)));
        put(&mut body, "Bcc", list(texts(&recipients.bcc)));
        put(&mut body, "ReplyTo", list(texts(message.reply_to())));
        put(&mut body, "Subject", message.subject());
        put(&mut body, "HtmlBody", message.html());
        put(&mut body, "TextBody", message.text());
        let mut fields = vec![json!({ "Name": "X-PM-KeepID", "Value": "true" })];
        let own = headers(message, Some(&frozen.message_id));
        fields.extend(own.into_iter().map(|(name, value)| json!({ "Name": name, "Value": value })));
        put(&mut body, "Headers", fields);
        let attachments = message.attachments().iter().map(|attachment| {
            let mut object = Map::new();
            put(&mut object, "Name", attachment.filename().or(attachment.cid()));
            put(&mut object, "Content", base64(attachment.bytes()));
            put(&mut object, "ContentType", attachment.content_type());
            put(&mut object, "ContentID", attachment.cid().map(|cid| format!("cid:{cid}")));
            Value::Object(object)
        });
        put(&mut body, "Attachments", attachments.collect::<Vec<_>>());
        match message.tags() {
            [] => {}
            [tag] => put(&mut body, "Tag", tag.as_str()),
            _ => return Err(unsupported("it takes one tag, not several")),
        }
        let mut metadata: Map<String, Value> =
            message.metadata().iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        if let Some(digest) = context.mail_digest() {
            metadata.insert(METADATA.to_owned(), digest.into());
        }
        put(&mut body, "Metadata", metadata);
        put(&mut body, "TrackOpens", message.tracking().opens);
        let links = message.tracking().clicks.map(|yes| if yes { "HtmlAndText" } else { "None" });
        put(&mut body, "TrackLinks", links);
        put(&mut body, "MessageStream", self.stream.as_deref());
        Ok(Value::Object(body).to_string().into_bytes())
    }
}

/// One result, alone or in a list.
fn one(read: &Read<'_>, result: &Value) -> Verdict {
    let number = result.get("ErrorCode").and_then(Value::as_i64);
    let id = result.get("MessageID").and_then(Value::as_str);
    match number {
        Some(0) => read.accepted(id),
        Some(10) => read.failed(MailCategory::Auth, "provider.auth"),
        Some(100) => read.failed(MailCategory::Service, "provider.unavailable"),
        Some(400 | 401) => read.failed(MailCategory::Configuration, "provider.configuration"),
        Some(405 | 412 | 413) => read.failed_with(suspended()),
        Some(406) => read.failed_with(inactive()),
        Some(429) => read.failed(MailCategory::RateLimit, "provider.rate_limited"),
        Some(_) => read.failed(MailCategory::Validation, "provider.validation"),
        None => {
            let failure = Failure::new(MailCategory::Unknown, "provider.answer");
            read.unknown(failure.with_detail("the answer says nothing of the message"))
        }
    }
}

fn refused(read: &Read<'_>) -> Verdict {
    let own = read.json.as_ref().and_then(|json| json.get("ErrorCode"));
    match (read.common(own.is_some()), &read.json) {
        (Some(verdict), _) => verdict,
        (None, Some(json)) if read.status() == 422 => one(read, json),
        _ => read.by_status(),
    }
}

impl Provider for Postmark {
    const ID: &'static str = "postmark";

    fn http(&self) -> &Http {
        &self.http
    }

    fn request(&self, message: &Message, context: &SendContext, frozen: &Frozen) -> Result<Request, Failure> {
        let body = self.body(message, context, frozen)?.into();
        Ok(Request { method: Method::POST, path: "/email".to_owned(), headers: self.headers(), body })
    }

    fn judge(&self, answer: &Answer) -> Verdict {
        let read = Read::new(answer);
        match (read.status(), &read.json) {
            (200..300, Some(json)) if json.get("ErrorCode").is_some() => one(&read, json),
            // Taken, and what it says beside that cannot be read.
            (200..300, _) => read.accepted(None),
            _ => refused(&read),
        }
    }
}

impl Batches for Postmark {
    fn item(
        &self,
        message: &Message,
        context: &SendContext,
        frozen: &Frozen,
    ) -> Option<Result<Vec<u8>, Failure>> {
        Some(self.body(message, context, frozen))
    }

    fn batch(&self, items: &[Vec<u8>], _: &[Option<&str>]) -> Request {
        let body = Bytes::from([b"[", items.join(&b',').as_slice(), b"]"].concat());
        Request { method: Method::POST, path: "/email/batch".to_owned(), headers: self.headers(), body }
    }

    fn judge_batch(&self, answer: &Answer, count: usize) -> Vec<Verdict> {
        let read = Read::new(answer);
        if !(200..300).contains(&read.status()) {
            return vec![refused(&read)];
        }
        match read.json.as_ref().and_then(Value::as_array) {
            // In the order of the messages, some taken and some not.
            Some(results) if results.len() == count => {
                results.iter().map(|result| one(&read, result)).collect()
            }
            _ => Vec::new(),
        }
    }
}

#[async_trait::async_trait]
impl Lookup for Postmark {
    async fn find(&self, sought: &Sought) -> Result<Found, Failure> {
        let path = format!("/messages/outbound?count=1&offset=0&metadata_{METADATA}={}", sought.digest);
        let headers = self.headers();
        let request = Request { method: Method::GET, path, headers, body: Bytes::new() };
        super::lookup::ask(&self.http, &request, |read| {
            let total = read.json.as_ref()?.get("TotalCount")?.as_i64()?;
            Some(match (total, read.text("Messages.0.MessageID")) {
                (0, _) => Found::No,
                (_, id) => Found::Yes { provider_id: id.map(ToOwned::to_owned) },
            })
        })
        .await
    }
}

transport_of_a_provider!(Postmark, batch = Most { messages: 500, bytes: 45 * 1024 * 1024 });
