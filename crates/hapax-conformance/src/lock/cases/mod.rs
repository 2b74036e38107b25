//! The cases, by area.

mod contract;
mod expiry;
mod faults;
mod manage;
mod model;
mod races;

use super::Door;
use crate::fixture::Verdict;
use std::pin::Pin;

/// A case: its name, and what it does with a fresh store.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Door) -> Pin<Box<dyn Future<Output = Verdict>>>,
}

/// Lists the cases of a file. One that is not listed is dead code, so none is forgotten.
macro_rules! list {
    ($area:literal: $($case:ident),+ $(,)?) => {
        pub(super) const CASES: &[super::Entry] = &[$(super::Entry {
            name: concat!("lock::", $area, "::", stringify!($case)),
            run: |door| Box::pin($case(door)),
        }),+];
    };
}
use list;

pub(crate) fn entries() -> Vec<Entry> {
    let files = [contract::CASES, manage::CASES, expiry::CASES, races::CASES, faults::CASES, model::CASES];
    files.into_iter().flatten().copied().collect()
}
