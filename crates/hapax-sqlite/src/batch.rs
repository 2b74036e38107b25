//! The steps that share a commit.

use crate::{
    commit::Committer,
    error::Failure,
    step::Moment,
    unit::{Load, Unit},
    writer::Writer,
};
use hapax_core::Name;
use std::collections::HashSet;

pub(crate) struct Batch {
    /// Each has a step in the batch; the last may have more than fit.
    units: Vec<Box<dyn Unit>>,
    names: HashSet<Name>,
    steps: usize,
    load: Load,
    /// Whether the one step is too large for company.
    large: bool,
    most: usize,
}

impl Batch {
    /// So many steps are in a commit, at most.
    pub(crate) const MOST_STEPS: usize = 128;
    /// So many rows that its steps are about: those of a queue may each be about many.
    const MOST_ROWS: usize = 1024;
    /// So many bytes of receipts and jobs.
    const MOST_BYTES: usize = 256 * 1024;
    /// A larger receipt has a commit of its own: small ones need not wait for it.
    const LARGE: usize = 16 * 1024;

    pub(crate) fn new(most: usize) -> Self {
        Self { units: Vec::new(), names: HashSet::new(), steps: 0, load: Load::default(), large: false, most }
    }

    /// How many steps were tried.
    pub(crate) fn steps(&self) -> usize {
        self.steps
    }

    /// The bytes of the receipts and jobs in it.
    pub(crate) fn bytes(&self) -> usize {
        self.load.bytes
    }

    /// Runs what is queued, as much as fits into a commit. After an error the last step is the one that failed.
    pub(crate) fn fill(&mut self, writer: &Writer, committer: &Committer) -> rusqlite::Result<()> {
        while let Some(mut unit) = writer.pop() {
            if !self.has_room_for(&*unit) {
                writer.put_back(std::iter::once(unit));
                return Ok(());
            }
            if !unit.depart() {
                unit.answer(&Failure::gone());
                continue;
            }
            // The clock is read after the call was made: a lease never ends before its owner thinks so.
            let run = self.run(&mut *unit, &committer.tx());
            let is_over = unit.next().is_none();
            self.units.push(unit);
            run?;
            if !is_over {
                return Ok(());
            }
        }
        Ok(())
    }

    fn run(&mut self, unit: &mut dyn Unit, tx: &Moment<'_>) -> rusqlite::Result<()> {
        while self.has_room_for(unit) {
            let Some((name, load)) = unit.next() else { return Ok(()) };
            self.names.extend(name.cloned());
            self.load.rows += load.rows;
            self.load.bytes += load.bytes;
            self.large = Self::is_large(load);
            self.steps += 1;
            unit.run(tx)?;
        }
        Ok(())
    }

    fn has_room_for(&self, unit: &dyn Unit) -> bool {
        match unit.next() {
            _ if self.steps == 0 => true,
            // A name occurs once: who finds its caller gone after the commit must still be able to free the key
            // before the next step on it.
            Some((Some(name), _)) if self.names.contains(name) => false,
            Some((_, load)) => {
                !self.large
                    && !Self::is_large(load)
                    && self.steps < self.most
                    && self.load.rows + load.rows <= Self::MOST_ROWS
                    && self.load.bytes + load.bytes <= Self::MOST_BYTES
            }
            None => true,
        }
    }

    /// By what each of its rows has: many small ones belong together.
    fn is_large(load: Load) -> bool {
        load.bytes > Self::LARGE.saturating_mul(load.rows)
    }

    /// Answers whether somebody who waits for jobs, or for a lock, may get one.
    pub(crate) fn keep(&mut self) -> bool {
        let mut wakes = false;
        for unit in &mut self.units {
            wakes |= unit.keep();
        }
        wakes
    }

    /// Nobody knows whether the commit happened.
    pub(crate) fn doubt(&mut self, failure: &Failure) {
        self.units.iter_mut().for_each(|unit| unit.doubt(failure));
    }

    /// The transaction is undone. A step that was alone in it is refused; many are run again one by one, so that the
    /// failure reaches none but its owner. Answers how many steps are to be run so.
    pub(crate) fn undo(&mut self, failure: &Failure, alone: usize) -> usize {
        self.units.iter_mut().for_each(|unit| unit.undo());
        match (self.steps, self.units.first_mut()) {
            (1, Some(unit)) => {
                unit.refuse(failure);
                alone.saturating_sub(1)
            }
            (steps, _) => steps,
        }
    }

    /// Units with steps left go back to the queue, the others to their callers. In this order: what a caller that is
    /// gone leaves behind is then freed before anything else.
    pub(crate) fn hand_back(self, writer: &Writer) {
        let (over, left): (Vec<_>, Vec<_>) = self.units.into_iter().partition(|unit| unit.next().is_none());
        writer.put_back(left.into_iter());
        for unit in over {
            unit.answer(&Failure::gone());
        }
    }
}
