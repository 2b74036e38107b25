//! What tells one message from another under the same key.
//!
//! Version 1 is a SHA-256 over a fixed start and one record a field: a tag byte, the length of the content as eight
//! bytes (most significant first), the content. A field that is not there has no record, so an empty one differs from a
//! missing one. In order of the tags:
//!
//! | tag | field | content |
//! |---|---|---|
//! | 1–6 | from, sender, to, cc, bcc, `reply_to` | one record for each address: `1` the name, `2` the local part, `3` the domain as A-labels |
//! | 7, 8, 9 | subject, text, html | UTF-8; line ends of text and html as LF |
//! | 10 | headers | one for each field, in order: `1` the name in lower case, `2` the value |
//! | 11 | attachments | one for each, in order: `1` name, `2` type, `3` cid; strict also `4`, the SHA-256 of the bytes |
//! | 12, 13 | `in_reply_to`, references | the id; one for each id, tag `1` |
//! | 14 | `send_at` | milliseconds since 1970, eight bytes |
//! | 15 | tracking | `1` opens, `2` clicks: one byte, 0 or 1 |
//! | 16 | metadata | sorted by name; for each `1` the name, `2` the value |
//! | 17 | tags | one for each, tag `1` |
//! | 18 | unsubscribe | `1` url, `2` mailto |
//!
//! The idempotency key and the message id are not part of it. Lists without elements count as missing.

use crate::{Address, Message, RawMessage};
use hapax_core::Fingerprint;
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// Changing what goes in makes a new version.
const VERSION: u16 = 1;
const MESSAGE: &[u8] = b"hapax mail message 1\0";
const RAW: &[u8] = b"hapax mail envelope 1\0";

/// The fingerprint of a message: its addresses, subject, bodies, header fields, the names and types of its attachments
/// but not their bytes, its threading, schedule, tracking, metadata, tags and way to unsubscribe.
pub fn fingerprint(message: &Message) -> Fingerprint {
    of_message(message, false)
}

/// As [`fingerprint`], with the bytes of the attachments.
pub fn fingerprint_strict(message: &Message) -> Fingerprint {
    of_message(message, true)
}

/// The fingerprint of a raw message: its envelope only.
pub fn fingerprint_raw(raw: &RawMessage) -> Fingerprint {
    let mut record = Record(Vec::new());
    // An address that cannot be read is refused before anything is sent; until then it stands for itself.
    let normal = |text: &str| match text.parse::<Address>() {
        Ok(address) => format!("{}@{}", address.local(), address.ascii_domain()),
        Err(_) => text.to_owned(),
    };
    record.text(1, &normal(&raw.from));
    for recipient in &raw.to {
        record.text(2, &normal(recipient));
    }
    record.finish(RAW)
}

fn of_message(message: &Message, strict: bool) -> Fingerprint {
    let mut record = Record(Vec::with_capacity(1024));
    record.addresses(1, message.from());
    record.addresses(2, message.sender().map(std::slice::from_ref).unwrap_or_default());
    record.addresses(3, message.to());
    record.addresses(4, message.cc());
    record.addresses(5, message.bcc());
    record.addresses(6, message.reply_to());
    record.maybe(7, message.subject());
    record.maybe(8, message.text().map(lf).as_deref());
    record.maybe(9, message.html().map(lf).as_deref());
    for (name, value) in message.headers() {
        record.group(10, |part| {
            part.text(1, &name.to_ascii_lowercase());
            part.text(2, value);
        });
    }
    for attachment in message.attachments() {
        record.group(11, |part| {
            part.maybe(1, attachment.filename());
            part.text(2, attachment.content_type());
            part.maybe(3, attachment.cid());
            if strict {
                part.bytes(4, &Sha256::digest(attachment.bytes()));
            }
        });
    }
    record.maybe(12, message.in_reply_to());
    record.texts(13, message.references());
    if let Some(at) = message.send_at() {
        record.bytes(14, &at.as_millis().to_be_bytes());
    }
    let tracking = message.tracking();
    if tracking.opens.is_some() || tracking.clicks.is_some() {
        record.group(15, |part| {
            for (tag, yes) in [(1, tracking.opens), (2, tracking.clicks)] {
                if let Some(yes) = yes {
                    part.bytes(tag, &[u8::from(yes)]);
                }
            }
        });
    }
    for (name, value) in message.metadata() {
        record.group(16, |part| {
            part.text(1, name);
            part.text(2, value);
        });
    }
    record.texts(17, message.tags());
    if let Some(unsubscribe) = message.unsubscribe() {
        record.group(18, |part| {
            part.maybe(1, unsubscribe.url.as_deref());
            part.maybe(2, unsubscribe.mailto.as_deref());
        });
    }
    record.finish(MESSAGE)
}

/// Editors and transports change line ends; that makes no other message.
fn lf(text: &str) -> Cow<'_, str> {
    if text.contains('\r') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
    } else {
        Cow::Borrowed(text)
    }
}

struct Record(Vec<u8>);

impl Record {
    fn bytes(&mut self, tag: u8, content: &[u8]) {
        self.0.push(tag);
        self.0.extend_from_slice(&(content.len() as u64).to_be_bytes());
        self.0.extend_from_slice(content);
    }

    fn text(&mut self, tag: u8, content: &str) {
        self.bytes(tag, content.as_bytes());
    }

    fn maybe(&mut self, tag: u8, content: Option<&str>) {
        if let Some(content) = content {
            self.text(tag, content);
        }
    }

    fn group(&mut self, tag: u8, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self(Vec::new());
        fill(&mut inner);
        self.bytes(tag, &inner.0);
    }

    fn texts(&mut self, tag: u8, list: &[String]) {
        if !list.is_empty() {
            self.group(tag, |part| list.iter().for_each(|text| part.text(1, text)));
        }
    }

    fn addresses(&mut self, tag: u8, list: &[Address]) {
        for address in list {
            self.group(tag, |part| {
                part.maybe(1, address.name());
                part.text(2, address.local());
                part.text(3, address.ascii_domain());
            });
        }
    }

    fn finish(self, start: &[u8]) -> Fingerprint {
        let hash = Sha256::new().chain_update(start).chain_update(self.0);
        Fingerprint::from_digest(VERSION, hash.finalize().into())
    }
}
