//! The names of limits.

use crate::{InvalidKey, Key};
use std::fmt;

/// Names a limit within its namespace: `login:203.0.113.7`. Cheap to clone; `Debug` hides it.
///
/// A text above 512 bytes is kept as its hash, as that of every [`Key`] is. Two quotas of different
/// [algorithms](super::Algorithm) under one name are two limits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitKey(Key);

impl LimitKey {
    /// 1 byte to 64 KiB of UTF-8.
    pub fn new(text: &str) -> Result<Self, InvalidKey> {
        Key::new(text).map(Self)
    }

    /// As it is kept and shown.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// As a key.
    pub fn as_key(&self) -> &Key {
        &self.0
    }

    /// Adds a value to the text of a name so that it cannot be taken for anything else: what separates parts, or could
    /// be read as another value, is written as `%` and two hex digits.
    pub fn push_escaped(text: &mut String, value: &str) {
        for c in value.chars() {
            let is_plain = !matches!(c, ':' | '{' | '}' | '%' | '~' | '#' | ' ') && !c.is_control();
            if is_plain {
                text.push(c);
                continue;
            }
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                text.push('%');
                text.extend([byte >> 4, byte & 15].map(|half| {
                    char::from_digit(u32::from(half), 16).unwrap_or_default().to_ascii_uppercase()
                }));
            }
        }
    }
}

impl From<Key> for LimitKey {
    fn from(key: Key) -> Self {
        Self(key)
    }
}

impl fmt::Debug for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LimitKey({})", self.0.digest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn joined(a: &str, b: &str) -> String {
        let mut text = String::from("t:");
        LimitKey::push_escaped(&mut text, a);
        text.push(':');
        LimitKey::push_escaped(&mut text, b);
        text
    }

    #[test]
    fn no_separator_of_a_value_stays() {
        assert_eq!(joined("a:b", "c"), "t:a%3Ab:c");
        assert_eq!(joined("{x}", "100% ~ \n"), "t:%7Bx%7D:100%25%20%7E%20%0A");
        assert_eq!(joined("ü", "日本"), "t:ü:日本");
    }

    proptest! {
        #[test]
        fn two_lists_of_values_never_meet(a in ("[a:%3A~]{0,5}", "[a:%3A~]{0,5}"), b in ("[a:%3A~]{0,5}", "[a:%3A~]{0,5}")) {
            prop_assert_eq!(a == b, joined(&a.0, &a.1) == joined(&b.0, &b.1));
        }
    }
}
