//! The cases, by area.

mod add;
mod books;
mod dead;
mod events;
mod faults;
mod fence;
mod groups;
mod history;
mod joint;
mod lease;
mod limits;
mod manage;
mod model;
mod order;
mod outcome;
mod progress;
mod races;
mod schedule;

use super::desk::Desk;
use crate::fixture::Verdict;
use std::pin::Pin;

/// A case: its name, and what it does with a fresh store.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Desk) -> Pin<Box<dyn Future<Output = Verdict>>>,
}

/// Lists the cases of a file. One that is not listed is dead code, so none is forgotten.
macro_rules! list {
    ($area:literal: $($case:ident),+ $(,)?) => {
        pub(super) const CASES: &[super::Entry] = &[$(super::Entry {
            name: concat!("queue::", $area, "::", stringify!($case)),
            run: |desk| Box::pin($case(desk)),
        }),+];
    };
}
use list;

pub(crate) fn entries() -> Vec<Entry> {
    let files = [
        add::CASES,
        books::CASES,
        order::CASES,
        fence::CASES,
        lease::CASES,
        progress::CASES,
        faults::CASES,
        outcome::CASES,
        groups::CASES,
        history::CASES,
        dead::CASES,
        manage::CASES,
        limits::CASES,
        events::CASES,
        schedule::CASES,
        joint::CASES,
        races::CASES,
        model::CASES,
    ];
    files.into_iter().flatten().copied().collect()
}
