//! One part of the map, under one mutex: slots, and the two orders in which room is made.

use crate::{
    BootTime, Name, Now, Timestamp,
    idempotency::{
        Entry,
        machine::{self, Slot},
    },
};
use hashbrown::HashTable;
use slab::Slab;
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

/// Notes about entries that changed since are dropped when they outnumber the entries by so much.
const SLACK: usize = 64;

#[derive(Debug)]
struct Cell {
    name: Name,
    hash: u64,
    slot: Slot,
    /// The number of its last change: what a note must agree with to count.
    change: u64,
}

/// When an entry ends, of which change of it that is said, and where it is. The two clocks are not compared: the wall
/// clock may be set.
type Note<T> = Reverse<(T, u64, usize)>;

/// When an entry is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Lease(BootTime),
    Result(Timestamp),
    Never,
}

/// There is no room: everything in it is in flight.
#[derive(Debug)]
pub(super) struct Full;

#[derive(Debug)]
pub(super) struct Shard {
    most: usize,
    cells: Slab<Cell>,
    /// Where the cell of a name is. Notes say the place, so that looking at them hashes nothing.
    places: HashTable<usize>,
    /// Counts the changes of all its entries.
    changes: u64,
    /// Reservations, by the end of their lease.
    leases: BinaryHeap<Note<BootTime>>,
    /// Ended entries, by the end of their time.
    results: BinaryHeap<Note<Timestamp>>,
    /// Ended entries, oldest first.
    settled: VecDeque<(u64, usize)>,
}

impl Shard {
    /// With room for so many.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            cells: Slab::new(),
            places: HashTable::new(),
            changes: 0,
            leases: BinaryHeap::new(),
            results: BinaryHeap::new(),
            settled: VecDeque::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    pub(super) fn read(&self, name: &Name, hash: u64) -> Option<&Slot> {
        let at = self.place(name, hash)?;
        self.cells.get(at).map(|cell| &cell.slot)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&Name, &Slot)> {
        self.cells.iter().map(|(_, cell)| (&cell.name, &cell.slot))
    }

    /// Runs a step on the slot of `name`, for which room is made where it has none.
    pub(super) fn step<A>(
        &mut self,
        name: &Name,
        hash: u64,
        now: &Now,
        step: impl FnOnce(&mut Slot, &Now) -> A,
    ) -> Result<A, Full> {
        if let Some(at) = self.place(name, hash) {
            return self.change(at, now, step).ok_or(Full);
        }
        if self.cells.len() >= self.most && !self.drop_expired(now) && !self.drop_oldest() {
            return Err(Full);
        }
        let mut slot = None;
        let answer = step(&mut slot, now);
        if let Some(end) = end_of(&slot) {
            self.changes += 1;
            let change = self.changes;
            let at = self.cells.insert(Cell { name: name.clone(), hash, slot, change });
            let cells = &self.cells;
            let hash_of = |at: &usize| cells.get(*at).map_or(0, |cell| cell.hash);
            self.places.insert_unique(hash, at, hash_of);
            self.note(end, change, at);
        }
        Ok(answer)
    }

    /// Runs a step on the slot of `name`, where it has one; one that finds none must not make one.
    pub(super) fn step_held<A>(
        &mut self,
        name: &Name,
        hash: u64,
        now: &Now,
        step: impl Fn(&mut Slot, &Now) -> A,
    ) -> A {
        let held = self.place(name, hash).and_then(|at| self.change(at, now, &step));
        held.unwrap_or_else(|| step(&mut None, now))
    }

    fn place(&self, name: &Name, hash: u64) -> Option<usize> {
        let is_it = |at: &usize| self.cells.get(*at).is_some_and(|cell| cell.name == *name);
        self.places.find(hash, is_it).copied()
    }

    fn change<A>(&mut self, at: usize, now: &Now, step: impl FnOnce(&mut Slot, &Now) -> A) -> Option<A> {
        let cell = self.cells.get_mut(at)?;
        let before = end_of(&cell.slot);
        let answer = step(&mut cell.slot, now);
        let after = end_of(&cell.slot);
        if after != before {
            self.changes += 1;
            let change = self.changes;
            cell.change = change;
            match after {
                Some(end) => self.note(end, change, at),
                None => self.remove(at),
            }
        }
        Some(answer)
    }

    fn remove(&mut self, at: usize) {
        if let Some(cell) = self.cells.try_remove(at)
            && let Ok(place) = self.places.find_entry(cell.hash, |held| *held == at)
        {
            place.remove();
        }
    }

    fn note(&mut self, end: End, change: u64, at: usize) {
        match end {
            End::Lease(until) => self.leases.push(Reverse((until, change, at))),
            End::Result(until) => {
                self.results.push(Reverse((until, change, at)));
                self.settled.push_back((change, at));
            }
            End::Never => {}
        }
        self.tidy();
    }

    /// Removes one entry that is over.
    pub(super) fn drop_expired(&mut self, now: &Now) -> bool {
        while let Some((change, at)) =
            due(&mut self.leases, now.boot).or_else(|| due(&mut self.results, now.wall))
        {
            let Some(cell) = self.cells.get_mut(at).filter(|cell| cell.change == change) else { continue };
            machine::settle(&mut cell.slot, now);
            match end_of(&cell.slot) {
                None => {
                    self.remove(at);
                    return true;
                }
                // A late result took the place of a lease.
                Some(end) => self.note(end, change, at),
            }
        }
        false
    }

    /// Removes the oldest ended entry.
    fn drop_oldest(&mut self) -> bool {
        while let Some((change, at)) = self.settled.pop_front() {
            let cell = self.cells.get(at).filter(|cell| cell.change == change);
            if cell.is_some_and(|cell| matches!(cell.slot, Some(Entry::Settled(_)))) {
                self.remove(at);
                return true;
            }
        }
        false
    }

    fn tidy(&mut self) {
        let most = 2 * self.cells.len() + SLACK;
        let cells = &self.cells;
        let current = |change: u64, at: usize| cells.get(at).is_some_and(|cell| cell.change == change);
        if self.leases.len() > most {
            self.leases.retain(|Reverse((_, change, at))| current(*change, *at));
        }
        if self.results.len() > most {
            self.results.retain(|Reverse((_, change, at))| current(*change, *at));
        }
        if self.settled.len() > most {
            self.settled.retain(|(change, at)| current(*change, *at));
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
fn due<T: Ord + Copy>(notes: &mut BinaryHeap<Note<T>>, now: T) -> Option<(u64, usize)> {
    if notes.peek()?.0.0 > now {
        return None;
    }
    notes.pop().map(|Reverse((_, change, at))| (change, at))
}
