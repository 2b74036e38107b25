//! One part of the map, under one mutex: slots, and the two orders in which room is made.

use crate::{
    Name, Now,
    idempotency::{
        Entry,
        machine::{self, Slot},
    },
};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
};

/// Notes about entries that changed since are dropped when they outnumber the entries by so much.
const SLACK: usize = 64;

/// A slot, and the number of its last change: what a note must agree with to count.
#[derive(Debug, Default)]
struct Cell {
    slot: Slot,
    change: u64,
}

#[derive(Debug, Default)]
pub(super) struct Shard {
    cells: HashMap<Name, Cell>,
    /// By the moment from which they may be over. Leases and results are told apart by the entry itself.
    ends: BinaryHeap<Reverse<(i64, u64, Name)>>,
    /// Ended entries, oldest first.
    settled: VecDeque<(u64, Name)>,
}

impl Shard {
    pub(super) fn read(&self, name: &Name) -> Option<&Slot> {
        self.cells.get(name).map(|cell| &cell.slot)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&Name, &Slot)> {
        self.cells.iter().map(|(name, cell)| (name, &cell.slot))
    }

    pub(super) fn holds(&self, name: &Name) -> bool {
        self.cells.contains_key(name)
    }

    /// Runs a step on the slot of `name`. Answers by how many entries the shard has grown.
    pub(super) fn step<A>(
        &mut self,
        name: &Name,
        change: u64,
        now: &Now,
        step: impl FnOnce(&mut Slot) -> A,
    ) -> (A, isize) {
        let (answer, grown, end) = match self.cells.get_mut(name) {
            Some(cell) => {
                let before = end_of(&cell.slot, now);
                let answer = step(&mut cell.slot);
                let after = end_of(&cell.slot, now);
                if after == before {
                    return (answer, 0);
                }
                cell.change = change;
                (answer, if after.is_none() { -1 } else { 0 }, after)
            }
            None => {
                let mut slot = None;
                let answer = step(&mut slot);
                let end = end_of(&slot, now);
                if end.is_some() {
                    self.cells.insert(name.clone(), Cell { slot, change });
                }
                (answer, isize::from(end.is_some()), end)
            }
        };
        match end {
            None => drop(self.cells.remove(name)),
            Some((at, settled)) => {
                self.ends.push(Reverse((at, change, name.clone())));
                if settled {
                    self.settled.push_back((change, name.clone()));
                }
            }
        }
        self.tidy();
        (answer, grown)
    }

    /// Removes one entry that is over.
    pub(super) fn drop_expired(&mut self, now: &Now) -> bool {
        while let Some(Reverse((at, change, name))) = self.ends.peek() {
            if *at > now.wall.as_millis() {
                return false;
            }
            let (change, name) = (*change, name.clone());
            self.ends.pop();
            let Some(cell) = self.cells.get_mut(&name).filter(|cell| cell.change == change) else { continue };
            machine::settle(&mut cell.slot, now);
            match end_of(&cell.slot, now) {
                None => {
                    self.cells.remove(&name);
                    return true;
                }
                // Renewed, or a late result took the place of a lease: over at another time.
                Some((at, settled)) => {
                    self.ends.push(Reverse((at.max(now.wall.as_millis() + 1), change, name.clone())));
                    if settled {
                        self.settled.push_back((change, name));
                    }
                }
            }
        }
        false
    }

    /// The age of the oldest ended entry: the smaller, the older.
    pub(super) fn oldest(&mut self) -> Option<u64> {
        while let Some((change, name)) = self.settled.front() {
            let cell = self.cells.get(name).filter(|cell| cell.change == *change);
            if cell.is_some_and(|cell| matches!(cell.slot, Some(Entry::Settled(_)))) {
                return Some(*change);
            }
            self.settled.pop_front();
        }
        None
    }

    /// Removes the oldest ended entry.
    pub(super) fn drop_oldest(&mut self) -> bool {
        self.oldest().is_some()
            && self.settled.pop_front().is_some_and(|(_, name)| self.cells.remove(&name).is_some())
    }

    fn tidy(&mut self) {
        let most = 2 * self.cells.len() + SLACK;
        let cells = &self.cells;
        let current = |change: u64, name: &Name| cells.get(name).is_some_and(|cell| cell.change == change);
        if self.ends.len() > most {
            self.ends.retain(|Reverse((_, change, name))| current(*change, name));
        }
        if self.settled.len() > most {
            self.settled.retain(|(change, name)| current(*change, name));
        }
    }
}

/// When an entry may be over, on the wall clock, and whether it has ended; none for no entry.
fn end_of(slot: &Slot, now: &Now) -> Option<(i64, bool)> {
    match slot {
        None => None,
        Some(Entry::Pending(p)) => Some((now.wall_of(p.until).as_millis(), false)),
        Some(Entry::Settled(s)) => Some((s.until.as_millis(), true)),
        Some(Entry::Unreadable) => Some((i64::MAX, false)),
    }
}
