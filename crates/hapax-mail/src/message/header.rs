//! Header fields of the caller's own, and what all header text has to obey.

use super::Fault;

/// Longer values are refused: servers cut or refuse headers of that size.
const MAX_VALUE: usize = 16 * 1024;
const MAX_NAME: usize = 76;

/// Fields that the message has a place of its own for, or that are written for it, with the way to set them.
const STRUCTURAL: &[(&str, &str)] = &[
    ("bcc", "use the field `bcc`"),
    ("cc", "use the field `cc`"),
    ("date", "it is set when the message is first sent, and kept from then on"),
    ("from", "use the field `from`"),
    ("in-reply-to", "use the field `in_reply_to`"),
    ("list-unsubscribe", "use the field `unsubscribe`"),
    ("list-unsubscribe-post", "use the field `unsubscribe`"),
    ("message-id", "use the field `message_id`"),
    ("mime-version", "it is written for you"),
    ("received", "servers write it"),
    ("references", "use the field `references`"),
    ("reply-to", "use the field `reply_to`"),
    ("return-path", "servers write it"),
    ("sender", "use the field `sender`"),
    ("subject", "use the field `subject`"),
    ("to", "use the field `to`"),
];

/// A name from outside, cut and escaped, to be shown in a reason.
pub(crate) fn shown(name: &str) -> String {
    let mut shown: String = name.chars().take(64).flat_map(char::escape_debug).collect();
    if name.chars().nth(64).is_some() {
        shown.push('…');
    }
    shown
}

/// Checks one field. The fault's field is `headers.NAME`.
pub(super) fn check(name: &str, value: &str, faults: &mut Vec<Fault>) {
    let field = || format!("headers.{}", shown(name));
    if name.contains(['\r', '\n']) {
        faults.push(Fault::new(field(), "message.header_injection", "its name holds a line break"));
        return;
    }
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(|b| b.is_ascii_graphic() && b != b':') {
        let reason = "a name is 1 to 76 printable ASCII characters without a colon or space";
        faults.push(Fault::new(field(), "message.header", reason));
        return;
    }
    if let Some(hint) = structural(name) {
        faults.push(Fault::new(field(), "message.header", format!("it cannot be set here: {hint}")));
        return;
    }
    if let Err((code, reason)) = text(value) {
        faults.push(Fault::new(field(), code, reason));
        return;
    }
    if value.len() > MAX_VALUE {
        let reason = format!("it has {} bytes: 16384 are the most", value.len());
        faults.push(Fault::new(field(), "message.size", reason));
        return;
    }
    if crate::mime::longest_line(name, value) > crate::mime::MAX_LINE {
        let reason =
            "a word is too long: a header line has 998 bytes at most and can be folded at spaces only";
        faults.push(Fault::new(field(), "message.header", reason));
    }
}

fn structural(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    if lower.starts_with("content-") {
        return Some("it is written for you; an attachment has `content_type`");
    }
    if lower.starts_with("resent-") {
        return Some("send the mail as a raw message with an envelope of its own");
    }
    STRUCTURAL.iter().find(|(known, _)| *known == lower).map(|(_, hint)| *hint)
}

/// What no header text may hold. Tabs are white space there.
pub(super) fn text(value: &str) -> Result<(), (&'static str, String)> {
    if value.contains(['\r', '\n']) {
        return Err(("message.header_injection", "it holds a line break".to_owned()));
    }
    match value.chars().find(|c| (c.is_control() && *c != '\t') || matches!(c, '\u{2028}' | '\u{2029}')) {
        Some(c) => Err(("message.header", format!("it holds a control character (U+{:04X})", u32::from(c)))),
        None => Ok(()),
    }
}

/// Whether readers would decode a part of it: `=?charset?b?…?=`. Plain text is what is asked for, and text that only
/// looks encoded could not arrive as it was written.
pub(crate) fn looks_encoded(text: &str) -> bool {
    text.match_indices("=?").any(|(at, _)| {
        let mut tail = text.get(at + 2..).unwrap_or_default().splitn(3, '?');
        match (tail.next(), tail.next(), tail.next()) {
            (Some(charset), Some("b" | "B" | "q" | "Q"), Some(rest)) => {
                !charset.is_empty() && !charset.contains(' ') && rest.contains("?=")
            }
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(name: &str, value: &str) -> Vec<&'static str> {
        let mut faults = Vec::new();
        check(name, value, &mut faults);
        faults.iter().map(|fault| fault.code).collect()
    }

    #[test]
    fn own_fields_are_taken() {
        assert!(codes("X-Campaign", "spring; 2030").is_empty());
        assert!(codes("Precedence", "bulk").is_empty());
        assert!(codes("X-Empty", "").is_empty());
        assert!(codes("X-Long", &"word ".repeat(2000)).is_empty());
        assert!(codes("X-Umlaut", &"ü".repeat(1500)).is_empty());
    }

    #[test]
    fn structural_fields_are_refused_with_the_way_to_set_them() {
        for name in ["From", "TO", "bCC", "Message-Id", "Date", "Content-Type", "Resent-Bcc", "MIME-Version"]
        {
            assert_eq!(codes(name, "x"), ["message.header"], "{name}");
        }
        let mut faults = Vec::new();
        check("Reply-To", "x", &mut faults);
        assert!(faults[0].reason.contains("`reply_to`"), "{}", faults[0]);
    }

    #[test]
    fn line_breaks_are_an_injection() {
        assert_eq!(codes("X-A", "a\r\nBcc: b@example.com"), ["message.header_injection"]);
        assert_eq!(codes("X-A", "a\nb"), ["message.header_injection"]);
        assert_eq!(codes("X-A\r\nBcc", "b"), ["message.header_injection"]);
        assert_eq!(codes("X-A", "a\0b"), ["message.header"]);
        assert_eq!(codes("X-A", "a\u{85}b"), ["message.header"]);
        assert_eq!(codes("X A", "b"), ["message.header"]);
        assert_eq!(codes("X-A:", "b"), ["message.header"]);
        assert_eq!(codes("", "b"), ["message.header"]);
        assert_eq!(codes("X-Ü", "b"), ["message.header"]);
    }

    #[test]
    fn words_that_cannot_be_folded_are_refused() {
        assert_eq!(codes("X-A", &"a".repeat(993)), [""; 0]);
        assert_eq!(codes("X-A", &"a".repeat(994)), ["message.header"]);
        assert_eq!(codes("X-A", &format!("{}{}", "a ".repeat(40), "b".repeat(998))), ["message.header"]);
        assert_eq!(codes("X-A", &"a ".repeat(9000)), ["message.size"]);
    }

    #[test]
    fn encoded_words_are_recognised() {
        assert!(looks_encoded("=?utf-8?Q?x?="));
        assert!(looks_encoded("a =? =?utf-8?b?eA==?= b"));
        for plain in ["=?", "2 =? 3", "=?utf-8?x?y?=", "=??q?x?=", "a=?b?q?c", "?="] {
            assert!(!looks_encoded(plain), "{plain}");
        }
    }
}
