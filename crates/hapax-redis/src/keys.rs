//! Names of what the store keeps.
//!
//! Those of records begin with the prefix and `{}`. Cluster takes the text between the first pair of braces for the slot,
//! and the whole key where that is empty: so no brace inside a user's key moves it to another slot. What has several keys,
//! a lock, a limit or a queue, has its name between the braces, behind a letter that tells them apart.

use hapax_core::{Name, Namespace, Scope, limit::LimitKey};
use std::borrow::Cow;

/// The beginning of all keys of a store.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: format!("{prefix}{{}}") }
    }

    /// Of a record.
    pub(crate) fn record(&self, name: &Name) -> String {
        // Not by `format!`, which costs several times as much: this is made for each step.
        [&self.prefix, "k:", name.joined()].concat()
    }

    /// Of a lock, whose own keys lie in one slot.
    pub(crate) fn lock(&self, name: &Name) -> String {
        [self.bare(), "{l", &inside(name.joined()), "}"].concat()
    }

    /// Of the mark that wakes who waits for a lock.
    pub(crate) fn lock_mark(&self, name: &Name) -> String {
        self.lock(name) + "w"
    }

    /// What the locks of a namespace begin with.
    pub(crate) fn locks_of(&self, namespace: &Namespace) -> String {
        let namespace = namespace.as_str();
        format!("{}{{l{}:{}", self.bare(), namespace.len(), inside(namespace))
    }

    /// What all keys of a limit begin with.
    pub(crate) fn limit(&self, namespace: &Namespace, key: &LimitKey) -> String {
        let namespace = namespace.as_str();
        let length = namespace.len().to_string();
        [self.bare(), "{r", &length, ":", &inside(namespace), &inside(key.as_str()), "}"].concat()
    }

    fn bare(&self) -> &str {
        self.prefix.strip_suffix("{}").unwrap_or(&self.prefix)
    }

    /// Of what the store knows of itself.
    pub(crate) fn meta(&self, what: &str) -> String {
        format!("{}m:{what}", self.prefix)
    }

    /// Of the set of names whose outcome was unknown: members are scope and key, scores the ends of their time.
    pub(crate) fn unknowns(&self, namespace: &str) -> String {
        format!("{}u:{namespace}", self.prefix)
    }

    /// What the records of a namespace begin with.
    pub(crate) fn of_namespace(&self, namespace: &Namespace) -> String {
        format!("{}k:{}:{}", self.prefix, namespace.as_str().len(), namespace.as_str())
    }

    /// What the records of a scope begin with.
    pub(crate) fn of_scope(&self, namespace: &Namespace, scope: &Scope) -> String {
        format!("{}k:{}", self.prefix, Name::prefix(namespace, scope))
    }
}

/// As it stands between braces: a closing one would end what a Cluster takes for the slot.
pub(crate) fn inside(text: &str) -> Cow<'_, str> {
    if text.contains(['%', '}']) {
        return Cow::Owned(text.replace('%', "%25").replace('}', "%7D"));
    }
    Cow::Borrowed(text)
}

/// Undoes [`inside`].
pub(crate) fn outside(text: &str) -> String {
    text.replace("%7D", "}").replace("%25", "%")
}

/// A name without its namespace: `N:scope key`.
pub(crate) fn member(name: &Name) -> String {
    format!("{}:{}{}", name.scope().len(), name.scope(), name.key())
}

/// Takes scope and key apart.
pub(crate) fn parts(member: &str) -> Option<(&str, &str)> {
    let (length, rest) = member.split_once(':')?;
    rest.split_at_checked(length.parse().ok()?)
}

/// The text as a pattern that matches itself.
pub(crate) fn pattern(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '^' | '-') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::Key;

    fn name(namespace: &str, scope: &str, key: &str) -> Name {
        let namespace = Namespace::new(namespace).unwrap();
        Name::new(&namespace, &Scope::new(scope).unwrap(), &Key::new(key).unwrap())
    }

    #[test]
    fn braces_of_a_key_move_no_slot() {
        let keys = Keys::new("hapax");
        let slot = |key: &str| {
            let key = keys.record(&name("n", "s", key));
            (key.contains("{}"), key.find('{') == key.find("{}"))
        };
        for key in ["{a}b", "}{a}", "{", "{}"] {
            assert_eq!(slot(key), (true, true));
        }
    }

    #[test]
    fn all_keys_of_a_lock_or_a_limit_have_one_tag_and_no_two_meet() {
        let keys = Keys::new("hapax");
        let texts = ["k", "}", "{}", "%7D", "%", "%25", "a}w", "é"];
        let mut tags = std::collections::HashSet::new();
        for text in texts {
            let name = name("n}", "lock", text);
            let (lock, mark) = (keys.lock(&name), keys.lock_mark(&name));
            let limit = keys.limit(&Namespace::new("n}").unwrap(), &LimitKey::new(text).unwrap());
            let tag = |key: &str| key.split_once('{').unwrap().1.split_once('}').unwrap().0.to_owned();
            assert_eq!((tag(&lock), lock.matches('}').count()), (tag(&mark), 1));
            assert!(lock.starts_with(&keys.locks_of(&Namespace::new("n}").unwrap())));
            assert_eq!(outside(&inside(text)), text);
            assert!(tags.insert(tag(&lock)) && tags.insert(tag(&limit)));
        }
    }

    #[test]
    fn members_come_apart() {
        for (scope, key) in [("s", "k"), ("1:s", "2:k"), ("é", ":"), (":", "é")] {
            assert_eq!(parts(&member(&name("n", scope, key))), Some((scope, key)));
        }
        for text in ["", "x", "9:s", "1:é"] {
            assert_eq!(parts(text), None, "{text}");
        }
    }
}
