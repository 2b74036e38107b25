//! A mail as the payload of a job: JSON that other languages can write, too.

use crate::{InvalidMessage, Message, MessageJson, RawMessage};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use hapax_core::{Key, queue::DeadReason};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A mail that waits in a queue.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum QueuedMail {
    /// A message. Its payload is a line as [`MessageJson`] reads it, with the bytes of its attachments in it.
    Message(Message),
    /// A mail that is ready to be sent. Its payload is
    /// `{"envelope":{"from","to":[]},"eml","idempotency_key"}`, with `eml_base64` in place of `eml` where that is no UTF-8.
    Raw(RawMessage),
}

/// The payload of a job is no mail.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPayload {
    /// It has not the form of one.
    #[error("the payload is no mail: {reason}")]
    #[non_exhaustive]
    Form {
        /// Why.
        reason: String,
    },
    /// It has the form, and cannot be sent.
    #[error("the mail is not valid: {0}")]
    Mail(InvalidMessage),
}

impl InvalidPayload {
    /// What that means for its job.
    pub fn reason(&self) -> DeadReason {
        match self {
            Self::Form { .. } => DeadReason::Undecodable,
            Self::Mail(_) => DeadReason::Invalid,
        }
    }
}

/// A ready mail, as it is written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ready {
    envelope: Envelope,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    eml: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    eml_base64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    from: String,
    to: Vec<String>,
}

/// What tells the one from the other.
#[derive(Deserialize)]
struct Kind {
    #[serde(default)]
    envelope: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    idempotency_key: Option<serde_json::Value>,
}

impl QueuedMail {
    /// The bytes of its job.
    pub fn to_payload(&self) -> Bytes {
        match self {
            Self::Message(message) => message.to_json_line().into(),
            Self::Raw(raw) => {
                let text = str::from_utf8(&raw.bytes).ok().map(str::to_owned);
                let ready = Ready {
                    envelope: Envelope { from: raw.from.clone(), to: raw.to.clone() },
                    eml_base64: text.is_none().then(|| STANDARD.encode(&raw.bytes)),
                    eml: text,
                    idempotency_key: raw.idempotency_key.clone(),
                };
                let bytes = serde_json::to_vec(&ready);
                bytes.unwrap_or_else(|_| unreachable!("texts have a form in JSON")).into()
            }
        }
    }

    /// From the bytes of its job.
    ///
    /// # Errors
    /// It is no mail, or none that can be sent. Attachments have to be in it: a `path` is refused.
    pub fn from_payload(payload: &[u8]) -> Result<Self, InvalidPayload> {
        let form = |reason: String| InvalidPayload::Form { reason };
        let kind: Kind = serde_json::from_slice(payload).map_err(|error| form(error.to_string()))?;
        if kind.envelope.is_none() {
            let line = MessageJson::from_bytes(payload).map_err(InvalidPayload::Mail)?;
            if line.has_files() {
                return Err(form(
                    "its attachments are on some machine: give their bytes as `base64`".to_owned(),
                ));
            }
            let message = line.load(Path::new(""), None).map_err(InvalidPayload::Mail)?;
            // A long key is written as it is shown, and is not hashed again.
            let key = kind.idempotency_key.as_ref().and_then(serde_json::Value::as_str);
            let key = key.and_then(|key| Key::from_shown(key).ok());
            return Ok(Self::Message(match key {
                Some(key) => message.under(key),
                None => message,
            }));
        }
        let ready: Ready = serde_json::from_slice(payload).map_err(|error| form(error.to_string()))?;
        let bytes = match (ready.eml, ready.eml_base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(coded)) => {
                STANDARD.decode(coded).map_err(|error| form(format!("eml_base64: {error}")))?
            }
            _ => return Err(form("give `eml` or `eml_base64`".to_owned())),
        };
        let mut raw = RawMessage::new(ready.envelope.from, ready.envelope.to, bytes);
        raw.idempotency_key = ready.idempotency_key;
        raw.check().map_err(InvalidPayload::Mail)?;
        Ok(Self::Raw(raw))
    }

    /// The key under which it is sent once.
    pub fn key(&self) -> Option<Key> {
        match self {
            Self::Message(message) => message.idempotency_key().cloned(),
            Self::Raw(raw) => raw.idempotency_key.as_deref().and_then(|key| Key::new(key).ok()),
        }
    }

    /// The same mail, under this key where it has none.
    #[must_use]
    pub fn keyed(self, key: &Key) -> Self {
        match self {
            Self::Message(message) if message.idempotency_key().is_none() => {
                Self::Message(message.under(key.clone()))
            }
            Self::Raw(raw) if raw.idempotency_key.is_none() => {
                Self::Raw(raw.with_idempotency_key(key.as_str()))
            }
            mail => mail,
        }
    }
}

