//! `.eml` files: the envelope is what the header says.

use super::{MAX_RAW_BYTES, RawMessage};
use crate::{
    Address,
    address::{Syntax, parse_list},
    message::{Fault, InvalidMessage},
    mime::reader::{self, Field},
};
use std::borrow::Cow;

const UTF8_BOM: &[u8] = b"\xef\xbb\xbf";

impl RawMessage {
    /// Reads a mail from a file. `Sender`, or the first address of `From`, becomes the sender of the envelope; `To`,
    /// `Cc` and `Bcc` its recipients. `Bcc` is removed from the bytes; line ends become CRLF; all else stays as it is.
    pub fn from_eml(bytes: &[u8]) -> Result<Self, InvalidMessage> {
        if bytes.len() > MAX_RAW_BYTES {
            let reason = format!("the mail has {} bytes: {MAX_RAW_BYTES} are the most", bytes.len());
            return Err(Fault::new("", "message.size", reason).into());
        }
        let bytes = with_crlf(bytes.strip_prefix(UTF8_BOM).unwrap_or(bytes));
        let (fields, body) = reader::split(&bytes).map_err(|e| {
            let reason = format!(
                "line {} is no header field: a mail begins with lines such as `From: ada@example.com`",
                e.line
            );
            InvalidMessage::from(Fault::new("", "message.syntax", reason))
        })?;
        let mut faults = Vec::new();
        if fields.iter().any(|field| field.name.to_ascii_lowercase().starts_with(b"resent-")) {
            let reason = "the mail was sent on (it has Resent- fields), so its header does not say where it is to go: \
                          give the envelope yourself";
            faults.push(Fault::new("header", "message.unsupported", reason));
        }
        let author = addresses(&fields, "Sender", &mut faults).into_iter().next();
        let authors = addresses(&fields, "From", &mut faults);
        if authors.is_empty() && faults.is_empty() {
            faults.push(Fault::new(
                "from",
                "message.no_sender",
                "the mail has no From field with an address",
            ));
        }
        if authors.len() > 1 && author.is_none() {
            faults.push(Fault::new("sender", "message.no_sender", "several authors need a Sender field"));
        }
        let from = author.or_else(|| authors.into_iter().next());
        let mut to: Vec<Address> = Vec::new();
        for name in ["To", "Cc", "Bcc"] {
            for address in addresses(&fields, name, &mut faults) {
                if !to.iter().any(|known| known.same_mailbox(&address)) {
                    to.push(address);
                }
            }
        }
        if to.is_empty() && faults.is_empty() {
            faults.push(Fault::new("to", "message.no_recipient", "the mail has no address in To, Cc or Bcc"));
        }
        InvalidMessage::unless_empty(faults)?;
        let raw = Self::new(
            from.map(|address| address.addr_spec()).unwrap_or_default(),
            to.iter().map(Address::addr_spec),
            without_bcc(&fields, body),
        );
        raw.check()?;
        Ok(raw)
    }
}

/// The addresses of every field of that name, in the lenient syntax of mails that are already written.
fn addresses(fields: &[Field<'_>], name: &'static str, faults: &mut Vec<Fault>) -> Vec<Address> {
    let mut found = Vec::new();
    for field in fields.iter().filter(|field| field.is(name)) {
        match parse_list(&field.unfolded(), Syntax::Field) {
            Ok(mut list) => found.append(&mut list),
            Err(e) => faults.push(Fault::new(name.to_ascii_lowercase(), e.code(), e.to_string())),
        }
    }
    found
}

fn without_bcc(fields: &[Field<'_>], body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for field in fields.iter().filter(|field| !field.is("Bcc")) {
        out.extend_from_slice(field.raw);
        if !field.raw.ends_with(b"\r\n") {
            out.extend_from_slice(b"\r\n");
        }
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    if !out.ends_with(b"\r\n") {
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// Every line end as CRLF, bare CR and bare LF too.
fn with_crlf(bytes: &[u8]) -> Cow<'_, [u8]> {
    let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 32);
    let mut before = 0;
    for (i, byte) in bytes.iter().enumerate() {
        match byte {
            b'\n' if before == b'\r' => out.push(b'\n'),
            b'\n' => out.extend_from_slice(b"\r\n"),
            b'\r' if bytes.get(i + 1) != Some(&b'\n') => out.extend_from_slice(b"\r\n"),
            other => out.push(*other),
        }
        before = *byte;
    }
    if out == bytes { Cow::Borrowed(bytes) } else { Cow::Owned(out) }
}
