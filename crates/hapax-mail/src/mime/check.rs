//! The last look at the bytes, whoever made them.

use super::{MAX_LINE, reader};
use hapax_core::{Category, Coded, Retry};
use memchr::{memchr, memchr2, memmem, memrchr};

/// The bytes break a rule of the mail format. Nothing is mended: the mail is not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenderError {
    /// A `Bcc` field, which would show hidden recipients to everybody.
    #[error("the bytes hold a Bcc field, which every recipient would see")]
    Bcc,
    /// CR or LF alone, which servers read in different ways: one mail could become two.
    #[error("line {line} ends in a bare CR or LF")]
    #[non_exhaustive]
    BareLineEnd {
        /// Counted from 1.
        line: usize,
    },
    /// More than 998 bytes before a CRLF.
    #[error("line {line} is longer than 998 bytes")]
    #[non_exhaustive]
    LongLine {
        /// Counted from 1.
        line: usize,
    },
    /// NUL.
    #[error("line {line} holds NUL")]
    #[non_exhaustive]
    Nul {
        /// Counted from 1.
        line: usize,
    },
    /// Something else than ASCII where no server has to take it.
    #[error("line {line} is not ASCII")]
    #[non_exhaustive]
    NotAscii {
        /// Counted from 1.
        line: usize,
    },
    /// A line before the first empty one that is no field.
    #[error("line {line} is no header field")]
    #[non_exhaustive]
    NoField {
        /// Counted from 1.
        line: usize,
    },
    /// A field that may occur once is missing or there several times.
    #[error("the field {name} is there {found} times")]
    #[non_exhaustive]
    Count {
        /// Which.
        name: &'static str,
        /// How often.
        found: usize,
    },
    /// The text holds a line that looks like the boundary between two parts.
    #[error("a part holds the boundary between parts")]
    Boundary,
    /// The given `Message-ID` is none.
    #[error("the message id is not of the form <id@domain>")]
    BadMessageId,
    /// The given seed of the boundaries is none.
    #[error("the seed of the boundaries is not 1 to 40 letters and digits")]
    BadSeed,
}

impl Coded for RenderError {
    fn code(&self) -> &'static str {
        match self {
            Self::Bcc => "message.bcc",
            _ => "message.render",
        }
    }

    fn category(&self) -> Category {
        Category::Validation
    }

    fn retry(&self) -> Retry {
        Retry::Never
    }
}

/// What is allowed beyond the plain rules.
pub(crate) struct Rules {
    pub(crate) utf8_header: bool,
    pub(crate) ascii_body: bool,
}

/// Fields that occur once at most: RFC 5322 §3.6.
const SINGLE: [&str; 11] = [
    "Date",
    "From",
    "Sender",
    "Reply-To",
    "To",
    "Cc",
    "Message-ID",
    "In-Reply-To",
    "References",
    "Subject",
    "MIME-Version",
];

/// Checks a whole mail.
pub(crate) fn check_bytes(bytes: &[u8], rules: &Rules) -> Result<(), RenderError> {
    if !is_plain(bytes) {
        check_lines(bytes, rules)?;
    }
    check_fields(bytes)
}

/// Whether no line can break a rule, which two looks at all bytes tell of nearly every mail.
fn is_plain(bytes: &[u8]) -> bool {
    let (Some((first, rest)), Some(last)) = (bytes.split_first(), bytes.last()) else { return true };
    // Without a branch, so that many bytes are looked at together.
    let odd = bytes.iter().zip(rest).fold(0, |odd, (byte, next)| {
        let alone = (*byte == b'\r') != (*next == b'\n');
        odd | u8::from(alone) | u8::from(byte.wrapping_sub(1) >= 0x7f)
    });
    odd == 0 && *first != b'\n' && (1..0x80).contains(last) && *last != b'\r' && has_short_lines(bytes)
}

/// The last line end within reach is sought, not each: what lies before it is short enough.
fn has_short_lines(mut bytes: &[u8]) -> bool {
    while let Some(reach) = bytes.get(..MAX_LINE + 2) {
        match memrchr(b'\n', reach) {
            Some(end) => bytes = bytes.get(end + 1..).unwrap_or_default(),
            None => return false,
        }
    }
    // Without a line end, or with one, it is as long as it may be.
    bytes.len() <= MAX_LINE || memchr(b'\n', bytes).is_some()
}

fn check_lines(bytes: &[u8], rules: &Rules) -> Result<(), RenderError> {
    let mut in_header = true;
    let mut rest = bytes;
    let mut number = 0;
    while !rest.is_empty() {
        let (line, after) = rest.split_at(memchr(b'\n', rest).map_or(rest.len(), |at| at + 1));
        (rest, number) = (after, number + 1);
        let text = match line.strip_suffix(b"\r\n") {
            Some(text) => text,
            None if line.ends_with(b"\n") => return Err(RenderError::BareLineEnd { line: number }),
            // Only the last line can end in neither.
            None => line,
        };
        match memchr2(b'\r', 0, text).and_then(|at| text.get(at)) {
            None => {}
            Some(0) => return Err(RenderError::Nul { line: number }),
            Some(_) => return Err(RenderError::BareLineEnd { line: number }),
        }
        if text.len() > MAX_LINE {
            return Err(RenderError::LongLine { line: number });
        }
        in_header &= !text.is_empty();
        let ascii = if in_header { !rules.utf8_header } else { rules.ascii_body };
        // Headers of parts are in the body, and never anything but ASCII.
        if ascii && !text.is_ascii() {
            return Err(RenderError::NotAscii { line: number });
        }
    }
    Ok(())
}

