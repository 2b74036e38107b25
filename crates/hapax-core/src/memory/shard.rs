//! One part of the map, under one mutex: slots, and the two orders in which room is made.

use crate::{
    BootTime, Name, Now, Timestamp,
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

/// When an entry ends, and of which change of it that is said. The two clocks are not compared: the wall clock may be
/// set.
type Note<T> = Reverse<(T, u64, Name)>;

/// When an entry is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Lease(BootTime),
    Result(Timestamp),
    Never,
}

#[derive(Debug, Default)]
pub(super) struct Shard {
    cells: HashMap<Name, Cell>,
    /// Reservations, by the end of their lease.
    leases: BinaryHeap<Note<BootTime>>,
    /// Ended entries, by the end of their time.
    results: BinaryHeap<Note<Timestamp>>,
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
        step: impl FnOnce(&mut Slot) -> A,
    ) -> (A, isize) {
        let (answer, grown, end) = match self.cells.get_mut(name) {
            Some(cell) => {
                let before = end_of(&cell.slot);
                let answer = step(&mut cell.slot);
                let after = end_of(&cell.slot);
                if after == before {
                    return (answer, 0);
                }
                cell.change = change;
                (answer, if after.is_none() { -1 } else { 0 }, after)
            }
            None => {
                let mut slot = None;
                let answer = step(&mut slot);
                let end = end_of(&slot);
                if end.is_some() {
                    self.cells.insert(name.clone(), Cell { slot, change });
                }
                (answer, isize::from(end.is_some()), end)
            }
        };
        match end {
            None => drop(self.cells.remove(name)),
            Some(end) => self.note(end, change, name.clone()),
        }
        self.tidy();
        (answer, grown)
    }

    fn note(&mut self, end: End, change: u64, name: Name) {
        match end {
            End::Lease(at) => self.leases.push(Reverse((at, change, name))),
            End::Result(at) => {
                self.results.push(Reverse((at, change, name.clone())));
                self.settled.push_back((change, name));
            }
            End::Never => {}
        }
    }

    /// Removes one entry that is over.
    pub(super) fn drop_expired(&mut self, now: &Now) -> bool {
        while let Some((change, name)) =
            due(&mut self.leases, now.boot).or_else(|| due(&mut self.results, now.wall))
        {
            let Some(cell) = self.cells.get_mut(&name).filter(|cell| cell.change == change) else { continue };
            machine::settle(&mut cell.slot, now);
            match end_of(&cell.slot) {
                None => {
                    self.cells.remove(&name);
                    return true;
                }
                // A late result took the place of a lease.
                Some(end) => self.note(end, change, name),
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
        if self.leases.len() > most {
            self.leases.retain(|Reverse((_, change, name))| current(*change, name));
        }
        if self.results.len() > most {
            self.results.retain(|Reverse((_, change, name))| current(*change, name));
        }
        if self.settled.len() > most {
            self.settled.retain(|(change, name)| current(*change, name));
        }
    }
}

/// When an entry is over; none for no entry.
fn end_of(slot: &Slot) -> Option<End> {
    Some(match slot.as_ref()? {
        Entry::Pending(p) => End::Lease(p.until),
        Entry::Settled(s) => End::Result(s.until),
        Entry::Unreadable => End::Never,
    })
}

/// Takes the next note whose time has come.
fn due<T: Ord + Copy>(notes: &mut BinaryHeap<Note<T>>, now: T) -> Option<(u64, Name)> {
    if notes.peek()?.0.0 > now {
        return None;
    }
    notes.pop().map(|Reverse((_, change, name))| (change, name))
}
