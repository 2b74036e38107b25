//! Addresses on their way into commands.

use crate::Address;

/// `<local@domain>`, or `<>` for the sender of a notice. None for what is no address, whoever made the envelope: what
/// stands in a command must not be able to end it.
pub(super) fn path(address: &str, is_sender: bool) -> Option<String> {
    if address.is_empty() {
        return is_sender.then(|| "<>".to_owned());
    }
    let parsed = Address::new(None, address).ok()?;
    Some(format!("<{}>", parsed.wire_form()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_paths() {
        assert_eq!(path("ada@example.com", false).as_deref(), Some("<ada@example.com>"));
        assert_eq!(path("ada@Bücher.example", false).as_deref(), Some("<ada@xn--bcher-kva.example>"));
        assert_eq!(path("jørgen@bücher.example", false).as_deref(), Some("<jørgen@bücher.example>"));
        assert_eq!(path("\"a b\"@example.com", false).as_deref(), Some("<\"a b\"@example.com>"));
        assert_eq!(path("", true).as_deref(), Some("<>"));
    }

    #[test]
    fn nothing_that_could_end_a_command_gets_through() {
        for text in [
            "",
            "a@b.example>\r\nDATA",
            "a@b.example\nRCPT",
            "a\r@b.example",
            "a@b.example x=y",
            "a@b.example, c@d.example",
            "a\0@b.example",
            "no address",
        ] {
            assert_eq!(path(text, false), None, "{text:?}");
        }
    }
}
