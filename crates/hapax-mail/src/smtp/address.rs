//! Addresses on their way into commands.

use crate::Address;

/// `<local@domain>`, or `<>` for the sender of a notice. None for what is no address, whoever made the envelope: what
/// stands in a command must not be able to end it. Most addresses cannot by their letters alone, and are read no second
/// time.
pub(super) fn path(address: &str, is_sender: bool) -> Option<String> {
    if address.is_empty() {
        return is_sender.then(|| "<>".to_owned());
    }
    if is_plain(address) {
        return Some(bracketed(address));
    }
    let parsed = Address::new(None, address).ok()?;
    Some(bracketed(&parsed.wire_form()))
}

fn bracketed(address: &str) -> String {
    let mut path = String::with_capacity(address.len() + 2);
    path.push('<');
    path.push_str(address);
    path.push('>');
    path
}

/// Words and dots alone, in the form that an envelope has, and no longer than any address may be.
fn is_plain(address: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'+');
    let is_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    address.len() <= 64
        && address.split_once('@').is_some_and(|(local, domain)| {
            local.split('.').all(|word| !word.is_empty() && word.bytes().all(is_word))
                && domain.split('.').all(|name| !name.is_empty() && name.bytes().all(is_name))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_paths() {
        assert_eq!(path("ada@example.com", false).as_deref(), Some("<ada@example.com>"));
        assert_eq!(path("Ada+1@EXAMPLE.com", false).as_deref(), Some("<Ada+1@example.com>"));
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
            "ada",
            "@example.com",
            "ada@",
            "a@b@c.example",
            "a..b@c.example",
            ".a@c.example",
            "a@c..example",
        ] {
            assert_eq!(path(text, false), None, "{text:?}");
        }
    }
}
