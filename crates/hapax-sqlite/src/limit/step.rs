//! The steps on limits, by the rules of all stores.

use super::row;
use crate::step::{Moment, Step};
use hapax_core::{
    Name, Namespace,
    limit::{
        Decide, Decided, LimitKey,
        machine::{self, Slot},
    },
};
use rusqlite::params;

pub(super) const RESET: &str = "DELETE FROM hapax_limit WHERE namespace = ?1 AND key = ?2";

/// Milliseconds since 1970: a limit outlives a restart of the machine, and its rules bear a clock that is set.
pub(super) fn now(at: &Moment<'_>) -> u64 {
    u64::try_from(at.now.wall.as_millis()).unwrap_or_default()
}

/// The limits of a decision as they are, and as they are after it.
struct Changes {
    before: Vec<Slot>,
    after: Vec<Slot>,
    decided: Decided,
}

fn decide(at: &Moment<'_>, req: &Decide) -> rusqlite::Result<Changes> {
    let load = |check| row::load(at.conn, &req.namespace, check);
    let before: Vec<_> = req.checks.iter().map(load).collect::<rusqlite::Result<_>>()?;
    let mut after = before.clone();
    let mut slots: Vec<_> = after.iter_mut().collect();
    let answers = machine::decide(&mut slots, &req.checks, req.dry_run, now(at));
    Ok(Changes { before, after, decided: Decided { answers, best_effort: false } })
}

impl Step for Decide {
    type Answer = Decided;
    const OP: &'static str = "decide on limits";

    // Nothing has to be given back when its caller goes, so one commit may have many decisions on the same limit.
    fn name(&self) -> Option<&Name> {
        None
    }
    fn rows(&self) -> usize {
        self.checks.len()
    }
    fn look(&self, at: &Moment<'_>) -> rusqlite::Result<Option<Decided>> {
        let changes = decide(at, self)?;
        Ok((changes.before == changes.after).then_some(changes.decided))
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<Decided> {
        let Changes { before, after, decided } = decide(tx, self)?;
        for (check, change) in self.checks.iter().zip(before.iter().zip(&after)) {
            if change.0 != change.1 {
                row::store(tx.conn, (&self.namespace, check), change, now(tx))?;
            }
        }
        Ok(decided)
    }
}

/// Forgets what was counted under a key.
#[derive(Clone, Debug)]
pub(super) struct Reset(pub(super) Namespace, pub(super) LimitKey);

impl Step for Reset {
    type Answer = ();
    const OP: &'static str = "reset a limit";

    fn name(&self) -> Option<&Name> {
        None
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<()> {
        tx.conn.prepare_cached(RESET)?.execute(params![self.0.as_str(), self.1.as_str()]).map(drop)
    }
}
