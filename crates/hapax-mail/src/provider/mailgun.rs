//! Mailgun: <https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun/messages>

use super::{
    Provider,
    answer::{Read, Verdict},
    from_env,
    http::{Answer, Endpoint, Http, Request},
    invalid,
    lookup::{Found, Lookup, Sought},
    parts::{base64, epoch},
    transport_of_a_provider,
};
use crate::{
    Failure, Frozen, InvalidTransport, MailCategory, Message, RawMessage, Receipt, envelope, render,
    transport::SendContext,
};
use bytes::Bytes;
use hyper::{
    Method,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use std::fmt::Write as _;

/// Sends via Mailgun, as bytes that are ready: what other transports send, it sends. It recognises nothing that it was given
/// before; it can be asked whether it has a message ([`Lookup`]), which it finds by its `Message-ID`.
///
/// Recipients are named in the envelope alone, so none of them sees another who is not in the header. Metadata become variables.
pub struct Mailgun {
    pub(super) http: Http,
    key: String,
    domain: String,
}

impl Mailgun {
    /// With an API key, for a domain. `https://api.eu.mailgun.net` is the [endpoint](Self::with_endpoint) of the European region.
    ///
    /// # Errors
    /// The domain is none.
    pub fn new(domain: impl Into<String>, key: impl Into<String>) -> Result<Self, InvalidTransport> {
        let domain = domain.into();
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"-.".contains(&b);
        if domain.is_empty() || !domain.bytes().all(fits) {
            return Err(InvalidTransport::new(
                "Mailgun needs the domain that it sends for, such as `mg.example.com`",
            ));
        }
        Ok(Self { http: Http::new(Endpoint::parse("https://api.mailgun.net")?), key: key.into(), domain })
    }

    /// With the API key in `MAILGUN_API_KEY`.
    ///
    /// # Errors
    /// The domain is none, or the environment has no key.
    pub fn from_env(domain: impl Into<String>) -> Result<Self, InvalidTransport> {
        Self::new(domain, from_env("MAILGUN_API_KEY")?)
    }

    fn authorization(&self) -> String {
        format!("Basic {}", base64(format!("api:{}", self.key).as_bytes()))
    }

    fn form(&self, to: &[String], options: &[(String, String)], mime: &[u8], frozen: &Frozen) -> Request {
        // The seed is known to nobody who writes the mail, so it cannot be in it.
        let boundary = format!("form-{}", frozen.boundary_seed);
        let mut body = Vec::with_capacity(mime.len() + 1024);
        let mut part = |name: &str, more: &str, value: &[u8]| {
            let head =
                format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"{more}\r\n\r\n");
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(value);
            body.extend_from_slice(b"\r\n");
        };
        for recipient in to {
            part("to", "", recipient.as_bytes());
        }
        for (name, value) in options {
            part(name, "", value.as_bytes());
        }
        part("message", "; filename=\"message.mime\"\r\nContent-Type: message/rfc822", mime);
        body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        Request {
            method: Method::POST,
            path: format!("/v3/{}/messages.mime", self.domain),
            headers: vec![
                (AUTHORIZATION, self.authorization()),
                (CONTENT_TYPE, format!("multipart/form-data; boundary={boundary}")),
            ],
            body: body.into(),
        }
    }
}

/// What stands beside the mail. Names hold nothing that could end the line.
fn options(message: &Message) -> Result<Vec<(String, String)>, Failure> {
    let mut options: Vec<(String, String)> =
        message.tags().iter().map(|tag| ("o:tag".to_owned(), tag.clone())).collect();
    for (name, value) in message.metadata() {
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
            return Err(super::unsupported("its variables have names of letters, digits, `-`, `_` and `.`"));
        }
        options.push((format!("v:{name}"), value.clone()));
    }
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    options.extend(message.tracking().opens.map(|opens| ("o:tracking-opens".to_owned(), yes(opens))));
    options.extend(message.tracking().clicks.map(|clicks| ("o:tracking-clicks".to_owned(), yes(clicks))));
    // Seconds since 1970 are taken beside dates.
    options.extend(message.send_at().map(|at| ("o:deliverytime".to_owned(), epoch(at).to_string())));
    Ok(options)
}

impl Provider for Mailgun {
    const ID: &'static str = "mailgun";

    fn http(&self) -> &Http {
        &self.http
    }

    fn request(&self, message: &Message, _: &SendContext, frozen: &Frozen) -> Result<Request, Failure> {
        let mime = render(message, frozen).map_err(|error| invalid(&error))?;
        Ok(self.form(&envelope(message).to, &options(message)?, &mime, frozen))
    }

    fn raw_request(&self, raw: &RawMessage, _: &SendContext, frozen: &Frozen) -> Result<Request, Failure> {
        let mime = raw.render(frozen).map_err(|error| invalid(&error))?;
        let envelope = raw.envelope().map_err(|faults| invalid(&faults))?;
        // Parts of a raw mail may be named by anybody: the form has a boundary of its own.
        let frozen = Frozen::random_at("localhost", frozen.date).map_err(|error| invalid(&error))?;
        Ok(self.form(&envelope.to, &[], &mime, &frozen))
    }

    fn judge(&self, answer: &Answer) -> Verdict {
        let read = Read::new(answer);
        if (200..300).contains(&read.status()) {
            return read.accepted(read.text("id"));
        }
        // Who is not let in is told so in one word.
        let own = read.json.is_some() || matches!(read.answer.body.as_ref(), b"Forbidden" | b"Forbidden\n");
        match (read.common(own), read.status()) {
            (Some(verdict), _) => verdict,
            (None, 420) => read.failed(MailCategory::RateLimit, "provider.rate_limited"),
            (None, 404) => {
                // The vendor says that it can pass.
                let failure = Failure::new(MailCategory::Configuration, "provider.configuration");
                read.failed_with(
                    failure.with_detail("the provider does not know the domain, at least not yet"),
                )
            }
            (None, _) => read.by_status(),
        }
    }
}

#[async_trait::async_trait]
impl Lookup for Mailgun {
    async fn find(&self, sought: &Sought) -> Result<Found, Failure> {
        let Some(id) = &sought.message_id else { return Ok(Found::CannotTell) };
        let mut path = format!("/v3/{}/events?event=accepted&limit=1&message-id=", self.domain);
        for byte in id.trim_start_matches('<').trim_end_matches('>').bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                path.push(char::from(byte));
            } else {
                let _ = write!(path, "%{byte:02X}");
            }
        }
        let headers = vec![(AUTHORIZATION, self.authorization())];
        let request = Request { method: Method::GET, path, headers, body: Bytes::new() };
        super::lookup::ask(&self.http, &request, |read| {
            let items = read.json.as_ref()?.get("items")?.as_array()?;
            Some(match items.first() {
                None => Found::No,
                Some(_) => Found::Yes { provider_id: Some(id.clone()) },
            })
        })
        .await
    }
}

transport_of_a_provider!(Mailgun);
