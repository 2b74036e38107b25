//! Where a queue lies, and which groups it has.
//!
//! All keys of a queue have one tag between braces, so that a Cluster keeps them in one slot: the namespace with its
//! length, and the name. A closing brace would end the tag; it and the sign of the escape are written as `%7D` and `%25`.

use hapax_core::queue::{Group, QueueId, Uid};
use std::{
    fmt::Write as _,
    sync::{Arc, PoisonError, RwLock},
};

/// How the groups of a queue are that nobody has named one of.
pub(super) const UNNAMED: &str = "0:0:";
/// So many bits of one producer lie under one key.
const BITS: u64 = 8192;

/// A queue.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) id: QueueId,
    tag: String,
    groups: RwLock<Arc<Groups>>,
}

/// The groups of a queue, as they were when last heard of.
#[derive(Debug)]
pub(super) struct Groups {
    /// As the queue has them; empty: there is no queue.
    pub(super) text: String,
    pub(super) list: Vec<(u32, Option<Group>)>,
    /// For each group, the keys with its own first.
    first: Vec<Arc<Prepared>>,
}

/// The keys of a script, and the numbers of the groups they are of.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) keys: Vec<String>,
    pub(super) numbers: String,
}

impl Place {
    pub(super) fn new(prefix: &str, id: &QueueId) -> Self {
        let namespace = id.namespace.as_str();
        let name = format!("{}:{namespace}{}", namespace.len(), id.name);
        let name = name.replace('%', "%25").replace('}', "%7D");
        let tag = format!("{prefix}{{q{name}}}");
        let groups = RwLock::new(Arc::new(Groups::new(&tag, String::new())));
        Self { id: id.clone(), tag, groups }
    }

