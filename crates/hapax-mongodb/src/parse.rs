//! The values of a URL's options.

use crate::error::config;
use hapax_core::StoreResult;

/// A name that the server takes as it is, with room for what is added to it.
pub(crate) fn collection(text: &str) -> StoreResult<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let starts_well = text.bytes().next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_');
    if starts_well && text.len() <= 100 && text.bytes().all(is_plain) && !text.starts_with("system.") {
        return Ok(());
    }
    Err(config(format!(
        "`collection={text}` is no name for a collection here: up to 100 letters, digits, `_`, `-` and `.`, a letter or \
         `_` in front, not beginning with `system.`"
    )))
}

/// A name that a database may have on every system.
pub(crate) fn database(text: &str) -> StoreResult<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let is_taken = matches!(text, "admin" | "local" | "config");
    if !text.is_empty() && text.len() <= 63 && text.bytes().all(is_plain) && !is_taken {
        return Ok(());
    }
    Err(config(format!(
        "`{text}` is no name for a database here: up to 63 letters, digits, `_` and `-`, none of `admin`, `local` and \
         `config`"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_need_no_escaping() {
        assert!(collection("idempotency").is_ok() && collection("_k-2.x").is_ok());
        for wrong in ["", "2k", "a$b", "a b", "é", "system.x", ".a", &"x".repeat(101)] {
            assert!(collection(wrong).is_err(), "{wrong}");
        }
        assert!(database("shop-1").is_ok());
        for wrong in ["", "a.b", "a/b", "admin", &"x".repeat(64)] {
            assert!(database(wrong).is_err(), "{wrong}");
        }
    }
}
