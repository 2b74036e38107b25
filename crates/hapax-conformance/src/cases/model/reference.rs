//! A plain map, and the steps of [`machine`] on it: what a store has to answer.

use crate::faulty::{Answer, Request};
use hapax_core::{
    BootTime, Name, Now, Timestamp,
    idempotency::{
        Entry, List, Record, Write,
        machine::{self, Slot},
    },
};
use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

#[derive(Debug)]
pub(super) struct Reference {
    now: Now,
    slots: BTreeMap<Name, Slot>,
    /// Names whose record need not know when the first reservation was made.
    free_first_at: HashSet<Name>,
}

impl Reference {
    pub(super) fn new() -> Self {
        let now = Now { wall: Timestamp::from_millis(1_000_000), boot: BootTime::from_millis(1_000_000) };
        Self { now, slots: BTreeMap::new(), free_first_at: HashSet::new() }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now.wall
    }

    pub(super) fn elapse(&mut self, by: Duration) {
        self.now = Now { wall: self.now.wall.after(by), boot: self.now.boot.after(by) };
    }

    /// The answers that a store may give to a request; it is one, save for one case.
    pub(super) fn apply(&mut self, request: &Request) -> Vec<Answer> {
        let now = self.now;
        let slot = self.slots.entry(request.name().clone()).or_default();
        // A store may have forgotten a reservation that is over, or still have it when its owner comes back: then it
        // knows when it began, and can end it.
        let over =
            |token| matches!(&*slot, Some(Entry::Pending(p)) if p.token == token && p.until <= now.boot);
        let (completes_late, releases_late) = match request {
            Request::Complete(req) => (over(req.token), false),
            Request::Release(_, token) => (false, over(*token)),
            _ => (false, false),
        };
        let answer = match request {
            Request::Reserve(req) => Answer::Reserved(machine::reserve(slot, req, &now)),
            Request::Complete(req) => Answer::Completed(machine::complete(slot, req, &now)),
            Request::Release(_, token) => Answer::Write(machine::release(slot, token, &now)),
            Request::Extend(_, token, lease) => Answer::Extended(machine::extend(slot, token, *lease, &now)),
            Request::RetakeUnknown(req) => Answer::Retaken(machine::retake_unknown(slot, req, &now)),
            Request::DropUnknown(_, token) => Answer::Dropped(machine::drop_unknown(slot, token, &now)),
            Request::Resolve(req) => Answer::Resolved(machine::resolve(slot, req, &now)),
            Request::ForceRelease(_) => Answer::Write(machine::force_release(slot, &now)),
        };
        let fresh = matches!(&*slot, Some(Entry::Pending(p)) if p.first_at == now.wall);
        if completes_late {
            self.free_first_at.insert(request.name().clone());
        } else if slot.is_none() || fresh {
            self.free_first_at.remove(request.name());
        }
        if releases_late {
            vec![Answer::Write(Write::Applied), Answer::Write(Write::Fenced)]
        } else {
            vec![answer]
        }
    }

    pub(super) fn knows_first_at(&self, name: &Name) -> bool {
        !self.free_first_at.contains(name)
    }

    pub(super) fn read(&self, name: &Name) -> Option<Record> {
        self.slots.get(name).and_then(|slot| machine::read(slot, &self.now))
    }

    /// All records that a list without limit gives.
    pub(super) fn list(&self, req: &List) -> Vec<(Name, Record)> {
        let after = req.after.as_ref().map(|(scope, key)| (scope.as_str(), key.as_str()));
        let mut found: Vec<_> = self
            .slots
            .iter()
            .filter(|(name, _)| name.key().starts_with(&req.prefix))
            .filter(|(name, _)| after.is_none_or(|after| (name.scope(), name.key()) > after))
            .filter_map(|(name, slot)| Some((name.clone(), machine::read(slot, &self.now)?)))
            .filter(|(_, record)| req.state.is_none_or(|state| record.is(state)))
            .collect();
        found.sort_by(|(a, _), (b, _)| (a.scope(), a.key()).cmp(&(b.scope(), b.key())));
        found
    }
}
