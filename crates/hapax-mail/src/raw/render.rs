//! The bytes of a raw mail as they are sent.

use super::RawMessage;
use crate::mime::{self, Frozen, RenderError, reader};
use bytes::Bytes;

impl RawMessage {
    /// The `Message-ID` in the bytes, as it stands there.
    pub fn message_id(&self) -> Option<String> {
        self.field("Message-ID").filter(|id| !id.is_empty())
    }

    /// The bytes to send: checked, with a `Message-ID` and a `Date` before them where they have none. Servers refuse
    /// mails without these, and an id that is made anew for each attempt would hide that two mails are one.
    pub fn render(&self, frozen: &Frozen) -> Result<Bytes, RenderError> {
        self.check_bytes()?;
        let (id, date) = (self.message_id().is_none(), self.field("Date").is_none());
        if !id && !date && self.bytes.ends_with(b"\r\n") {
            return Ok(self.bytes.clone());
        }
        let mut out = Vec::with_capacity(self.bytes.len() + 256);
        if date {
            mime::write_date(frozen.date, &mut out);
        }
        if id {
            frozen.check_id()?;
            mime::write_message_id(&frozen.message_id, &mut out);
        }
        // An empty id field was in the way: two of them would be one too many.
        if id && self.field("Message-ID").is_some() {
            return Err(RenderError::BadMessageId);
        }
        out.extend_from_slice(&self.bytes);
        if !out.ends_with(b"\r\n") {
            out.extend_from_slice(b"\r\n");
        }
        Ok(out.into())
    }

    fn field(&self, name: &str) -> Option<String> {
        let (fields, _) = reader::split(&self.bytes).ok()?;
        fields.iter().find(|field| field.is(name)).map(reader::Field::unfolded)
    }
}
