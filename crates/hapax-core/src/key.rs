//! Names of records: (namespace, scope, key), joined so that no two triples meet.

use sha2::{Digest, Sha256};
use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

/// The longest text accepted.
const MAX_BYTES: usize = 64 * 1024;
/// Longer texts are kept as their hash: an index stays small, and a backend's own limit is never met.
const MAX_PLAIN: usize = 512;
/// What a hashed text starts with. A plain text that starts so is hashed too, so the two can't meet.
const HASHED: &str = "#sha256:";

/// A business identifier: 1 byte to 64 KiB of UTF-8.
///
/// Above 512 bytes it is kept, and shown, as `#sha256:` and 64 hex digits. Any characters are fine, NUL, braces and
/// colons too. `Debug` hides it: a key often holds an address.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// Checks the length; hashes what is long.
    pub fn new(text: &str) -> Result<Self, InvalidKey> {
        stored("key", text).map(Self)
    }

    /// Joins parts so that no two different lists give the same key: `\` and `:` inside a part are escaped with `\`,
    /// the parts are joined with `:`.
    pub fn join<I>(parts: I) -> Result<Self, InvalidKey>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let mut joined = String::new();
        for (i, part) in parts.into_iter().enumerate() {
            if i > 0 {
                joined.push(':');
            }
            for c in part.as_ref().chars() {
                if c == '\\' || c == ':' {
                    joined.push('\\');
                }
                joined.push(c);
            }
        }
        Self::new(&joined)
    }

    /// A key as a list shows it: a hashed one is taken as it stands.
    pub fn from_shown(text: &str) -> Result<Self, InvalidKey> {
        shown("key", text).map(Self)
    }

    /// As it is kept and shown.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A short digest for logs: tells keys apart, says nothing of them.
    pub fn digest(&self) -> String {
        let digest: [u8; 32] = Sha256::digest(self.0.as_bytes()).into();
        hex::encode(digest.get(..6).unwrap_or_default())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.digest())
    }
}

fn shown(what: &'static str, text: &str) -> Result<Arc<str>, InvalidKey> {
    match text.strip_prefix(HASHED) {
        Some(hex) if hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) => {
            Ok(Arc::from(text))
        }
        _ => stored(what, text),
    }
}

fn stored(what: &'static str, text: &str) -> Result<Arc<str>, InvalidKey> {
    match text.len() {
        0 => Err(InvalidKey::Empty { what }),
        n if n > MAX_BYTES => Err(InvalidKey::TooLong { what, bytes: n }),
        n if n > MAX_PLAIN || text.starts_with(HASHED) => {
            let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
            Ok(Arc::from(format!("{HASHED}{}", hex::encode(digest))))
        }
        _ => Ok(Arc::from(text)),
    }
}

/// The text cannot name anything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidKey {
    /// Nothing was given.
    #[error("the {what} is empty: give it at least one character")]
    #[non_exhaustive]
    Empty {
        /// `key`, `namespace` or `scope`.
        what: &'static str,
    },
    /// More than 64 KiB were given.
    #[error("the {what} has {bytes} bytes: 65536 are the most; use a hash of it")]
    #[non_exhaustive]
    TooLong {
        /// `key`, `namespace` or `scope`.
        what: &'static str,
        /// Its length.
        bytes: usize,
    },
}

/// What can name a call: text, a [`Key`], or an array of parts that is joined injectively.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no key",
    label = "expected text, a `Key`, or an array of parts",
    note = "numbers and ids need a prefix that says what they are: `format!(\"charge:{{id}}\")` or `[\"charge\", &id]`"
)]
pub trait IntoKey {
    /// The key, or why there is none.
    fn into_key(self) -> Result<Key, InvalidKey>;
}

impl IntoKey for Key {
    fn into_key(self) -> Result<Key, InvalidKey> {
        Ok(self)
    }
}
impl IntoKey for &Key {
    fn into_key(self) -> Result<Key, InvalidKey> {
        Ok(self.clone())
    }
}
impl IntoKey for &str {
    fn into_key(self) -> Result<Key, InvalidKey> {
        Key::new(self)
    }
}
impl IntoKey for String {
    fn into_key(self) -> Result<Key, InvalidKey> {
        Key::new(&self)
    }
}
impl IntoKey for &String {
    fn into_key(self) -> Result<Key, InvalidKey> {
        Key::new(self)
    }
}
impl<const N: usize> IntoKey for [&str; N] {
    fn into_key(self) -> Result<Key, InvalidKey> {
        Key::join(self)
    }
}

macro_rules! part {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(Arc<str>);

        impl $name {
            /// 1 byte to 64 KiB of UTF-8; above 512 bytes kept as a hash.
            pub fn new(text: &str) -> Result<Self, InvalidKey> {
                stored($what, text).map(Self)
            }

            /// As a store keeps it and a list shows it: a hashed one is taken as it stands.
            pub fn from_shown(text: &str) -> Result<Self, InvalidKey> {
                shown($what, text).map(Self)
            }

            /// As it is kept and shown.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
    };
}
part!(
    /// Keeps the keys of one application apart from those of another in the same store.
    Namespace, "namespace"
);
part!(
    /// Keeps the keys of one purpose apart from those of another: `once`, `mail`, or the name a handle was made with.
    Scope, "scope"
);

