//! Names as the table keeps them: one value each, in the order of their parts. `joined` and `key_of` in `schema/v1/rules.sql`
//! write down the same for the server.

use hapax_core::{Name, Namespace};

/// Behind namespace and scope, whose own zero bytes have [`WITHIN`] behind them.
const BORDER: u8 = 0;
/// No text begins with it.
const WITHIN: u8 = 255;

/// The name of a row.
pub(crate) fn joined(name: &Name) -> Vec<u8> {
    let mut joined = place(name.namespace(), Some(name.scope()));
    joined.extend_from_slice(name.key().as_bytes());
    joined
}

/// What all names of a scope begin with, or all names of a namespace.
pub(crate) fn place(namespace: &str, scope: Option<&str>) -> Vec<u8> {
    let mut place = Vec::with_capacity(namespace.len() + 128);
    for part in [Some(namespace), scope].into_iter().flatten() {
        for byte in part.bytes() {
            place.push(byte);
            if byte == BORDER {
                place.push(WITHIN);
            }
        }
        place.push(BORDER);
    }
    place
}

/// After all names that begin with a place.
pub(crate) fn behind(mut place: Vec<u8>) -> Vec<u8> {
    place.push(WITHIN);
    place
}

/// Scope and key of a name in a namespace; none where hapax did not write it.
pub(crate) fn split(name: &[u8], namespace: &Namespace) -> Option<(String, String)> {
    let rest = name.strip_prefix(place(namespace.as_str(), None).as_slice())?;
    let is_border = |at: &usize| rest.get(*at) == Some(&BORDER) && rest.get(at + 1) != Some(&WITHIN);
    let border = (0..rest.len()).find(is_border)?;
    let (scope, key) = (rest.get(..border)?, rest.get(border + 1..)?);
    let scope = scope.iter().copied().filter(|byte| *byte != WITHIN).collect();
    Some((String::from_utf8(scope).ok()?, String::from_utf8(key.to_vec()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::{Key, Scope};

    #[test]
    fn names_are_in_the_order_of_their_parts_and_give_them_back() {
        let texts = ["\0", "\0\0", "\0a", "a", "a\0", "a\0\0", "a\0b", "aa", "b", "é", "\u{10ffff}"];
        let mut parts = Vec::new();
        for scope in texts {
            parts.extend(texts.map(|key| (scope, key)));
        }
        parts.sort_unstable();
        let namespaces = texts.map(|text| Namespace::new(text).unwrap());
        let mut names = Vec::new();
        for namespace in &namespaces {
            for (scope, key) in &parts {
                let name = Name::new(namespace, &Scope::new(scope).unwrap(), &Key::new(key).unwrap());
                let joined = joined(&name);
                assert_eq!(split(&joined, namespace), Some(((*scope).to_owned(), (*key).to_owned())));
                assert!(joined < behind(place(namespace.as_str(), None)));
                names.push(joined);
            }
        }
        assert!(names.is_sorted_by(|a, b| a < b), "two names meet, or are not in order");
    }
}
