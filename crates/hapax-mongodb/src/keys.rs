//! `_id` of a record: namespace, scope and key in one string.
//!
//! A string, since the server orders binary ids by their length first, and lists are in the order of scope and key. Two
//! spaces end a part; in namespace and scope, each character up to the space is written as a space and a visible one.
//! So no two names meet, ids are in the order of their parts, and a plain name reads as it is: `default  mail  order-1`.

use hapax_core::{Key, Name, Namespace, Scope};

const END: &str = "  ";
/// The first text after every one that begins with [`END`].
const AFTER_END: &str = " !";

/// Of a record.
pub(crate) fn id(name: &Name) -> String {
    let mut id = String::with_capacity(name.joined().len() + 2 * END.len());
    part(&mut id, name.namespace());
    part(&mut id, name.scope());
    id + name.key()
}

/// What the ids of a namespace begin with.
pub(crate) fn of_namespace(namespace: &Namespace) -> String {
    let mut start = String::new();
    part(&mut start, namespace.as_str());
    start
}

/// What the ids of a scope begin with.
pub(crate) fn of_scope(namespace: &Namespace, scope: &Scope) -> String {
    let mut start = of_namespace(namespace);
    part(&mut start, scope.as_str());
    start
}

/// The first text after all that begin with a start made by [`of_namespace`] or [`of_scope`].
pub(crate) fn after(start: &str) -> String {
    start.strip_suffix(END).unwrap_or(start).to_owned() + AFTER_END
}

/// Takes an id apart; none where hapax did not write it.
pub(crate) fn name(id: &str) -> Option<Name> {
    let (namespace, rest) = id.split_once(END)?;
    let (scope, key) = rest.split_once(END)?;
    let namespace = Namespace::from_shown(&plain(namespace)?).ok()?;
    let scope = Scope::from_shown(&plain(scope)?).ok()?;
    Some(Name::new(&namespace, &scope, &Key::from_shown(key).ok()?))
}

fn part(id: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\0'..=' ' => id.extend([' ', shifted(c)]),
            _ => id.push(c),
        }
    }
    id.push_str(END);
}

/// `!` and what follows, in the same order.
fn shifted(c: char) -> char {
    char::from_u32(u32::from(c) + u32::from('!')).unwrap_or('!')
}

fn plain(part: &str) -> Option<String> {
    let mut plain = String::with_capacity(part.len());
    let mut chars = part.chars();
    while let Some(c) = chars.next() {
        plain.push(match c {
            ' ' => char::from_u32(u32::from(chars.next()?).checked_sub(u32::from('!'))?)?,
            c => c,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(namespace: &str, scope: &str, key: &str) -> Name {
        let (namespace, scope) = (Namespace::new(namespace).unwrap(), Scope::new(scope).unwrap());
        Name::new(&namespace, &scope, &Key::new(key).unwrap())
    }

    /// Texts of every kind, in the order of their bytes.
    fn texts() -> Vec<&'static str> {
        let mut texts = vec![
            "\0",
            "\0\0",
            " ",
            "  ",
            "   ",
            " !",
            " a",
            "!",
            "a",
            "a ",
            "a  ",
            "a  b",
            "a\0",
            "a\u{1}",
            "a!",
            "aa",
            "é",
            "\u{10ffff}",
        ];
        texts.sort_unstable();
        texts
    }

    #[test]
    fn ids_are_as_different_and_in_the_same_order_as_names() {
        let mut names = Vec::new();
        for namespace in texts() {
            for scope in texts() {
                names.extend(texts().into_iter().map(|key| named(namespace, scope, key)));
            }
        }
        let ids: Vec<_> = names.iter().map(id).collect();
        assert!(ids.is_sorted_by(|a, b| a < b));
        assert!(names.iter().zip(&ids).all(|(name, id)| super::name(id).as_ref() == Some(name)));
    }

    #[test]
    fn a_start_holds_its_own_and_nothing_else() {
        let all: Vec<_> =
            texts().into_iter().flat_map(|scope| texts().into_iter().map(move |key| (scope, key))).collect();
        for scope in texts() {
            let start = of_scope(&Namespace::default(), &Scope::new(scope).unwrap());
            for (other, key) in &all {
                let id = id(&named("default", other, key));
                let is_within = id >= start && id < after(&start);
                assert_eq!(is_within, *other == scope, "{id:?} {start:?}");
            }
        }
    }

    #[test]
    fn a_plain_name_reads_as_it_is() {
        assert_eq!(id(&named("default", "job:mails:it", "order 1")), "default  job:mails:it  order 1");
        assert_eq!(name("settings"), None);
    }
}