impl Default for Namespace {
    fn default() -> Self {
        Self(Arc::from("default"))
    }
}

/// The full name of a record. Cheap to clone.
///
/// [`joined`](Self::joined) is one text for stores that have one: `N:namespace M:scope key` with the byte lengths in
/// front (and no spaces), so no separator inside a part can move a border, and all keys of a scope share a prefix.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    joined: Arc<str>,
    namespace: (u32, u32),
    scope: (u32, u32),
}

impl Name {
    /// Joins the three.
    pub fn new(namespace: &Namespace, scope: &Scope, key: &Key) -> Self {
        let [namespace_length, scope_length] = [namespace.0.len().to_string(), scope.0.len().to_string()];
        // Not by `format!`, which costs several times as much: a name is made for each call.
        let parts = [&namespace_length, ":", &namespace.0, &scope_length, ":", &scope.0, &key.0];
        let joined = parts.concat();
        let namespace_start = namespace_length.len() + 1;
        let scope_end = joined.len() - key.0.len();
        let scope_start = scope_end - scope.0.len();
        // Each part has at most 512 bytes here, so the positions fit.
        let at = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self {
            namespace: (at(namespace_start), at(namespace_start + namespace.0.len())),
            scope: (at(scope_start), at(scope_end)),
            joined: Arc::from(joined),
        }
    }

    /// What the joined names of all keys of a scope start with.
    pub fn prefix(namespace: &Namespace, scope: &Scope) -> String {
        format!("{}:{}{}:{}", namespace.0.len(), namespace.0, scope.0.len(), scope.0)
    }

    /// One text that names the record.
    pub fn joined(&self) -> &str {
        &self.joined
    }

    /// The namespace's text.
    pub fn namespace(&self) -> &str {
        self.part(self.namespace)
    }

    /// The scope's text.
    pub fn scope(&self) -> &str {
        self.part(self.scope)
    }

    /// The key's text.
    pub fn key(&self) -> &str {
        self.joined.get(self.scope.1 as usize..).unwrap_or_default()
    }

    fn part(&self, (start, end): (u32, u32)) -> &str {
        self.joined.get(start as usize..end as usize).unwrap_or_default()
    }
}

impl Hash for Name {
    /// The joined text says it all.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.joined.hash(state);
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({}/{}/{:?})", self.namespace(), self.scope(), Key(Arc::from(self.key())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bounds_of_a_key_hold() {
        assert_eq!(Key::new(""), Err(InvalidKey::Empty { what: "key" }));
        assert!(Key::new(&"x".repeat(65_536)).is_ok());
        assert!(Key::new(&"x".repeat(65_537)).is_err());
        assert_eq!(Key::new(&"x".repeat(512)).unwrap().as_str().len(), 512);
        assert!(Key::new(&"x".repeat(513)).unwrap().as_str().starts_with(HASHED));
    }

    #[test]
    fn a_text_that_looks_hashed_does_not_meet_the_hash() {
        let long = Key::new(&"x".repeat(600)).unwrap();
        assert_ne!(Key::new(long.as_str()).unwrap(), long);
        assert_eq!(Key::from_shown(long.as_str()).unwrap(), long);
    }

    #[test]
    fn debug_hides_the_key() {
        let key = Key::new("ada@example.com").unwrap();
        assert!(!format!("{key:?}").contains("ada"));
    }

    proptest! {
        #[test]
        fn joined_lists_never_meet(a in prop::collection::vec("[ab:\\\\]{0,3}", 1..4), b in prop::collection::vec("[ab:\\\\]{0,3}", 1..4)) {
            if a != b {
                let (a, b) = (Key::join(&a), Key::join(&b));
                prop_assert!(a.is_err() || b.is_err() || a != b);
            }
        }

        #[test]
        fn names_never_meet(a in ("[a1:]{1,4}", "[a1:]{1,4}", "[a1:]{1,4}"), b in ("[a1:]{1,4}", "[a1:]{1,4}", "[a1:]{1,4}")) {
            let name = |(n, s, k): &(String, String, String)| {
                Name::new(&Namespace::new(n).unwrap(), &Scope::new(s).unwrap(), &Key::new(k).unwrap())
            };
            prop_assert_eq!(a == b, name(&a).joined() == name(&b).joined());
        }

        #[test]
        fn parts_of_a_name_come_back(n in "\\PC{1,20}", s in "\\PC{1,20}", k in "\\PC{1,20}") {
            let name = Name::new(&Namespace::new(&n).unwrap(), &Scope::new(&s).unwrap(), &Key::new(&k).unwrap());
            prop_assert_eq!((name.namespace(), name.scope(), name.key()), (&*n, &*s, &*k));
        }
    }
}