    pub(super) fn groups(&self) -> Arc<Groups> {
        Arc::clone(&self.groups.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set_groups(&self, text: String) {
        let groups = Arc::new(Groups::new(&self.tag, text));
        *self.groups.write().unwrap_or_else(PoisonError::into_inner) = groups;
    }

    /// The keys of these groups, in this order.
    pub(super) fn keys(&self, numbers: &[u32]) -> Arc<Prepared> {
        Arc::new(prepare(&self.tag, numbers.iter().copied()))
    }

    /// Where the bits of a producer lie, and which is that of this id.
    pub(super) fn producer(&self, uid: &Uid) -> (String, u64) {
        let bytes = uid.as_bytes();
        let count = bytes.iter().skip(10).fold(0, |count: u64, byte| count << 8 | u64::from(*byte));
        let mut key = format!("{}:p", self.tag);
        for byte in bytes.iter().take(10) {
            let _ = write!(key, "{byte:02x}");
        }
        let _ = write!(key, ".{}", count / BITS);
        (key, count % BITS)
    }
}

impl Groups {
    fn new(tag: &str, text: String) -> Self {
        let mut list = parse(&text);
        if list.is_empty() {
            list.push((0, None));
        }
        let own_first = |own: u32| {
            let others = list.iter().map(|(number, _)| *number).filter(|number| *number != own);
            Arc::new(prepare(tag, std::iter::once(own).chain(others)))
        };
        let first = list.iter().map(|(number, _)| own_first(*number)).collect();
        Self { text, list, first }
    }

    /// Whether there is a queue.
    pub(super) fn is_there(&self) -> bool {
        !self.text.is_empty()
    }

    /// The keys of a group and then of all others.
    pub(super) fn own(&self, group: &Group) -> Option<Arc<Prepared>> {
        let at = self.list.iter().position(|(_, name)| name.as_ref() == Some(group))?;
        self.first.get(at).cloned()
    }

    /// All in their order.
    pub(super) fn all(&self) -> Option<Arc<Prepared>> {
        self.first.first().cloned()
    }

    pub(super) fn number(&self, group: &Group) -> Option<u32> {
        self.list.iter().find(|(_, name)| name.as_ref() == Some(group)).map(|(number, _)| *number)
    }

    /// The group that is meant; the only one where none is named.
    pub(super) fn only(&self, group: Option<&Group>) -> Option<Arc<Prepared>> {
        match (group, self.first.as_slice()) {
            (Some(group), _) => self.own(group),
            (None, [only]) => Some(Arc::clone(only)),
            (None, _) => None,
        }
    }

    pub(super) fn name(&self, number: u32) -> Option<Group> {
        self.list.iter().find(|(known, _)| *known == number).and_then(|(_, name)| name.clone())
    }

    /// How they are with one more name; `None`: it is known. Also whether it names the first group.
    pub(super) fn with(&self, group: &Group) -> Option<(String, bool)> {
        if self.number(group).is_some() {
            return None;
        }
        let mut list = self.list.clone();
        let is_first = match list.iter_mut().find(|(_, name)| name.is_none()) {
            Some((_, name)) => {
                *name = Some(group.clone());
                true
            }
            None => {
                let next = list.iter().map(|(number, _)| number + 1).max().unwrap_or_default();
                list.push((next, Some(group.clone())));
                false
            }
        };
        Some((print(&list), is_first))
    }

    /// How they are without one.
    pub(super) fn without(&self, number: u32) -> String {
        let left: Vec<_> = self.list.iter().filter(|(known, _)| *known != number).cloned().collect();
        if left.is_empty() { UNNAMED.to_owned() } else { print(&left) }
    }
}

fn prepare(tag: &str, numbers: impl Iterator<Item = u32>) -> Prepared {
    let mut keys: Vec<String> =
        ["m", "i", "t", "e", "f", "v"].iter().map(|what| format!("{tag}:{what}")).collect();
    let mut listed = String::new();
    for number in numbers {
        for what in ["q0", "q1", "q2", "q3", "b", "c", "x", "r", "h", "w"] {
            keys.push(format!("{tag}:{number}:{what}"));
        }
        let _ = write!(listed, "{number} ");
    }
    Prepared { keys, numbers: listed }
}

/// `NUMBER:LENGTH:NAME` for each.
fn print(list: &[(u32, Option<Group>)]) -> String {
    let mut text = String::new();
    for (number, name) in list {
        let name = name.as_ref().map_or("", Group::as_str);
        let _ = write!(text, "{number}:{}:{name}", name.len());
    }
    text
}

fn parse(mut text: &str) -> Vec<(u32, Option<Group>)> {
    let mut list = Vec::new();
    while let Some((number, length, rest)) = head(text) {
        let Some((name, rest)) = rest.split_at_checked(length) else { break };
        list.push((number, Group::new(name).ok()));
        text = rest;
    }
    list
}

fn head(text: &str) -> Option<(u32, usize, &str)> {
    let (number, rest) = text.split_once(':')?;
    let (length, rest) = rest.split_once(':')?;
    Some((number.parse().ok()?, length.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::{Namespace, queue::QueueName};

    fn place(namespace: &str, name: &str) -> Place {
        let id = QueueId::new(&Namespace::new(namespace).unwrap(), &QueueName::new(name).unwrap());
        Place::new("hapax", &id)
    }

    #[test]
    fn all_keys_of_a_queue_have_one_tag() {
        for (namespace, name) in [("n", "q"), ("n{}", "}{"), ("%7D", "}"), ("é", "a:{b} 🦀\0")] {
            let place = place(namespace, name);
            let (producer, _) = place.producer(&Uid::new([1; 10], 9));
            let keys = place.groups().all().unwrap().keys.clone();
            let tags: Vec<_> = keys
                .iter()
                .chain([&producer])
                .map(|key| key.split_once('{').unwrap().1.split_once('}').unwrap().0)
                .collect();
            assert!(tags.iter().all(|tag| *tag == tags[0] && !tag.is_empty()), "{tags:?}");
        }
    }

    #[test]
    fn no_name_reaches_the_keys_of_another_queue() {
        let names = [("a", "b"), ("a", "}:m"), ("a", "%7D:m"), ("1:a", "b"), ("a1:", "b"), ("a", "1:b")];
        let tags: std::collections::HashSet<_> = names.iter().map(|(n, q)| place(n, q).tag).collect();
        assert_eq!(tags.len(), names.len());
    }

    #[test]
    fn groups_come_back_as_they_were_written() {
        let place = place("n", "q");
        assert!(!place.groups().is_there());
        let [a, b] = ["mäil:1:", "b"].map(|name| Group::new(name).unwrap());
        let (text, is_first) = place.groups().with(&a).unwrap();
        assert!(is_first);
        place.set_groups(text);
        let (text, is_first) = place.groups().with(&b).unwrap();
        assert!(!is_first);
        place.set_groups(text);
        let groups = place.groups();
        assert_eq!(groups.list, [(0, Some(a.clone())), (1, Some(b.clone()))]);
        assert!(groups.with(&a).is_none() && groups.only(None).is_none());
        assert_eq!(groups.own(&b).unwrap().numbers, "1 0 ");
        assert_eq!(groups.without(0), "1:1:b");
        place.set_groups(groups.without(0));
        assert_eq!(place.groups().without(1), UNNAMED);
    }

    #[test]
    fn ids_of_a_producer_are_bits_side_by_side() {
        let place = place("n", "q");
        let (key, bit) = place.producer(&Uid::new([1; 10], 8191));
        let (next_key, next_bit) = place.producer(&Uid::new([1; 10], 8192));
        assert_eq!((bit, next_bit), (8191, 0));
        assert_ne!(key, next_key);
    }
}
