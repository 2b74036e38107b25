//! Equal messages under different keys: each of them is sent, and that is rarely meant. A key that is made anew for each
//! try, or a list that was put together from two, looks like this.

use super::{ended::messages, input::Draft};
use hapax::mail::Attachment;
use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{BuildHasher, RandomState},
};

/// So many messages are remembered. Beyond them nothing is noticed.
const MOST: usize = 100_000;

/// Hashes of a message: of whom it goes to and what it says, and of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hashes {
    /// None of a mail that is ready, which nobody compares.
    content: Option<u64>,
    pub(super) key: u64,
}

impl Hashes {
    /// None for a message without a key, which says that it wants to be sent as it is.
    pub(super) fn of(draft: &Draft, random: &RandomState) -> Option<Self> {
        let key = random.hash_one(draft.key()?);
        let content = draft.message().map(|message| {
            let recipients: Vec<_> = message.recipients().map(|to| (to.local(), to.ascii_domain())).collect();
            let files: Vec<_> = message.attachments().iter().map(Attachment::filename).collect();
            random.hash_one((recipients, message.subject(), message.text(), message.html(), files))
        });
        Some(Self { content, key })
    }
}

/// Looks for them.
#[derive(Debug, Default)]
pub(super) struct Twins {
    seen: HashMap<u64, u64>,
    pub(super) found: u64,
}

impl Twins {
    pub(super) fn look(&mut self, Hashes { content, key }: Hashes) {
        let Some(content) = content else { return };
        let room = self.seen.len() < MOST;
        match self.seen.entry(content) {
            Entry::Occupied(first) if *first.get() != key => self.found += 1,
            Entry::Vacant(place) if room => {
                place.insert(key);
            }
            _ => {}
        }
    }
}

/// What is said of those that were found.
pub(in super::super) fn said(found: u64) -> String {
    let are = if found == 1 { "is" } else { "are" };
    format!(
        "{} {are} equal to an earlier one, to the same recipients, and under another key: each is sent",
        messages(found)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_messages_under_different_keys_are_counted() {
        let mut twins = Twins::default();
        for (content, key) in [(1, 1), (1, 1), (2, 2), (1, 3), (2, 2), (1, 4)] {
            twins.look(Hashes { content: Some(content), key });
        }
        twins.look(Hashes { content: None, key: 5 });
        assert_eq!(twins.found, 2);
    }
}
