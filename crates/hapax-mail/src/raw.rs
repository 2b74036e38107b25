//! Mails that are already bytes, with an envelope of their own.

mod eml;
mod render;

use crate::{
    Address,
    message::{Fault, InvalidMessage, MAX_RECIPIENTS},
    mime::{self, RenderError, Rules},
};
use bytes::Bytes;
use hapax_core::Coded as _;
use std::fmt;

/// The most bytes of a raw mail: what [`MAX_CONTENT_BYTES`](crate::message::MAX_CONTENT_BYTES) allows, encoded.
pub const MAX_RAW_BYTES: usize = 60 * 1024 * 1024;

/// A mail as bytes and the envelope to send it with. The bytes are sent as they are, so nothing about them is mended:
/// [`check`](Self::check) says what is wrong, and transports refuse what it refuses.
///
/// `Debug` shows sizes alone.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RawMessage {
    /// Where it comes from; empty for a notice that must not be answered.
    pub from: String,
    /// Where it goes.
    pub to: Vec<String>,
    /// Header and body, with CRLF at every line end.
    pub bytes: Bytes,
    /// The key under which it is sent once.
    pub idempotency_key: Option<String>,
}

impl RawMessage {
    /// A mail and its envelope.
    pub fn new<R: Into<String>>(
        from: impl Into<String>,
        to: impl IntoIterator<Item = R>,
        bytes: impl Into<Bytes>,
    ) -> Self {
        Self {
            from: from.into(),
            to: to.into_iter().map(Into::into).collect(),
            bytes: bytes.into(),
            idempotency_key: None,
        }
    }

    /// The key under which it is sent once.
    #[must_use]
    pub fn with_idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Whether it may be sent: the addresses, one recipient at least, and bytes without NUL, bare line ends, lines over
    /// 998 bytes and `Bcc`. Reports every fault of the envelope and the first of the bytes.
    pub fn check(&self) -> Result<(), InvalidMessage> {
        let mut faults = Vec::new();
        if !self.from.is_empty() {
            address("from".to_owned(), &self.from, &mut faults);
        }
        for (i, recipient) in self.to.iter().enumerate() {
            address(format!("to[{i}]"), recipient, &mut faults);
        }
        if self.to.is_empty() {
            faults.push(Fault::new("to", "message.no_recipient", "the envelope has no recipient"));
        }
        if self.to.len() > MAX_RECIPIENTS {
            let reason = format!("{} recipients were given: {MAX_RECIPIENTS} are the most", self.to.len());
            faults.push(Fault::new("to", "message.size", reason));
        }
        if self.idempotency_key.as_deref().is_some_and(|key| hapax_core::Key::new(key).is_err()) {
            let reason = "a key is 1 byte to 64 KiB of text";
            faults.push(Fault::new("idempotency_key", "message.idempotency_key", reason));
        }
        if self.bytes.len() > MAX_RAW_BYTES {
            let reason = format!("the mail has {} bytes: {MAX_RAW_BYTES} are the most", self.bytes.len());
            faults.push(Fault::new("bytes", "message.size", reason));
        } else if let Err(e) = self.check_bytes() {
            faults.push(bytes_fault(&e));
        }
        InvalidMessage::unless_empty(faults)
    }

    /// The envelope as SMTP says it: international domains as A-labels, each mailbox once.
    pub fn envelope(&self) -> Result<mime::Envelope, InvalidMessage> {
        let mut faults = Vec::new();
        let mut to: Vec<Address> = Vec::new();
        for (i, recipient) in self.to.iter().enumerate() {
            if let Some(address) = address(format!("to[{i}]"), recipient, &mut faults)
                && !to.iter().any(|known| known.same_mailbox(&address))
            {
                to.push(address);
            }
        }
        let from =
            if self.from.is_empty() { None } else { address("from".to_owned(), &self.from, &mut faults) };
        InvalidMessage::unless_empty(faults)?;
        let smtputf8 = self.has_utf8_header() || to.iter().chain(&from).any(Address::needs_smtputf8);
        let from = from.map(|address| address.wire_form()).unwrap_or_default();
        Ok(mime::Envelope { from, to: to.iter().map(Address::wire_form).collect(), smtputf8 })
    }

    /// The domain that the mail comes from, for an id made for it.
    pub fn from_domain(&self) -> Option<String> {
        self.from.parse::<Address>().ok().map(|address| address.ascii_domain().to_owned())
    }

    fn check_bytes(&self) -> Result<(), RenderError> {
        mime::check_bytes(&self.bytes, &Rules { utf8_header: true, ascii_body: false })
    }

    fn has_utf8_header(&self) -> bool {
        mime::reader::split(&self.bytes)
            .is_ok_and(|(fields, _)| fields.iter().any(|field| !field.raw.is_ascii()))
    }
}

impl fmt::Debug for RawMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawMessage")
            .field("recipients", &self.to.len())
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

fn bytes_fault(e: &RenderError) -> Fault {
    let code = match e {
        RenderError::LongLine { .. } => "message.size",
        RenderError::NoField { .. } | RenderError::Count { .. } => "message.header",
        RenderError::BareLineEnd { .. } | RenderError::Nul { .. } | RenderError::NotAscii { .. } => {
            "message.encoding"
        }
        other => other.code(),
    };
    Fault::new("bytes", code, e.to_string())
}

fn address(field: String, text: &str, faults: &mut Vec<Fault>) -> Option<Address> {
    Address::new(None, text).map_err(|e| faults.push(Fault::new(field, e.code(), e.to_string()))).ok()
}
