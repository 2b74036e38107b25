//! What a server says.

use memchr::memchr;
use std::fmt;

/// A reply that is longer is none. RFC 5321 §4.5.3.1.5 allows lines of 512 bytes; servers say more.
pub(super) const MAX_REPLY: usize = 64 * 1024;
/// What is kept of it in a receipt.
const MAX_SHOWN: usize = 1000;

/// One reply, of one line or several.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Reply {
    /// 200 to 599.
    pub(super) code: u16,
    /// The text of its lines, one LF between two of them, and no other control characters.
    pub(super) words: String,
}

/// An enhanced code of RFC 3463: `5.1.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Enhanced {
    pub(super) class: u16,
    pub(super) subject: u16,
    pub(super) detail: u16,
}

/// What has been read so far.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    Incomplete,
    /// A whole reply, and how many bytes it has.
    Whole(Reply, usize),
    /// No reply at all.
    Garbled,
}

impl Reply {
    /// 2, 3, 4 or 5.
    pub(super) fn class(&self) -> u16 {
        self.code / 100
    }

    pub(super) fn is_positive(&self) -> bool {
        self.class() == 2
    }

    pub(super) fn is_transient(&self) -> bool {
        self.class() == 4
    }

    pub(super) fn is_refusal(&self) -> bool {
        matches!(self.class(), 4 | 5)
    }

    /// The server closes the connection after it.
    pub(super) fn is_closing(&self) -> bool {
        self.code == 421 || self.code == 221
    }

    /// An enhanced code that contradicts the plain one is none.
    pub(super) fn enhanced(&self) -> Option<Enhanced> {
        let word = self.lines().next()?.split_ascii_whitespace().next()?;
        Enhanced::parse(word).filter(|enhanced| enhanced.class == self.class())
    }

    /// The text of each line.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.words.split('\n')
    }

    /// As one line, for receipts.
    pub(super) fn text(&self) -> String {
        let mut text = self.code.to_string();
        for line in self.lines() {
            text.reserve_exact(line.len() + 1);
            text.push(' ');
            text.push_str(line);
        }
        text.truncate(text.floor_char_boundary(MAX_SHOWN));
        text.truncate(text.trim_end().len());
        text
    }
}

/// Without the text, which may name somebody.
impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply({})", self.code)
    }
}

impl Enhanced {
    fn parse(word: &str) -> Option<Self> {
        let mut parts = word.split('.').map(|part| {
            let is_number = (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
            if is_number { part.parse::<u16>().ok() } else { None }
        });
        let mut next = || parts.next().flatten();
        let found = Self { class: next()?, subject: next()?, detail: next()? };
        (matches!(found.class, 2 | 4 | 5) && parts.next().is_none()).then_some(found)
    }

    /// `x.subject.detail`, whatever the class.
    pub(super) fn is(self, subject: u16, detail: u16) -> bool {
        (self.subject, self.detail) == (subject, detail)
    }
}

impl fmt::Display for Enhanced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.class, self.subject, self.detail)
    }
}

/// Reads the first reply in `bytes`: `250-first`, `250-second`, `250 last`.
pub(super) fn parse(bytes: &[u8]) -> Parsed {
    let (mut code, mut words, mut used) = (None, String::new(), 0);
    loop {
        let rest = bytes.get(used..).unwrap_or_default();
        let Some(end) = memchr(b'\n', rest) else {
            return if bytes.len() > MAX_REPLY { Parsed::Garbled } else { Parsed::Incomplete };
        };
        let line = rest.get(..end).unwrap_or_default();
        used += end + 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some((number, is_last, text)) = read(line) else { return Parsed::Garbled };
        if code.is_some_and(|code| code != number) || used > MAX_REPLY {
            return Parsed::Garbled;
        }
        if code.is_some() {
            words.push('\n');
        }
        code = Some(number);
        push_words(text, &mut words);
        if is_last {
            return Parsed::Whole(Reply { code: number, words }, used);
        }
    }
}

/// One line: its code, whether it is the last, and its text.
fn read(line: &[u8]) -> Option<(u16, bool, &[u8])> {
    let (digits, rest) = line.split_at_checked(3)?;
    let is_code = digits.iter().all(u8::is_ascii_digit) && (b'2'..=b'5').contains(digits.first()?);
    let code = digits.iter().fold(0, |code, digit| code * 10 + u16::from(digit & 0xf));
    let (is_last, text) = match rest.split_first() {
        None => (true, rest),
        Some((b' ', text)) => (true, text),
        Some((b'-', text)) => (false, text),
        Some(_) => return None,
    };
    is_code.then_some((code, is_last, text))
}

