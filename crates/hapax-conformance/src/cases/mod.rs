//! The cases, by area.

mod contract;
mod expiry;
mod faults;
mod model;
mod races;

use crate::fixture::{Fixture, Verdict};
use std::pin::Pin;

/// A case: its name, and what it does with a fresh store.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Fixture) -> Pin<Box<dyn Future<Output = Verdict>>>,
}

/// Lists the cases of a file. One that is not listed is dead code, so none is forgotten.
macro_rules! list {
    ($area:literal: $($case:ident),+ $(,)?) => {
        pub(super) const CASES: &[$crate::cases::Entry] = &[$($crate::cases::Entry {
            name: concat!($area, "::", stringify!($case)),
            run: |fixture| Box::pin($case(fixture)),
        }),+];
    };
}
use list;

pub(crate) fn entries() -> Vec<Entry> {
    let areas = [expiry::CASES, model::CASES, faults::CASES].into_iter().flatten().copied();
    contract::all().chain(races::all()).chain(areas).collect()
}