impl From<Message> for QueuedMail {
    fn from(message: Message) -> Self {
        Self::Message(message)
    }
}

impl From<RawMessage> for QueuedMail {
    fn from(raw: RawMessage) -> Self {
        Self::Raw(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(body: &[u8]) -> RawMessage {
        let bytes = [b"From: a@x.example\r\nTo: b@x.example\r\n\r\n", body, b"\r\n"].concat();
        RawMessage::new("a@x.example", ["b@x.example"], bytes).with_idempotency_key("k")
    }

    #[test]
    fn ready_mails_come_back_as_they_were() {
        for (body, field) in [("Grüße".as_bytes(), "\"eml\""), (&[0xfc, b'x'][..], "\"eml_base64\"")] {
            let payload = QueuedMail::Raw(raw(body)).to_payload();
            assert!(String::from_utf8(payload.to_vec()).unwrap().contains(field));
            let Ok(QueuedMail::Raw(back)) = QueuedMail::from_payload(&payload) else {
                panic!("no ready mail")
            };
            assert_eq!(back, raw(body));
        }
    }

    #[test]
    fn what_is_no_mail_is_told_from_one_that_cannot_be_sent() {
        let reason = |payload: &str| QueuedMail::from_payload(payload.as_bytes()).unwrap_err().reason();
        assert_eq!(reason("x"), DeadReason::Undecodable);
        assert_eq!(reason("[1]"), DeadReason::Undecodable);
        assert_eq!(reason("{\"envelope\":{\"from\":\"\",\"to\":[]}}"), DeadReason::Undecodable);
        assert_eq!(reason("{}"), DeadReason::Invalid);
        assert_eq!(reason("{\"from\":\"a@x.example\",\"to\":\"no\",\"text\":\"\"}"), DeadReason::Invalid);
        let path =
            r#"{"from":"a@x.example","to":"b@x.example","text":"","attachments":[{"path":"/etc/passwd"}]}"#;
        assert_eq!(reason(path), DeadReason::Undecodable);
    }

    #[test]
    fn a_long_key_stays_what_it_is() {
        let message = Message::builder().from("a@x.example").to("b@x.example").text("");
        let mail = QueuedMail::from(message.idempotency_key("k".repeat(600)).build().unwrap());
        let back = QueuedMail::from_payload(&mail.to_payload()).unwrap();
        assert_eq!(back.key(), mail.key());
        assert_eq!(mail.key(), Key::new(&"k".repeat(600)).ok());
    }

    #[test]
    fn a_key_is_given_to_those_that_have_none() {
        let message = Message::builder().from("a@x.example").to("b@x.example").text("").build().unwrap();
        let (one, two) = (Key::new("one").unwrap(), Key::new("two").unwrap());
        let mail = QueuedMail::from(message).keyed(&one).keyed(&two);
        assert_eq!(mail.key(), Some(one));
        assert_eq!(QueuedMail::from(raw(b"")).keyed(&two).key().unwrap().as_str(), "k");
    }
}