/// The text of one line, with spaces for control characters.
fn push_words(text: &[u8], words: &mut String) {
    if let Ok(plain) = std::str::from_utf8(text)
        && text.iter().all(|b| (b' '..=b'~').contains(b))
    {
        return words.push_str(plain.trim());
    }
    words.push_str(String::from_utf8_lossy(text).replace(char::is_control, " ").trim());
}

/// What holds for any bytes: however they come in, the same reply comes out, and it can be shown.
#[cfg(any(test, fuzzing))]
pub(crate) fn check(bytes: &[u8]) {
    let at_once = parse(bytes);
    // Bit by bit takes the square of their length.
    if bytes.len() <= 512 {
        let bit_by_bit = (0..=bytes.len()).filter_map(|end| bytes.get(..end)).map(parse);
        let first = bit_by_bit.into_iter().find(|parsed| *parsed != Parsed::Incomplete);
        assert_eq!(at_once, first.unwrap_or(Parsed::Incomplete));
    }
    if let Parsed::Whole(reply, used) = at_once {
        assert!(used <= bytes.len() && (2..=5).contains(&reply.class()));
        let text = reply.text();
        assert!(text.len() <= MAX_SHOWN && !text.contains(char::is_control));
        assert!(reply.enhanced().is_none_or(|enhanced| enhanced.class == reply.class()));
        let _ = super::capabilities::Capabilities::read(&reply);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(bytes: &[u8]) -> (u16, Vec<String>, usize) {
        match parse(bytes) {
            Parsed::Whole(reply, used) => (reply.code, reply.lines().map(str::to_owned).collect(), used),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn replies_of_one_line_and_of_several() {
        assert_eq!(whole(b"250 ok\r\n"), (250, vec!["ok".into()], 8));
        assert_eq!(whole(b"250\r\n250 next"), (250, vec![String::new()], 5));
        assert_eq!(whole(b"250-a\r\n250-b\n250 c\r\n").1, ["a", "b", "c"]);
    }

    #[test]
    fn what_is_not_whole_is_waited_for() {
        for bytes in [&b""[..], b"2", b"250", b"250 ok\r", b"250-a\r\n", b"250-a\r\n250 b"] {
            assert_eq!(parse(bytes), Parsed::Incomplete, "{bytes:?}");
        }
    }

    #[test]
    fn what_is_no_reply_is_told() {
        let long = [&b"250 "[..], &b"a".repeat(MAX_REPLY)].concat();
        let lines = b"250-a\r\n".repeat(MAX_REPLY / 7 + 1);
        for bytes in [
            &b"hello\r\n"[..],
            b"25 ok\r\n",
            b"\r\n",
            b"250_ok\r\n",
            b"150 x\r\n",
            b"600 x\r\n",
            b"+50 x\r\n",
            b"250-a\r\n251 b\r\n",
            b"HTTP/1.1 400 Bad Request\r\n",
            &long,
            &lines,
        ] {
            assert_eq!(parse(bytes), Parsed::Garbled, "{:?}", bytes.get(..30.min(bytes.len())));
        }
    }

    #[test]
    fn enhanced_codes_have_to_fit() {
        let enhanced = |text: &str| {
            let Parsed::Whole(reply, _) = parse(format!("550 {text}\r\n").as_bytes()) else { panic!() };
            reply.enhanced().map(|e| e.to_string())
        };
        assert_eq!(enhanced("5.1.1 no such user").as_deref(), Some("5.1.1"));
        assert_eq!(enhanced("5.7.26 dmarc").as_deref(), Some("5.7.26"));
        for text in ["4.1.1 x", "5.1 x", "5.1.1.1 x", "5..1", "5.1.1234", "no", "", "+5.1.1"] {
            assert_eq!(enhanced(text), None, "{text}");
        }
    }

    #[test]
    fn text_is_one_line_without_controls_and_not_endless() {
        let Parsed::Whole(reply, _) = parse("550-a\u{1b}[31m\r\n550 é\r\n".as_bytes()) else { panic!() };
        assert_eq!(reply.text(), "550 a [31m é");
        let long = format!("550 {}\r\n", "é".repeat(2000));
        let Parsed::Whole(reply, _) = parse(long.as_bytes()) else { panic!() };
        assert_eq!(reply.text().len(), MAX_SHOWN);
        assert_eq!(format!("{reply:?}"), "Reply(550)");
    }

    proptest! {
        /// However the bytes come in, the same reply comes out, and nothing panics.
        #[test]
        fn any_bytes_are_a_reply_or_not(bytes in proptest::collection::vec(
            prop_oneof![Just(b'2'), Just(b'5'), Just(b'0'), Just(b'-'), Just(b' '), Just(b'\r'), Just(b'\n'), any::<u8>()], 0..60))
        {
            check(&bytes);
        }
    }
}
