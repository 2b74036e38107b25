//! What was pulled and not given out: receipts in the order of their messages, and who has whose key.

use super::super::answers::copy_of;
use crate::Receipt;
use hapax_core::{Fingerprint, Name};
use std::collections::{HashMap, VecDeque};

/// So many messages may be pulled beyond the one whose receipt is next.
pub(super) const LOOK_AHEAD: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Window {
    /// The number of the first place.
    head: u64,
    places: VecDeque<Place>,
    /// The first message under each key.
    firsts: HashMap<Name, u64>,
}

#[derive(Debug)]
struct Place {
    /// The key whose first message this is.
    key: Option<(Name, Fingerprint)>,
    done: Option<Done>,
    copies: Vec<u64>,
}

/// A receipt, and whether a transport was asked for it, now or before.
#[derive(Debug)]
struct Done {
    receipt: Receipt,
    was_sent: bool,
}

/// What a message's key is to those before it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// The first under its key.
    First,
    /// Equal to an earlier message, whose receipt it will get.
    Copy,
    /// Another message has the key.
    Reused,
}

impl Window {
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.places.len() >= LOOK_AHEAD
    }

    /// A place for the next message.
    pub(super) fn push(&mut self) -> u64 {
        let at = self.head + self.places.len() as u64;
        self.places.push_back(Place { key: None, done: None, copies: Vec::new() });
        at
    }

    /// Claims a key for the message at `at`.
    pub(super) fn claim(&mut self, at: u64, name: &Name, fingerprint: Fingerprint) -> Claim {
        let Some(first) = self.firsts.get(name).copied() else {
            self.firsts.insert(name.clone(), at);
            if let Some(place) = self.place(at) {
                place.key = Some((name.clone(), fingerprint));
            }
            return Claim::First;
        };
        let Some(place) = self.place(first) else { return Claim::First };
        if place.key.as_ref().is_some_and(|(_, of_first)| *of_first != fingerprint) {
            return Claim::Reused;
        }
        match &place.done {
            Some(done) => {
                let copy = copy_of(&done.receipt, done.was_sent);
                self.settle(at, copy, false);
            }
            None => place.copies.push(at),
        }
        Claim::Copy
    }

    /// The receipt of the message at `at`; its copies get theirs.
    pub(super) fn settle(&mut self, at: u64, receipt: Receipt, was_sent: bool) {
        let Some(place) = self.place(at) else { return };
        let copies = std::mem::take(&mut place.copies);
        let of_copies: Vec<_> = copies.into_iter().map(|copy| (copy, copy_of(&receipt, was_sent))).collect();
        place.done = Some(Done { receipt, was_sent });
        for (copy, receipt) in of_copies {
            self.settle(copy, receipt, false);
        }
    }

    /// The next receipt, when it is there.
    pub(super) fn pop(&mut self) -> Option<Receipt> {
        self.places.front()?.done.as_ref()?;
        let place = self.places.pop_front()?;
        self.head += 1;
        if let Some((name, _)) = &place.key {
            // From here on the store answers for it.
            self.firsts.remove(name);
        }
        place.done.map(|done| done.receipt)
    }

    fn place(&mut self, at: u64) -> Option<&mut Place> {
        let index = at.checked_sub(self.head)?;
        self.places.get_mut(usize::try_from(index).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::{Key, Namespace, Scope};

    fn name(key: &str) -> Name {
        Name::new(&Namespace::default(), &Scope::new("mail").unwrap(), &Key::new(key).unwrap())
    }

    fn print(text: &str) -> Fingerprint {
        Fingerprint::of_bytes(text.as_bytes())
    }

    #[test]
    fn receipts_come_out_in_order_and_copies_get_the_first_one() {
        let mut window = Window::default();
        let (a, b, c) = (window.push(), window.push(), window.push());
        assert_eq!(window.claim(a, &name("k"), print("1")), Claim::First);
        assert_eq!(window.claim(b, &name("k"), print("1")), Claim::Copy);
        assert_eq!(window.claim(c, &name("k"), print("2")), Claim::Reused);
        window.settle(c, Receipt::unknown("c"), false);
        assert!(window.pop().is_none());
        window.settle(a, Receipt::accepted().with_message_id("<a@b>"), true);
        let first = window.pop().unwrap();
        assert!(!first.copied && !first.replayed);
        let copy = window.pop().unwrap();
        assert!(copy.copied && copy.replayed && copy.message_id == "<a@b>");
        assert_eq!(window.pop().unwrap().code(), Some("c"));
        assert!(window.is_empty() && window.firsts.is_empty());
    }

    #[test]
    fn a_copy_of_a_first_that_is_done_has_its_receipt_at_once() {
        let mut window = Window::default();
        let (_open, a, b) = (window.push(), window.push(), window.push());
        window.claim(a, &name("k"), print("1"));
        window.settle(a, Receipt::accepted(), true);
        assert_eq!(window.claim(b, &name("k"), print("1")), Claim::Copy);
        window.settle(0, Receipt::accepted(), true);
        assert!(window.pop().is_some() && window.pop().is_some());
        assert!(window.pop().unwrap().copied);
    }

    #[test]
    fn a_key_whose_receipt_is_out_belongs_to_the_store() {
        let mut window = Window::default();
        let a = window.push();
        window.claim(a, &name("k"), print("1"));
        window.settle(a, Receipt::accepted(), true);
        let _ = window.pop().unwrap();
        let b = window.push();
        assert_eq!(window.claim(b, &name("k"), print("1")), Claim::First);
    }
}
