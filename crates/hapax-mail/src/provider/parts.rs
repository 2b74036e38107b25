//! Messages in the words of providers.

use super::unsupported;
use crate::{Address, Failure, Message};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp as Instant;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// To, Cc and Bcc, each mailbox once: some providers refuse a message that names one twice, others send it twice.
pub(crate) struct Recipients<'a> {
    pub(crate) to: Vec<&'a Address>,
    pub(crate) cc: Vec<&'a Address>,
    pub(crate) bcc: Vec<&'a Address>,
}

impl<'a> Recipients<'a> {
    pub(crate) fn of(message: &'a Message) -> Self {
        let mut seen: Vec<&Address> = Vec::new();
        let mut once = |list: &'a [Address]| -> Vec<&'a Address> {
            let mut kept = Vec::new();
            for address in list {
                if !seen.iter().any(|known| known.same_mailbox(address)) {
                    seen.push(address);
                    kept.push(address);
                }
            }
            kept
        };
        Self { to: once(message.to()), cc: once(message.cc()), bcc: once(message.bcc()) }
    }

    pub(crate) fn len(&self) -> usize {
        self.to.len() + self.cc.len() + self.bcc.len()
    }
}

/// The one author, of whom providers take no more than one.
pub(crate) fn author(message: &Message) -> Result<&Address, Failure> {
    match (message.from(), message.sender()) {
        ([author], None) => Ok(author),
        ([author], Some(sender)) if author.same_mailbox(sender) => Ok(author),
        (_, Some(_)) => Err(unsupported("it takes no `sender` beside the author")),
        _ => Err(unsupported("it takes one author, not several")),
    }
}

/// `Name <address>`.
pub(crate) fn texts(addresses: &[impl AsAddress]) -> Vec<String> {
    addresses.iter().map(|address| address.address().wire_text()).collect()
}

/// `{"email","name"}`.
pub(crate) fn object(address: &Address) -> Value {
    match address.name() {
        Some(name) => json!({ "email": address.wire_form(), "name": name }),
        None => json!({ "email": address.wire_form() }),
    }
}

pub(crate) fn objects(addresses: &[impl AsAddress]) -> Vec<Value> {
    addresses.iter().map(|address| object(address.address())).collect()
}

/// An address, or one that is lent.
pub(crate) trait AsAddress {
    fn address(&self) -> &Address;
}

impl AsAddress for Address {
    fn address(&self) -> &Address {
        self
    }
}

impl AsAddress for &Address {
    fn address(&self) -> &Address {
        self
    }
}

/// The header fields that have no member of their own: threading, how to unsubscribe, the caller's own, and the id where the
/// provider keeps one.
pub(crate) fn headers(message: &Message, message_id: Option<&str>) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut field = |name: &str, value: String| all.push((name.to_owned(), value));
    if let Some(id) = message_id {
        field("Message-ID", id.to_owned());
    }
    if let Some(id) = message.in_reply_to() {
        field("In-Reply-To", id.to_owned());
    }
    if !message.references().is_empty() {
        field("References", message.references().join(" "));
    }
    if let Some(unsubscribe) = message.unsubscribe() {
        let ways = unsubscribe.url.iter().chain(&unsubscribe.mailto);
        field("List-Unsubscribe", ways.map(|way| format!("<{way}>")).collect::<Vec<_>>().join(", "));
        if unsubscribe.one_click() {
            field("List-Unsubscribe-Post", "List-Unsubscribe=One-Click".to_owned());
        }
    }
    for (name, value) in message.headers() {
        field(name, value.to_owned());
    }
    all
}

/// The same as an object, which has each name once.
pub(crate) fn headers_object(
    message: &Message,
    message_id: Option<&str>,
) -> Result<Map<String, Value>, Failure> {
    let mut object = Map::new();
    for (name, value) in headers(message, message_id) {
        if object.keys().any(|known| known.eq_ignore_ascii_case(&name)) {
            return Err(unsupported(format!(
                "it takes a header field once, and `{name}` is given several times"
            )));
        }
        object.insert(name, Value::String(value));
    }
    Ok(object)
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// `2030-01-31T09:00:00Z`.
pub(crate) fn rfc3339(at: hapax_core::Timestamp) -> Option<String> {
    let at = Instant::from_millisecond(at.as_millis()).ok()?;
    Some(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Seconds since 1970.
pub(crate) fn epoch(at: hapax_core::Timestamp) -> i64 {
    at.as_millis().div_euclid(1000)
}

/// Puts a member in, if there is something to say.
pub(crate) fn put(object: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    let value = value.into();
    let empty = match &value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    if !empty {
        object.insert(name.to_owned(), value);
    }
}

/// 64 hex digits that stand for a text.
pub(crate) fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new_with_prefix(b"hapax provider key 2\0");
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hex::encode(hash.finalize())
}

/// A key as a header takes it: as it is where that is possible, else its digest.
pub(crate) fn header_key(key: &str) -> String {
    if (1..=256).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic()) {
        key.to_owned()
    } else {
        digest(&[key])
    }
}

/// A key in the form of a UUID that is made of a name. The digest is SHA-256; the version says 5, because some who read it know
/// no other that is made of names.
pub(crate) fn uuid_key(key: &str) -> String {
    let digest = digest(&["uuid", key]);
    let part = |from: usize, to: usize| digest.get(from..to).unwrap_or_default();
    format!("{}-{}-5{}-8{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_take_the_form_that_a_provider_asks_for() {
        assert_eq!(header_key("welcome:1"), "welcome:1");
        for odd in ["", "ä", "a b", "a\r\nb", &"x".repeat(257)] {
            let key = header_key(odd);
            assert!(key.len() == 64 && key.bytes().all(|b| b.is_ascii_hexdigit()), "{key}");
        }
        let uuid = uuid_key("welcome:1");
        assert_eq!(uuid, uuid_key("welcome:1"));
        assert_ne!(uuid, uuid_key("welcome:2"));
        let lengths: Vec<_> = uuid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert!(
            uuid.split('-').nth(2).unwrap().starts_with('5')
                && uuid.split('-').nth(3).unwrap().starts_with('8')
        );
        assert_ne!(digest(&["a", "bc"]), digest(&["ab", "c"]));
    }

    #[test]
    fn a_mailbox_is_named_once_and_names_are_quoted() {
        let message = Message::builder()
            .from("\"Shop, Inc.\" <shop@bücher.example>")
            .to("Ada <ada@example.com>")
            .to("ADA <ada@EXAMPLE.com>")
            .cc("ada@example.com")
            .bcc("bob@example.com")
            .text("")
            .build()
            .unwrap();
        let recipients = Recipients::of(&message);
        assert_eq!((recipients.to.len(), recipients.cc.len(), recipients.bcc.len()), (1, 0, 1));
        assert_eq!(texts(message.from()), ["\"Shop, Inc.\" <shop@xn--bcher-kva.example>"]);
    }
}
