//! The steps on one lock, by the rules of all stores.

use super::row;
use crate::step::{Moment, Step, Unwanted};
use hapax_core::{
    Name, Now, Span, Token,
    idempotency::{Extended, Write},
    lock::{
        Acquire, Acquired, Fence, HolderInfo,
        machine::{self, Slot},
    },
};

/// Runs a rule on what lies under a name, and writes back what it changed.
fn run<A>(tx: &Moment<'_>, name: &Name, rule: impl FnOnce(&mut Slot, &Now) -> A) -> rusqlite::Result<A> {
    let before = row::load(tx.conn, name, tx.boot_id)?;
    let mut slot = before.clone();
    let answer = rule(&mut slot, &tx.now);
    if slot != before {
        row::store(tx.conn, name, tx.boot_id, &before, &slot)?;
    }
    Ok(answer)
}

impl Step for Acquire {
    type Answer = Acquired;
    const OP: &'static str = "acquire a lock";

    fn name(&self) -> Option<&Name> {
        Some(&self.name)
    }
    fn look(&self, at: &Moment<'_>) -> rusqlite::Result<Option<Acquired>> {
        let mut slot = row::load(at.conn, &self.name, at.boot_id)?;
        // What is free, and what the token has already, is for the writer.
        Ok(match machine::acquire(&mut slot, self, &at.now) {
            busy @ Acquired::Busy { .. } => Some(busy),
            Acquired::Yours(_) => None,
        })
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<Acquired> {
        run(tx, &self.name, |slot, now| machine::acquire(slot, self, now))
    }
    fn unwanted(&self, answer: &Acquired) -> Option<Unwanted> {
        matches!(answer, Acquired::Yours(_)).then(|| Unwanted::Lock(Release(self.name.clone(), self.token)))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Extend(pub(super) Name, pub(super) Token, pub(super) Span);

impl Step for Extend {
    type Answer = Extended;
    const OP: &'static str = "extend the lease of a lock";

    fn name(&self) -> Option<&Name> {
        Some(&self.0)
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<Extended> {
        run(tx, &self.0, |slot, now| machine::extend(slot, &self.1, self.2, now))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Release(pub(super) Name, pub(super) Token);

impl Step for Release {
    type Answer = Write;
    const OP: &'static str = "release a lock";

    fn name(&self) -> Option<&Name> {
        Some(&self.0)
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<Write> {
        run(tx, &self.0, |slot, now| machine::release(slot, &self.1, now))
    }
    fn wakes(&self, answer: &Write) -> bool {
        *answer == Write::Applied
    }
}

#[derive(Clone, Debug)]
pub(super) struct Break(pub(super) Name);

impl Step for Break {
    type Answer = Option<HolderInfo>;
    const OP: &'static str = "break a lock";

    fn name(&self) -> Option<&Name> {
        Some(&self.0)
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<Option<HolderInfo>> {
        run(tx, &self.0, machine::break_lock)
    }
    fn wakes(&self, answer: &Option<HolderInfo>) -> bool {
        answer.is_some()
    }
}

#[derive(Clone, Debug)]
pub(super) struct SeedFence(pub(super) Name, pub(super) Fence);

impl Step for SeedFence {
    type Answer = Fence;
    const OP: &'static str = "seed a fence";

    fn name(&self) -> Option<&Name> {
        Some(&self.0)
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<Fence> {
        run(tx, &self.0, |slot, now| machine::seed_fence(slot, self.1, now))
    }
}
