//! From a message to the bytes that are sent: RFC 5322 and MIME.
//!
//! Encoding and folding are `mail-builder`'s. It was chosen because the whole header can be written field by field and
//! each multipart takes a boundary from outside, so that the same message always gives the same bytes; `Bcc` is never
//! handed to it. What comes out is checked: see [`RenderError`].

mod body;
mod check;
mod frozen;
mod header;
pub(crate) mod reader;

pub use check::RenderError;
pub use frozen::{Frozen, Identity, derive_message_id};

pub(crate) use check::{Rules, check_bytes};
pub(crate) use header::{longest_line, write_date, write_message_id};

use crate::{Address, Message};
use bytes::Bytes;

/// The longest line, without its CRLF: RFC 5322 §2.1.1.
pub(crate) const MAX_LINE: usize = 998;

/// Where a mail comes from and goes to, as SMTP says it: addresses without names, international domains as A-labels.
///
/// `Debug` shows how many recipients there are, no address.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Envelope {
    /// The sender, or the first author.
    pub from: String,
    /// To, Cc and Bcc in this order, each mailbox once.
    pub to: Vec<String>,
    /// Whether an address needs a server with SMTPUTF8.
    pub smtputf8: bool,
}

impl std::fmt::Debug for Envelope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Envelope")
            .field("to", &self.to.len())
            .field("smtputf8", &self.smtputf8)
            .finish_non_exhaustive()
    }
}

/// The envelope of a message.
pub fn envelope(message: &Message) -> Envelope {
    let from =
        message.sender().or_else(|| message.from().first()).map(Address::wire_form).unwrap_or_default();
    let mut to: Vec<&Address> = Vec::new();
    for address in message.recipients() {
        if !to.iter().any(|known| known.same_mailbox(address)) {
            to.push(address);
        }
    }
    Envelope {
        from,
        to: to.into_iter().map(Address::wire_form).collect(),
        smtputf8: message.needs_smtputf8(),
    }
}

/// The bytes of a message. The same message and the same [`Frozen`] give the same bytes.
pub fn render(message: &Message, frozen: &Frozen) -> Result<Bytes, RenderError> {
    frozen.check()?;
    let text = [message.text(), message.html()].into_iter().flatten().map(str::len).sum::<usize>();
    let mut out = Vec::with_capacity(1024 + text + text / 16);
    header::write(message, frozen, &mut out);
    let body = out.len();
    let boundaries = body::write(message, &frozen.boundary_seed, &mut out);
    if !out.ends_with(b"\r\n") {
        out.extend_from_slice(b"\r\n");
    }
    check_bytes(&out, &Rules { utf8_header: message.needs_smtputf8(), ascii_body: true })?;
    check::check_boundaries(out.get(body..).unwrap_or_default(), &frozen.boundary_seed, boundaries)?;
    Ok(out.into())
}
