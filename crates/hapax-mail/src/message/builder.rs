//! What a message is made from.

use super::{Attachment, Fault, InvalidMessage, Message, Tracking, Unsubscribe, check};
use bytes::Bytes;
use hapax_core::Timestamp;
use std::fmt;

/// Collects the parts of a [`Message`]. Nothing is checked before [`build`](Self::build), which reports every fault at
/// once.
///
/// Each address is a string of its own, `"Ada <ada@example.com>"` or `"ada@example.com"`, or an
/// [`Address`](crate::Address); `to`, `cc`, `bcc`, `reply_to` and `from` add one at each call.
#[must_use = "call `.build()`"]
#[derive(Clone, Default)]
pub struct MessageBuilder {
    pub(super) from: Vec<String>,
    pub(super) sender: Option<String>,
    pub(super) to: Vec<String>,
    pub(super) cc: Vec<String>,
    pub(super) bcc: Vec<String>,
    pub(super) reply_to: Vec<String>,
    pub(super) subject: Option<String>,
    pub(super) text: Option<String>,
    pub(super) html: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) attachments: Vec<Attachment>,
    pub(super) in_reply_to: Option<String>,
    pub(super) references: Vec<String>,
    pub(super) metadata: Vec<(String, String)>,
    pub(super) tags: Vec<String>,
    pub(super) send_at: Option<Timestamp>,
    pub(super) tracking: Tracking,
    pub(super) unsubscribe: Option<Unsubscribe>,
    pub(super) idempotency_key: Option<String>,
    pub(super) message_id: Option<String>,
}

impl MessageBuilder {
    /// Adds an author. Several need a [`sender`](Self::sender).
    pub fn from(mut self, address: impl Into<String>) -> Self {
        self.from.push(address.into());
        self
    }

    /// Who sends it, where that is not the author.
    pub fn sender(mut self, address: impl Into<String>) -> Self {
        self.sender = Some(address.into());
        self
    }

    /// Adds a recipient.
    pub fn to(mut self, address: impl Into<String>) -> Self {
        self.to.push(address.into());
        self
    }

    /// Adds a recipient of a copy.
    pub fn cc(mut self, address: impl Into<String>) -> Self {
        self.cc.push(address.into());
        self
    }

    /// Adds a recipient whom the others do not see.
    pub fn bcc(mut self, address: impl Into<String>) -> Self {
        self.bcc.push(address.into());
        self
    }

    /// Adds an address for answers.
    pub fn reply_to(mut self, address: impl Into<String>) -> Self {
        self.reply_to.push(address.into());
        self
    }

    /// The subject, as plain text.
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// The plain text.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// The HTML.
    pub fn html(mut self, html: impl Into<String>) -> Self {
        self.html = Some(html.into());
        self
    }

    /// Adds a header field of your own. Fields that the message has a place for (`From`, `Message-ID`, `Content-…`) are
    /// refused here.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds a file.
    pub fn attach(
        self,
        filename: impl Into<String>,
        content_type: impl Into<String>,
        bytes: impl Into<Bytes>,
    ) -> Self {
        self.attachment(Attachment::new(filename, content_type, bytes))
    }

    /// Adds an attachment made elsewhere, such as an [inline](Attachment::inline) one.
    pub fn attachment(mut self, attachment: Attachment) -> Self {
        self.attachments.push(attachment);
        self
    }

    /// The `Message-ID` of the mail that this one answers.
    pub fn in_reply_to(mut self, id: impl Into<String>) -> Self {
        self.in_reply_to = Some(id.into());
        self
    }

    /// Adds a `Message-ID` of the thread, oldest first.
    pub fn reference(mut self, id: impl Into<String>) -> Self {
        self.references.push(id.into());
        self
    }

    /// Adds data of your own, for providers that keep it.
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.push((name.into(), value.into()));
        self
    }

    /// Adds a label, for providers that keep them.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// When to send it, for providers that schedule.
    pub fn send_at(mut self, at: Timestamp) -> Self {
        self.send_at = Some(at);
        self
    }

    /// Whether a provider may count opens.
    pub fn track_opens(mut self, yes: bool) -> Self {
        self.tracking.opens = Some(yes);
        self
    }

    /// Whether a provider may count clicks.
    pub fn track_clicks(mut self, yes: bool) -> Self {
        self.tracking.clicks = Some(yes);
        self
    }

    /// Where a reader gets off the list: with an https URL in one click.
    pub fn unsubscribe_url(mut self, url: impl Into<String>) -> Self {
        self.unsubscribe.get_or_insert_default().url = Some(url.into());
        self
    }

    /// Where a reader gets off the list by mail: an address or a `mailto:`.
    pub fn unsubscribe_mailto(mut self, mailto: impl Into<String>) -> Self {
        self.unsubscribe.get_or_insert_default().mailto = Some(mailto.into());
        self
    }

    /// The key under which it is sent once.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// A `Message-ID` of your own. Without one it is made when the message is first sent.
    pub fn message_id(mut self, id: impl Into<String>) -> Self {
        self.message_id = Some(id.into());
        self
    }

    /// Checks everything and reports every fault at once.
    pub fn build(self) -> Result<Message, InvalidMessage> {
        self.build_after(Vec::new())
    }

    /// As [`build`](Self::build), with faults that were found before. What they say of a field is not said again.
    pub(super) fn build_after(self, mut faults: Vec<Fault>) -> Result<Message, InvalidMessage> {
        let mut more = Vec::new();
        let message = check::message(self, &mut more);
        more.retain(|fault| faults.iter().all(|known| known.field != fault.field));
        faults.append(&mut more);
        InvalidMessage::unless_empty(faults)?;
        Ok(message)
    }
}

impl fmt::Debug for MessageBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageBuilder")
            .field("recipients", &(self.to.len() + self.cc.len() + self.bcc.len()))
            .field("attachments", &self.attachments.len())
            .finish_non_exhaustive()
    }
}
