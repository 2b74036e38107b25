//! The bytes of a message as they go over the wire.

use memchr::memmem::Finder;
use std::sync::LazyLock;

/// So much is written within one deadline.
pub(super) const BLOCK: usize = 64 * 1024;

static DOTS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\r\n."));

/// Parts of the message in order, with a dot more before each line that begins with one (RFC 5321 §4.5.2). The message has
/// CRLF at every line end, the last one too, which is checked when it is made.
pub(super) fn stuffed(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    let mut at_line_start = true;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if at_line_start && rest.first() == Some(&b'.') {
            // The dot itself follows with its line.
            at_line_start = false;
            return Some(&b"."[..]);
        }
        let end = DOTS.find(rest).map_or(rest.len(), |at| at + 2);
        let (part, after) = rest.split_at(end);
        (rest, at_line_start) = (after, true);
        Some(part)
    })
}

/// The message in blocks, ready to be written.
pub(super) fn blocks(bytes: &[u8]) -> impl Iterator<Item = std::borrow::Cow<'_, [u8]>> {
    let mut parts = stuffed(bytes).peekable();
    let mut left: &[u8] = &[];
    std::iter::from_fn(move || {
        let first = if left.is_empty() { parts.next()? } else { left };
        left = &[];
        if first.len() >= BLOCK || parts.peek().is_none() {
            let (block, after) = first.split_at(first.len().min(BLOCK));
            left = after;
            return Some(block.into());
        }
        let mut block = first.to_vec();
        while block.len() < BLOCK
            && let Some(part) = parts.next()
        {
            let (fits, after) = part.split_at(part.len().min(BLOCK - block.len()));
            block.extend_from_slice(fits);
            left = after;
        }
        Some(block.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wire(text: &str) -> String {
        let bytes: Vec<u8> = blocks(text.as_bytes()).flat_map(std::borrow::Cow::into_owned).collect();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn dots_at_line_starts_are_doubled_and_no_others() {
        assert_eq!(wire("a.b\r\n.\r\n..\r\n.x\r\nx.\r\n"), "a.b\r\n..\r\n...\r\n..x\r\nx.\r\n");
        assert_eq!(wire(".a\r\n"), "..a\r\n");
        assert_eq!(wire("plain\r\n"), "plain\r\n");
    }

    #[test]
    fn plain_messages_are_not_copied() {
        let plain = b"no dots here\r\n".repeat(10_000);
        assert!(blocks(&plain).all(|block| matches!(block, std::borrow::Cow::Borrowed(_))));
        assert!(blocks(&plain).all(|block| block.len() <= BLOCK));
    }

    proptest! {
        /// A server that removes the dots has the message again, and no line of it is a lone dot.
        #[test]
        fn dots_can_be_removed_again(lines in proptest::collection::vec("[.a\r]{0,4}|[b.]{1,3}", 0..40), times in 1..2000_usize) {
            let text: String = lines.iter().map(|line| line.replace('\r', "") + "\r\n").collect();
            let text = text.repeat(times);
            let sent = wire(&text);
            prop_assert!(!sent.starts_with(".\r\n") && !sent.contains("\r\n.\r\n"));
            let back: String = sent.split_inclusive("\r\n").map(|line| line.strip_prefix('.').unwrap_or(line)).collect();
            prop_assert_eq!(back, text);
        }
    }
}
