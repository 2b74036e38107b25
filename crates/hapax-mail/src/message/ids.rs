//! Message ids: `<id@domain>`, with or without the brackets.

use super::Fault;

/// Longer ones would not fit a header line beside the field's name.
const MAX_ID: usize = 900;

/// The id in angle brackets. Ids of other programs are not always well formed, so only an id that we are to send under
/// has to hold an `@`.
pub(super) fn normalized(field: &str, text: &str, own: bool, faults: &mut Vec<Fault>) -> Option<String> {
    let mut refuse = |code, reason: &str| {
        faults.push(Fault::new(field.to_owned(), code, reason));
        None
    };
    if text.contains(['\r', '\n']) {
        return refuse("message.header_injection", "it holds a line break");
    }
    let trimmed = text.trim();
    let inner = trimmed.strip_prefix('<').and_then(|t| t.strip_suffix('>')).unwrap_or(trimmed);
    if inner.is_empty() {
        return refuse("message.message_id", "it is empty");
    }
    if inner.len() > MAX_ID {
        return refuse("message.message_id", "it is longer than 900 bytes");
    }
    if !inner.bytes().all(|b| b.is_ascii_graphic() && b != b'<' && b != b'>') {
        return refuse("message.message_id", "an id is printable ASCII without spaces and angle brackets");
    }
    let at = inner.split_once('@').is_some_and(|(left, right)| !left.is_empty() && !right.is_empty());
    if own && (!at || inner.matches('@').count() != 1) {
        return refuse("message.message_id", "an id holds one @ with text on both sides");
    }
    Some(format!("<{inner}>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, own: bool) -> Result<String, &'static str> {
        let mut faults = Vec::new();
        normalized("message_id", text, own, &mut faults).ok_or_else(|| faults[0].code)
    }

    #[test]
    fn brackets_are_added_once() {
        assert_eq!(read("a@b", true).unwrap(), "<a@b>");
        assert_eq!(read(" <a@b> ", true).unwrap(), "<a@b>");
        assert_eq!(read("no-at", false).unwrap(), "<no-at>");
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for text in ["", "<>", "a b@c", "<a@b", "a@b>", "é@b", "@b", "a@", "a@b@c", "no-at"] {
            assert_eq!(read(text, true), Err("message.message_id"), "{text}");
        }
        assert_eq!(read("a@b\r\nBcc: c", true), Err("message.header_injection"));
        assert_eq!(read(&format!("{}@b", "a".repeat(900)), true), Err("message.message_id"));
    }
}
