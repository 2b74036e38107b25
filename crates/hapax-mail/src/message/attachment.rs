//! Attachments: names, types, content ids.

use super::{Fault, looks_encoded};
use bytes::Bytes;
use std::fmt;

const MAX_FILENAME: usize = 255;
const MAX_CID: usize = 200;

/// A file that goes with a message. It is checked when the message is built. `Debug` shows its type and size alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Attachment {
    pub(crate) filename: Option<String>,
    pub(crate) content_type: String,
    pub(crate) bytes: Bytes,
    pub(crate) cid: Option<String>,
}

impl Attachment {
    /// A file to be saved by the reader.
    pub fn new(
        filename: impl Into<String>,
        content_type: impl Into<String>,
        bytes: impl Into<Bytes>,
    ) -> Self {
        Self {
            filename: Some(filename.into()),
            content_type: content_type.into(),
            bytes: bytes.into(),
            cid: None,
        }
    }

    /// An image, or whatever the HTML shows as `cid:ID`.
    pub fn inline(cid: impl Into<String>, content_type: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        Self { filename: None, content_type: content_type.into(), bytes: bytes.into(), cid: Some(cid.into()) }
    }

    /// Gives an inline one a name too, for readers that save it.
    #[must_use]
    pub fn with_filename(mut self, filename: impl Into<String>) -> Self {
        self.filename = Some(filename.into());
        self
    }

    /// Makes it an inline one.
    #[must_use]
    pub fn with_cid(mut self, cid: impl Into<String>) -> Self {
        self.cid = Some(cid.into());
        self
    }

    /// Its name.
    pub fn filename(&self) -> Option<&str> {
        self.filename.as_deref()
    }

    /// Its media type, with parameters if any.
    pub fn content_type(&self) -> &str {
        &self.content_type
    }

    /// What is in it.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The id by which the HTML shows it.
    pub fn cid(&self) -> Option<&str> {
        self.cid.as_deref()
    }

    /// Checks all but the bytes; the type is brought to its usual spelling.
    pub(super) fn check(&mut self, index: usize, faults: &mut Vec<Fault>) {
        let mut refuse = |part: &str, code, reason: &str| {
            faults.push(Fault::new(format!("attachments[{index}].{part}"), code, reason));
        };
        match &self.filename {
            None if self.cid.is_none() => refuse("filename", "message.attachment", "it is missing"),
            None => {}
            Some(name) => {
                if let Err((code, reason)) = check_filename(name) {
                    refuse("filename", code, reason);
                }
            }
        }
        match media_type(&self.content_type) {
            Ok(media) if media.essence.starts_with("multipart/") => {
                refuse("content_type", "message.attachment", "a multipart is no attachment");
            }
            Ok(media) => self.content_type = media.to_string(),
            Err(reason) => refuse(
                "content_type",
                if reason == LINE_BREAK { INJECTION } else { "message.attachment" },
                reason,
            ),
        }
        if let Some(cid) = &self.cid {
            if cid.contains(['\r', '\n']) {
                refuse("cid", INJECTION, LINE_BREAK);
            } else if cid.starts_with("cid:") {
                refuse("cid", "message.attachment", "leave `cid:` out: only the HTML has it");
            } else if cid.is_empty()
                || cid.len() > MAX_CID
                || !cid.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'<' | b'>' | b'"' | b'\\'))
            {
                refuse(
                    "cid",
                    "message.attachment",
                    "an id is 1 to 200 printable ASCII characters without spaces, quotes and brackets",
                );
            }
        }
    }

    /// What only the bytes can tell: an attached mail is sent as it is, since no other encoding is allowed for it.
    pub(super) fn check_bytes(&self, index: usize, faults: &mut Vec<Fault>) {
        if self.content_type.starts_with("message/") && !is_seven_bit(&self.bytes) {
            let reason = "a mail as attachment has to be ASCII with lines of 998 bytes at most; \
                          give it the type `application/octet-stream` to send it all the same";
            faults.push(Fault::new(format!("attachments[{index}]"), "message.attachment", reason));
        }
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment")
            .field(
                "content_type",
                &media_type(&self.content_type).map(|media| media.essence).unwrap_or_default(),
            )
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

const INJECTION: &str = "message.header_injection";
const LINE_BREAK: &str = "it holds a line break";

fn check_filename(name: &str) -> Result<(), (&'static str, &'static str)> {
    const CODE: &str = "message.attachment";
    if name.contains(['\r', '\n']) {
        return Err((INJECTION, LINE_BREAK));
    }
    if name.trim().is_empty() {
        return Err((CODE, "it is empty"));
    }
    if name.len() > MAX_FILENAME {
        return Err((CODE, "it is longer than 255 bytes"));
    }
    if name.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) {
        return Err((CODE, "it holds a control character"));
    }
    if name.contains(['/', '\\']) {
        return Err((CODE, "give the name alone, without a folder"));
    }
    if looks_encoded(name) {
        return Err((CODE, "it is already encoded (`=?…?=`): give it as plain text"));
    }
    Ok(())
}

fn is_seven_bit(bytes: &[u8]) -> bool {
    bytes.is_ascii()
        && !bytes.contains(&0)
        && bytes.split(|b| matches!(b, b'\r' | b'\n')).all(|line| line.len() <= crate::mime::MAX_LINE)
}

/// `type/subtype; name=value`, in lower case but for the values.
pub(crate) struct MediaType {
    pub(crate) essence: String,
    pub(crate) parameters: Vec<(String, String)>,
}

