//! What each step answers, and what it leaves under the key.

mod batch;
mod bounds;
mod complete;
mod durable;
mod forget;
mod late;
mod lease;
mod list;
mod names;
mod prune;
mod read;
mod receipts;
mod reserve;
mod resolve;
mod resolver;

use super::Entry;

pub(super) fn all() -> impl Iterator<Item = Entry> {
    let files = [
        reserve::CASES,
        complete::CASES,
        late::CASES,
        lease::CASES,
        resolve::CASES,
        forget::CASES,
        resolver::CASES,
        read::CASES,
        list::CASES,
        prune::CASES,
        batch::CASES,
        names::CASES,
        receipts::CASES,
        bounds::CASES,
        durable::CASES,
    ];
    files.into_iter().flatten().copied()
}
