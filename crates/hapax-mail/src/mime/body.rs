//! The body of a mail: text, HTML with what it shows, attachments.
//!
//! ```text
//! mixed ─┬─ alternative ─┬─ text/plain
//!        │               └─ related ─┬─ text/html
//!        │                           └─ inline attachments …
//!        └─ attachments …
//! ```
//!
//! A level with one part is left out.

use crate::{
    Attachment, Message,
    message::{MediaType, media_type},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use mail_builder::{
    headers::{HeaderType, content_type::ContentType, message_id::MessageId, raw::Raw},
    mime::{BodyPart, MimePart},
};
use memchr::{memchr, memchr_iter, memchr2_iter};
use std::borrow::Cow;

/// Writes the body, its `Content-Type` first. Answers how many boundary lines there have to be.
pub(super) fn write(message: &Message, seed: &str, out: &mut Vec<u8>) -> usize {
    let mut tree = Tree { seed, multiparts: 0, boundary_lines: 0 };
    let (inline, attached): (Vec<_>, Vec<_>) = message.attachments().iter().partition(|a| a.cid().is_some());

    let text = message.text().map(|text| text_part("text/plain", text));
    let html = message.html().map(|html| {
        let shown = inline.iter().map(|a| attachment(a));
        tree.wrap("related", std::iter::once(text_part("text/html", html)).chain(shown).collect())
    });
    let content = tree.wrap("alternative", text.into_iter().chain(html).collect());
    let whole =
        tree.wrap("mixed", std::iter::once(content).chain(attached.iter().map(|a| attachment(a))).collect());
    whole.write_part(out);
    tree.boundary_lines
}

struct Tree<'a> {
    seed: &'a str,
    multiparts: usize,
    boundary_lines: usize,
}

impl Tree<'_> {
    /// One part stays as it is; several become a multipart.
    fn wrap<'x>(&mut self, kind: &str, mut parts: Vec<MimePart<'x>>) -> MimePart<'x> {
        if parts.len() == 1
            && let Some(only) = parts.pop()
        {
            return only;
        }
        self.multiparts += 1;
        self.boundary_lines += parts.len() + 1;
        // `=_` stands in no quoted-printable and no base64 text.
        let boundary = format!("=_{}_{}", self.seed, self.multiparts);
        MimePart::new(ContentType::new(format!("multipart/{kind}")).attribute("boundary", boundary), parts)
    }
}

fn text_part<'x>(kind: &'static str, text: &'x str) -> MimePart<'x> {
    MimePart::new(ContentType::new(kind).attribute("charset", "utf-8"), crlf(text))
}

/// Every line end as CRLF: bare CR and bare LF count as line ends too.
pub(super) fn crlf(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    if memchr(b'\r', bytes).is_none() {
        return only_lf(text);
    }
    let is_bare = |at: &usize| match bytes.get(*at) {
        Some(b'\n') => at.checked_sub(1).and_then(|before| bytes.get(before)) != Some(&b'\r'),
        _ => bytes.get(at + 1) != Some(&b'\n'),
    };
    let mut bare = memchr2_iter(b'\r', b'\n', bytes).filter(is_bare).peekable();
    if bare.peek().is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    let mut copied = 0;
    for at in bare {
        out.push_str(text.get(copied..at).unwrap_or_default());
        out.push_str("\r\n");
        copied = at + 1;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

/// The same for text without CR, as most is.
fn only_lf(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    for at in memchr_iter(b'\n', text.as_bytes()) {
        if out.is_empty() {
            out.reserve_exact(text.len() + text.len() / 16 + 16);
        }
        out.push_str(text.get(copied..at).unwrap_or_default());
        out.push_str("\r\n");
        copied = at + 1;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

fn attachment(attachment: &Attachment) -> MimePart<'_> {
    let media = media_type(attachment.content_type())
        .unwrap_or(MediaType { essence: "application/octet-stream".to_owned(), parameters: Vec::new() });
    let embedded = media.essence.starts_with("message/");
    let content_type = ContentType { c_type: media.essence.into(), attributes: owned(media.parameters) };
    let kind = if attachment.cid().is_some() { "inline" } else { "attachment" };
    let mut disposition = ContentType::new(kind);
    if let Some(name) = attachment.filename() {
        disposition = disposition.attribute("filename", name);
    }
    let mut headers: Vec<(Cow<'_, str>, HeaderType<'_>)> = vec![("Content-Type".into(), content_type.into())];
    if let Some(cid) = attachment.cid() {
        headers.push(("Content-ID".into(), MessageId::new(cid).into()));
    }
    headers.push(("Content-Disposition".into(), disposition.into()));
    // Named, so that the bytes are taken as they stand: text would be given other line ends.
    let encoding = if embedded { "7bit" } else { "base64" };
    headers.push(("Content-Transfer-Encoding".into(), Raw::new(encoding).into()));
    let contents = if embedded { seven_bit(attachment.bytes()) } else { base64_lines(attachment.bytes()) };
    MimePart { headers, contents: BodyPart::Binary(contents.into()) }
}

fn owned<'x>(parameters: Vec<(String, String)>) -> Vec<(Cow<'x, str>, Cow<'x, str>)> {
    parameters.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// An attached mail: no encoding is allowed for it. It was checked to be ASCII with short lines.
fn seven_bit(bytes: &[u8]) -> Vec<u8> {
    crlf(&String::from_utf8_lossy(bytes)).into_owned().into_bytes()
}

fn base64_lines(bytes: &[u8]) -> Vec<u8> {
    const LINE: usize = 57; // 76 characters
    let mut out = String::with_capacity(bytes.len().div_ceil(LINE) * 78);
    for line in bytes.chunks(LINE) {
        STANDARD.encode_string(line, &mut out);
        out.push_str("\r\n");
    }
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_become_crlf() {
        assert!(matches!(crlf("a\r\nb\r\n"), Cow::Borrowed(_)));
        assert_eq!(crlf("a\nb\rc\r\nd\n\r\n\r"), "a\r\nb\r\nc\r\nd\r\n\r\n\r\n");
        assert_eq!(crlf("é\r\r\né\n"), "é\r\n\r\né\r\n");
        assert_eq!(crlf("\n"), "\r\n");
        assert_eq!(crlf("\r"), "\r\n");
        assert_eq!(crlf(""), "");
    }

    #[test]
    fn base64_lines_are_short() {
        let text = String::from_utf8(base64_lines(&[7; 200])).unwrap();
        assert!(text.lines().all(|line| line.len() <= 76));
        assert!(text.ends_with("\r\n"));
        assert_eq!(STANDARD.decode(text.replace("\r\n", "")).unwrap(), [7; 200]);
        assert!(base64_lines(b"").is_empty());
    }
}
