//! Messages: checked once, when they are built, and immutable from then on.

mod attachment;
mod builder;
mod check;
mod codes;
mod fault;
mod files;
mod header;
mod ids;
mod json;
mod unsubscribe;

pub use attachment::Attachment;
pub use builder::MessageBuilder;
pub use check::{MAX_CONTENT_BYTES, MAX_RECIPIENTS};
pub use codes::MESSAGE_CODES;
pub use fault::{Fault, InvalidMessage};
pub use files::Stamp;
pub use json::{MAX_LINE_BYTES, MessageJson};
pub use unsubscribe::Unsubscribe;

pub(crate) use attachment::{MediaType, media_type};
pub(crate) use header::looks_encoded;

use crate::Address;
use hapax_core::{Key, Timestamp};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// A validated, immutable message. Cheap to clone.
///
/// `Debug` shows sizes and counts, never addresses or text.
#[derive(Clone)]
pub struct Message {
    parts: Arc<Parts>,
    key: Option<Key>,
}

#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) from: Vec<Address>,
    pub(crate) sender: Option<Address>,
    pub(crate) to: Vec<Address>,
    pub(crate) cc: Vec<Address>,
    pub(crate) bcc: Vec<Address>,
    pub(crate) reply_to: Vec<Address>,
    pub(crate) subject: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) html: Option<String>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) in_reply_to: Option<String>,
    pub(crate) references: Vec<String>,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) tags: Vec<String>,
    pub(crate) send_at: Option<Timestamp>,
    pub(crate) tracking: Tracking,
    pub(crate) unsubscribe: Option<Unsubscribe>,
    pub(crate) message_id: Option<String>,
}

/// Whether a provider may count opens and clicks. What is not said is left to the provider.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub struct Tracking {
    /// Opens.
    pub opens: Option<bool>,
    /// Clicks.
    pub clicks: Option<bool>,
}

impl Message {
    /// Starts a message. [`build`](MessageBuilder::build) checks it and reports every fault at once.
    pub fn builder() -> MessageBuilder {
        MessageBuilder::default()
    }

    /// Reads one line of a JSON Lines file: see [`MessageJson`].
    pub fn from_json_line(line: &str) -> Result<MessageJson, InvalidMessage> {
        MessageJson::from_line(line)
    }

    pub(crate) fn from_parts(parts: Parts, key: Option<Key>) -> Self {
        Self { parts: Arc::new(parts), key }
    }

    /// The same message under another key.
    pub fn with_idempotency_key(&self, key: &str) -> Result<Self, InvalidMessage> {
        let key = check::idempotency_key(key).map_err(InvalidMessage::from)?;
        Ok(Self { parts: Arc::clone(&self.parts), key: Some(key) })
    }

    pub(crate) fn under(&self, key: Key) -> Self {
        Self { parts: Arc::clone(&self.parts), key: Some(key) }
    }

    /// The key under which it is sent once.
    pub fn idempotency_key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    /// Who wrote it: one at least.
    pub fn from(&self) -> &[Address] {
        &self.parts.from
    }

    /// Who sent it, where that is not the author.
    pub fn sender(&self) -> Option<&Address> {
        self.parts.sender.as_ref()
    }

    /// The recipients shown to all.
    pub fn to(&self) -> &[Address] {
        &self.parts.to
    }

    /// The recipients shown to all as copies.
    pub fn cc(&self) -> &[Address] {
        &self.parts.cc
    }

    /// The recipients shown to nobody.
    pub fn bcc(&self) -> &[Address] {
        &self.parts.bcc
    }

    /// Where answers go.
    pub fn reply_to(&self) -> &[Address] {
        &self.parts.reply_to
    }

    /// The subject.
    pub fn subject(&self) -> Option<&str> {
        self.parts.subject.as_deref()
    }

    /// The plain text.
    pub fn text(&self) -> Option<&str> {
        self.parts.text.as_deref()
    }

    /// The HTML.
    pub fn html(&self) -> Option<&str> {
        self.parts.html.as_deref()
    }

    /// Header fields of the caller's own, in order.
    pub fn headers(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Attachments, inline ones too, in order.
    pub fn attachments(&self) -> &[Attachment] {
        &self.parts.attachments
    }

    /// The message this answers, `<id@domain>`.
    pub fn in_reply_to(&self) -> Option<&str> {
        self.parts.in_reply_to.as_deref()
    }

    /// The thread, oldest first, each `<id@domain>`.
    pub fn references(&self) -> &[String] {
        &self.parts.references
    }

    /// The caller's own data, for providers that keep it.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.parts.metadata
    }

    /// Labels, for providers that keep them.
    pub fn tags(&self) -> &[String] {
        &self.parts.tags
    }

    /// When a provider that schedules should send it.
    pub fn send_at(&self) -> Option<Timestamp> {
        self.parts.send_at
    }

    /// Whether opens and clicks may be counted.
    pub fn tracking(&self) -> Tracking {
        self.parts.tracking
    }

    /// How the reader gets off the list.
    pub fn unsubscribe(&self) -> Option<&Unsubscribe> {
        self.parts.unsubscribe.as_ref()
    }

    /// The caller's own `Message-ID`, `<id@domain>`.
    pub fn message_id(&self) -> Option<&str> {
        self.parts.message_id.as_deref()
    }

    /// To, Cc and Bcc, in this order.
    pub fn recipients(&self) -> impl Iterator<Item = &Address> {
        self.parts.to.iter().chain(&self.parts.cc).chain(&self.parts.bcc)
    }

    /// Whether only a server with SMTPUTF8 can take it: an address has a local part that is not ASCII.
    pub fn needs_smtputf8(&self) -> bool {
        self.parts
            .from
            .iter()
            .chain(&self.parts.sender)
            .chain(&self.parts.reply_to)
            .any(Address::needs_smtputf8)
            || self.recipients().any(Address::needs_smtputf8)
    }

    /// The same without those recipients.
    pub(crate) fn without_recipients(&self, leaves_out: impl Fn(&Address) -> bool) -> Self {
        let mut parts = Parts::clone(&self.parts);
        for list in [&mut parts.to, &mut parts.cc, &mut parts.bcc] {
            list.retain(|address| !leaves_out(address));
        }
        Self::from_parts(parts, self.key.clone())
    }

    /// The message with the bytes of its attachments, which replace the place holders a JSON line left.
    fn with_attachments(self, attachments: Vec<Attachment>) -> Self {
        let Self { parts, key } = self;
        Self::from_parts(Parts { attachments, ..Arc::unwrap_or_clone(parts) }, key)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |text: Option<&str>| text.map(str::len);
        f.debug_struct("Message")
            .field("key", &self.key)
            .field("recipients", &self.recipients().count())
            .field("subject_bytes", &size(self.subject()))
            .field("text_bytes", &size(self.text()))
            .field("html_bytes", &size(self.html()))
            .field("headers", &self.parts.headers.len())
            .field("attachments", &self.parts.attachments.len())
            .finish_non_exhaustive()
    }
}

impl From<&Self> for Message {
    fn from(message: &Self) -> Self {
        message.clone()
    }
}
