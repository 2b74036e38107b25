//! A small reader of header fields in given bytes. It decodes nothing.

use memchr::{memchr, memchr_iter};

/// One field: where it lies, and its parts.
#[derive(Clone, Copy)]
pub(crate) struct Field<'b> {
    /// From the first byte of the name to the last CRLF, folded lines too.
    pub(crate) raw: &'b [u8],
    pub(crate) name: &'b [u8],
    /// Everything behind the colon, folds and all.
    pub(crate) value: &'b [u8],
}

impl Field<'_> {
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name.len() == name.len() && self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// The value as text on one line, without space around it. Bytes that are no UTF-8 become U+FFFD.
    pub(crate) fn unfolded(&self) -> String {
        let text = String::from_utf8_lossy(self.value);
        text.replace("\r\n", "").replace('\t', " ").trim().to_owned()
    }
}

/// A header that is no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoField {
    /// The line, counted from 1.
    pub(crate) line: usize,
}

/// The fields up to the first empty line, and the body behind it. Lines have to end in CRLF.
pub(crate) fn split(bytes: &[u8]) -> Result<(Vec<Field<'_>>, &[u8]), NoField> {
    let mut fields = Vec::with_capacity(16);
    let mut rest = bytes;
    let mut line = 1;
    loop {
        if rest.is_empty() {
            return Ok((fields, rest));
        }
        if let Some(body) = rest.strip_prefix(b"\r\n") {
            return Ok((fields, body));
        }
        let (raw, after, lines) = take(rest);
        let colon = memchr(b':', raw).ok_or(NoField { line })?;
        let (name, value) = (raw.get(..colon).unwrap_or_default(), raw.get(colon + 1..).unwrap_or_default());
        // RFC 5322 once allowed space before the colon; a name is not one without it.
        let name = name.trim_ascii_end();
        if name.is_empty() || !name.iter().all(u8::is_ascii_graphic) {
            return Err(NoField { line });
        }
        fields.push(Field { raw, name, value });
        line += lines;
        rest = after;
    }
}

/// The first line with the folded ones behind it, the rest, and how many lines were taken.
fn take(bytes: &[u8]) -> (&[u8], &[u8], usize) {
    let mut lines = 0;
    let mut end = 0;
    loop {
        let rest = bytes.get(end..).unwrap_or_default();
        let is_end = |at: &usize| at.checked_sub(1).is_some_and(|before| rest.get(before) == Some(&b'\r'));
        end += memchr_iter(b'\n', rest).find(is_end).map_or(rest.len(), |at| at + 1);
        lines += 1;
        if !matches!(bytes.get(end), Some(b' ' | b'\t')) {
            break;
        }
    }
    let (taken, rest) = bytes.split_at_checked(end).unwrap_or((bytes, &[]));
    (taken, rest, lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(bytes: &[u8]) -> Result<Vec<String>, NoField> {
        let (fields, _) = split(bytes)?;
        Ok(fields.iter().map(|f| format!("{}={}", String::from_utf8_lossy(f.name), f.unfolded())).collect())
    }

    #[test]
    fn folded_fields_are_one() {
        let header = b"To: a@b,\r\n\tc@d\r\nSubject : x\r\nX-Empty:\r\n\r\nbody: no\r\n";
        assert_eq!(names(header).unwrap(), ["To=a@b, c@d", "Subject=x", "X-Empty="]);
        assert_eq!(split(header).unwrap().1, b"body: no\r\n");
    }

    #[test]
    fn header_may_be_all_there_is() {
        assert_eq!(names(b"A: b\r\n").unwrap(), ["A=b"]);
        assert_eq!(names(b"A: b").unwrap(), ["A=b"]);
        assert_eq!(names(b"").unwrap(), [""; 0]);
        assert_eq!(names(b"\r\nA: b").unwrap(), [""; 0]);
    }

    #[test]
    fn what_is_no_field_is_named_by_line() {
        assert_eq!(names(b"A: b\r\n c\r\nFrom ada\r\n\r\n"), Err(NoField { line: 3 }));
        assert_eq!(names(b" folded: first\r\n\r\n"), Err(NoField { line: 1 }));
        assert_eq!(names(b": x\r\n\r\n"), Err(NoField { line: 1 }));
        assert_eq!(names("Ü: x\r\n\r\n".as_bytes()), Err(NoField { line: 1 }));
    }
}