impl fmt::Display for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.essence)?;
        for (name, value) in &self.parameters {
            write!(f, "; {name}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))?;
        }
        Ok(())
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 127
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+*'%`|~".contains(&b))
}

/// Reads a media type.
pub(crate) fn media_type(text: &str) -> Result<MediaType, &'static str> {
    const FORM: &str = "a type is written `image/png`, with parameters as in `text/csv; charset=utf-8`";
    if text.contains(['\r', '\n']) {
        return Err(LINE_BREAK);
    }
    let (essence, mut rest) = text.split_once(';').unwrap_or((text, ""));
    let essence = essence.trim().to_ascii_lowercase();
    match essence.split_once('/') {
        Some((kind, sub)) if is_token(kind) && is_token(sub) => {}
        _ => return Err(FORM),
    }
    let mut parameters: Vec<(String, String)> = Vec::new();
    while !rest.trim().is_empty() {
        let (name, tail) = rest.split_once('=').ok_or(FORM)?;
        let name = name.trim().to_ascii_lowercase();
        if !is_token(&name)
            || name.contains(['*', '\'', '%'])
            || parameters.iter().any(|(known, _)| *known == name)
        {
            return Err(FORM);
        }
        if matches!(name.as_str(), "name" | "boundary") {
            return Err("leave the parameters `name` and `boundary` out: the file name is given apart");
        }
        let tail = tail.trim_start();
        let (value, after) = if let Some(quoted) = tail.strip_prefix('"') {
            unquote(quoted).ok_or(FORM)?
        } else {
            let (token, after) = tail.split_at(tail.find(';').unwrap_or(tail.len()));
            (token.trim().to_owned(), after)
        };
        if value.is_empty() || value.len() > 200 || !value.bytes().all(|b| b.is_ascii_graphic() || b == b' ')
        {
            return Err(FORM);
        }
        parameters.push((name, value));
        rest = match after.trim_start() {
            "" => "",
            more => more.strip_prefix(';').ok_or(FORM)?,
        };
    }
    Ok(MediaType { essence, parameters })
}

/// The text up to the closing quote, and what follows it.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => value.push(chars.next()?.1),
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(mut attachment: Attachment) -> Vec<String> {
        let mut faults = Vec::new();
        attachment.check(0, &mut faults);
        attachment.check_bytes(0, &mut faults);
        faults.iter().map(|fault| format!("{} {}", fault.field, fault.code)).collect()
    }

    #[test]
    fn media_types_are_read() {
        assert_eq!(media_type("Image/PNG").unwrap().to_string(), "image/png");
        assert_eq!(
            media_type("text/csv; Charset=\"utf-8\"; header=present").unwrap().to_string(),
            "text/csv; charset=\"utf-8\"; header=\"present\""
        );
        assert_eq!(
            media_type("a/b; c=\"d;\\\"e\\\\\"").unwrap().parameters,
            [("c".to_owned(), "d;\"e\\".to_owned())]
        );
        for bad in [
            "",
            "text",
            "text/",
            "/plain",
            "text/plain/x",
            "te xt/plain",
            "a/b;c",
            "a/b; c=",
            "a/b; c=\"d",
            "a/b; c=d; c=e",
            "a/b; name=x",
            "a/b; boundary=x",
            "é/b",
            "a/b; c=é",
            "a/b\r\nX: y",
            "a/b; c*0=d",
            "a/b; c=\"d\" e=f",
        ] {
            assert!(media_type(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_and_ids_are_checked() {
        assert_eq!(codes(Attachment::new("über, alles \"1\".pdf", "application/pdf", "x")), [""; 0]);
        assert_eq!(codes(Attachment::inline("logo@example.com", "image/png", "x")), [""; 0]);
        for name in ["", " ", "a/b", "a\\b", "a\0b", "=?utf-8?q?x?="] {
            assert_eq!(
                codes(Attachment::new(name, "a/b", "")),
                ["attachments[0].filename message.attachment"],
                "{name}"
            );
        }
        assert_eq!(
            codes(Attachment::new("a\r\nBcc: b", "a/b", "")),
            ["attachments[0].filename message.header_injection"]
        );
        assert_eq!(
            codes(Attachment::new("a", "a/b\r\nBcc: c", "")),
            ["attachments[0].content_type message.header_injection"]
        );
        assert_eq!(codes(Attachment::inline("a>b", "a/b", "")), ["attachments[0].cid message.attachment"]);
        assert_eq!(codes(Attachment::inline("cid:a", "a/b", "")), ["attachments[0].cid message.attachment"]);
        assert_eq!(
            codes(Attachment::inline("a\nb", "a/b", "")),
            ["attachments[0].cid message.header_injection"]
        );
        assert_eq!(
            codes(Attachment::new("a", "multipart/mixed", "")),
            ["attachments[0].content_type message.attachment"]
        );
    }

    #[test]
    fn attached_mail_has_to_be_seven_bit() {
        assert_eq!(codes(Attachment::new("a.eml", "message/rfc822", "Subject: x\n\nhi\n")), [""; 0]);
        for bytes in ["Subject: ü\n\nhi\n", &"a".repeat(999), "a\0b"] {
            assert_eq!(
                codes(Attachment::new("a.eml", "message/rfc822", bytes.to_owned())),
                ["attachments[0] message.attachment"]
            );
        }
    }

    #[test]
    fn debug_hides_the_name() {
        let shown = format!("{:?}", Attachment::new("ada-payslip.pdf", "application/pdf", "xyz"));
        assert!(!shown.contains("ada") && !shown.contains("xyz"), "{shown}");
    }
}