fn check_fields(bytes: &[u8]) -> Result<(), RenderError> {
    let (fields, _) = reader::split(bytes).map_err(|e| RenderError::NoField { line: e.line })?;
    let mut found = [0; SINGLE.len()];
    let mut has_bcc = false;
    for field in &fields {
        has_bcc |= field.is("Bcc") || field.is("Resent-Bcc");
        if let Some(count) = SINGLE.iter().zip(&mut found).find(|(name, _)| field.is(name)) {
            *count.1 += 1;
        }
    }
    if has_bcc {
        return Err(RenderError::Bcc);
    }
    match SINGLE.iter().zip(found).find(|(_, found)| *found > 1) {
        Some((name, found)) => Err(RenderError::Count { name, found }),
        None => Ok(()),
    }
}

/// Whether exactly the boundary lines are there that were written. Without parts no line can part them.
pub(super) fn check_boundaries(bytes: &[u8], seed: &str, expected: usize) -> Result<(), RenderError> {
    if expected == 0 {
        return Ok(());
    }
    let start = format!("--=_{seed}_");
    let begins_line = |at: &usize| at.checked_sub(1).is_none_or(|before| bytes.get(before) == Some(&b'\n'));
    let found = memmem::find_iter(bytes, &start).filter(begins_line).count();
    if found == expected { Ok(()) } else { Err(RenderError::Boundary) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAIN: Rules = Rules { utf8_header: false, ascii_body: true };

    fn check(bytes: &[u8]) -> Result<(), RenderError> {
        check_bytes(bytes, &PLAIN)
    }

    #[test]
    fn plain_mail_passes() {
        check(b"Subject: x\r\nFrom: a@b\r\n\r\nhi\r\n").unwrap();
        check(b"Subject: x\r\n\r\nno line end").unwrap();
        check(format!("X: {}\r\n\r\n", "a".repeat(995)).as_bytes()).unwrap();
    }

    #[test]
    fn each_rule_has_its_error() {
        assert_eq!(check(b"A: b\r\nbcc : x@y\r\n\r\n"), Err(RenderError::Bcc));
        assert_eq!(check(b"A: b\r\nResent-BCC: x@y\r\n\r\n"), Err(RenderError::Bcc));
        assert_eq!(check(b"A: b\r\n\r\na\nb\r\n"), Err(RenderError::BareLineEnd { line: 3 }));
        assert_eq!(check(b"A: b\r\n\r\na\rb\r\n"), Err(RenderError::BareLineEnd { line: 3 }));
        assert_eq!(check(b"A: b\r\n\r\na\r"), Err(RenderError::BareLineEnd { line: 3 }));
        assert_eq!(check(b"A: b\r\n\r\na\0b\r\n"), Err(RenderError::Nul { line: 3 }));
        assert_eq!(check("A: ü\r\n\r\n".as_bytes()), Err(RenderError::NotAscii { line: 1 }));
        assert_eq!(check("A: b\r\n\r\nü\r\n".as_bytes()), Err(RenderError::NotAscii { line: 3 }));
        assert_eq!(
            check(format!("X: {}\r\n\r\n", "a".repeat(996)).as_bytes()),
            Err(RenderError::LongLine { line: 1 })
        );
        assert_eq!(check(b"A: b\r\nFrom x\r\n\r\n"), Err(RenderError::NoField { line: 2 }));
        assert_eq!(check(b"To: a@b\r\nTO: c@d\r\n\r\n"), Err(RenderError::Count { name: "To", found: 2 }));
    }

    proptest! {
        /// The short way takes nothing that the lines, each for itself, would not.
        #[test]
        fn plain_mails_have_good_lines(
            lines in proptest::collection::vec("[a\0é\r]{0,3}|a{995,1000}", 0..6),
            ends in proptest::collection::vec(prop_oneof![4 => Just("\r\n"), 1 => Just("\n"), 1 => Just("\r"), 1 => Just("")], 6),
        ) {
            let text: String = lines.iter().zip(ends).map(|(line, end)| line.clone() + end).collect();
            let (plain, checked) = (is_plain(text.as_bytes()), check_lines(text.as_bytes(), &PLAIN));
            prop_assert!(!plain || checked.is_ok(), "{:?}", checked);
        }
    }

    #[test]
    fn bcc_in_the_body_is_text() {
        check(b"A: b\r\n\r\nBcc: x@y\r\n").unwrap();
    }

    #[test]
    fn what_smtputf8_allows_is_allowed_only_then() {
        let mail = "From: jørgen@example.com\r\n\r\nü\r\n".as_bytes();
        check_bytes(mail, &Rules { utf8_header: true, ascii_body: false }).unwrap();
        assert_eq!(
            check_bytes(mail, &Rules { utf8_header: true, ascii_body: true }),
            Err(RenderError::NotAscii { line: 3 })
        );
    }

    #[test]
    fn foreign_boundary_lines_are_found() {
        check_boundaries(b"--=_s_1\r\nx --=_s_1\r\n--=_s_1--\r\n", "s", 2).unwrap();
        assert_eq!(
            check_boundaries(b"--=_s_1\r\n--=_s_1\r\n--=_s_1--\r\n", "s", 2),
            Err(RenderError::Boundary)
        );
    }
}
