//! Different messages under one key: the first that is sent has it, and every other is refused. Rarely meant, and known
//! before the first is sent.

use super::{
    check::Checker,
    feed::{self, Slot},
    input::{At, Mail},
};
use hapax::{
    core::fingerprint::Agreement,
    mail::{Stamp, fingerprint, fingerprint_raw},
};
use std::collections::{HashMap, hash_map::Entry};

/// So many keys are remembered. A clash beyond them is found when it is sent.
const MOST: usize = 100_000;

/// Looks for them.
#[derive(Debug, Default)]
pub(super) struct Clashes(HashMap<u64, Place>);

/// Where a message is, in little memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) index: u64,
    pub(super) file: usize,
    pub(super) at: At,
    pub(super) stamp: Stamp,
}

impl Place {
    pub(super) fn slot(self) -> Slot {
        Slot { index: self.index, file: self.file, at: self.at, key: None, stamp: Some(self.stamp) }
    }
}

impl Clashes {
    /// The first message under this key, given by its hash, if it is another one.
    pub(super) fn look(&mut self, key: u64, place: Place, checker: &Checker) -> Option<Slot> {
        let room = self.0.len() < MOST;
        match self.0.entry(key) {
            // Lines that differ can be the same message: they are read again, and compared as the mailer would.
            Entry::Occupied(first) if first.get().stamp != place.stamp => {
                let first = first.get().slot();
                differ(checker, &[first.clone(), place.slot()]).then_some(first)
            }
            Entry::Vacant(free) if room => {
                free.insert(place);
                None
            }
            _ => None,
        }
    }
}

/// Whether these two have one key and are not the same. What cannot be read any more is found to have changed later.
fn differ(checker: &Checker, slots: &[Slot]) -> bool {
    let read: Result<Vec<_>, _> = feed::again(checker, slots).into_iter().map(|fed| fed.mail).collect();
    let Ok([one, two]) = read.as_deref() else { return false };
    let same_key = one.key() == two.key();
    same_key
        && match (one, two) {
            (Mail::Message(one), Mail::Message(two)) => {
                fingerprint(one).agrees_with(&fingerprint(two)) == Agreement::Other
            }
            (Mail::Raw(one), Mail::Raw(two)) => {
                fingerprint_raw(one).agrees_with(&fingerprint_raw(two)) == Agreement::Other
            }
            _ => true,
        }
}
