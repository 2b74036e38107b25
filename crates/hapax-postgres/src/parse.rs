//! The values of a URL's options.

use crate::error::config;
use hapax_core::StoreResult;

/// A name that means the same quoted and unquoted, and needs no escaping.
pub(crate) fn schema(text: &str) -> StoreResult<()> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let starts_well = text.bytes().next().is_some_and(|first| !first.is_ascii_digit());
    if starts_well && text.len() <= 63 && text.bytes().all(is_plain) && !text.starts_with("pg_") {
        return Ok(());
    }
    Err(config(format!(
        "`schema={text}` is no name for a schema here: up to 63 small letters, digits and `_`, no digit in front, \
         not beginning with `pg_`"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_need_no_escaping() {
        assert!(schema("hapax").is_ok() && schema("_k2").is_ok());
        for wrong in ["", "2k", "a\"b", "a b", "é", "A", "pg_keys", &"x".repeat(64)] {
            assert!(schema(wrong).is_err(), "{wrong}");
        }
    }
}
