//! The first pass: every entry is looked at before the first is sent.

use super::{
    input::{Batch, Drafter, Known, Mark, Marking, Marks, Problems, Source, in_batches, place},
    selection::Selection,
    twins::{Hashes, Twins},
};
use crate::failure::Failure;
use std::{
    hash::RandomState,
    io,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// What the entries are checked by.
#[derive(Debug)]
pub(super) struct Checker {
    pub(super) sources: Vec<Source>,
    pub(super) drafter: Drafter,
    pub(super) selection: Option<Selection>,
}

/// What was found.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) checker: Arc<Checker>,
    /// Of each source.
    entries: Vec<u64>,
    marks: Marks,
    pub(super) valid: u64,
    pub(super) invalid: u64,
    pub(super) left_out: u64,
    /// Equal to an earlier message, under another key.
    pub(super) twins: u64,
}

/// An entry that is not valid.
#[derive(Debug)]
pub(super) struct Bad {
    pub(super) index: u64,
    pub(super) place: String,
    pub(super) problems: Problems,
}

impl Checked {
    /// How many are dealt with: valid ones, and those that are reported as invalid.
    pub(super) fn all(&self) -> u64 {
        self.valid + self.invalid
    }

    /// What the second pass goes by.
    pub(super) fn known(&mut self) -> Result<Known<'_>, Failure> {
        let marks = self.marks.read().map_err(|error| not_kept(&error))?;
        Ok(Known { entries: &self.entries, marks })
    }
}

fn not_kept(error: &io::Error) -> Failure {
    Failure::input(format!("what the check found cannot be kept in a temporary file: {error}"))
        .help("make room in the folder for temporary files, or set TMPDIR to another one")
}

impl Checker {
    /// Checks every entry. `bad` gets those that are not valid, in order; `seen` the number of entries from time to time.
    pub(super) fn check(
        self: Arc<Self>,
        stop: &AtomicBool,
        mut bad: impl FnMut(Bad),
        mut seen: impl FnMut(u64),
    ) -> Result<Checked, Failure> {
        self.check_columns()?;
        let mut marking = Marking::new();
        let mut entries = vec![0; self.sources.len()];
        let (mut valid, mut invalid, mut left_out) = (0, 0, 0);
        let (mut kept, mut twins, random) = (Ok(()), Twins::default(), RandomState::new());
        let work = |batch: Batch<'_>| self.look(batch, &random);
        in_batches(&self.sources, None, work, |(file, found)| {
            if let Some(entries) = entries.get_mut(file) {
                *entries += found.len() as u64;
            }
            for looked in found {
                match looked.mark {
                    Mark::Send(_) => valid += 1,
                    Mark::Invalid => invalid += 1,
                    Mark::LeftOut => left_out += 1,
                }
                if kept.is_ok() {
                    kept = marking.push(looked.mark);
                }
                if let Some(hashes) = looked.hashes {
                    twins.look(hashes);
                }
                if let Some(found) = looked.bad {
                    bad(*found);
                }
            }
            seen(valid + invalid + left_out);
            if stop.load(Ordering::Relaxed) || kept.is_err() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        let marks = kept.and_then(|()| marking.finish()).map_err(|error| not_kept(&error))?;
        Ok(Checked { entries, marks, valid, invalid, left_out, twins: twins.found, checker: self })
    }

    /// What is wrong for a whole file is said once.
    fn check_columns(&self) -> Result<(), Failure> {
        for source in &self.sources {
            if !source.has_columns() {
                continue;
            }
            let reader = source.read()?;
            let Some(columns) = reader.columns() else { continue };
            if let Some(template) = &self.drafter.template {
                template.check(columns, &source.shown)?;
            }
            if let Some(template) = &self.drafter.key_template {
                template.check(columns, &source.shown)?;
            }
        }
        Ok(())
    }

    fn look(&self, batch: Batch<'_>, random: &RandomState) -> (usize, Vec<Looked>) {
        let (source, file) = (batch.source, batch.file);
        let mut found = Vec::new();
        batch.each(|index, at, entry, _| {
            let Some(entry) = entry else { return };
            let mut hashes = None;
            let checked = self.drafter.draft(entry, at.line, source).and_then(|draft| {
                hashes = Hashes::of(&draft, random);
                if self
                    .selection
                    .as_ref()
                    .is_some_and(|selection| !selection.contains(index, draft.key().as_ref()))
                {
                    return Ok(Mark::LeftOut);
                }
                draft.inspect(source).map(Mark::Send)
            });
            found.push(match checked {
                Ok(mark) => Looked { mark, hashes, bad: None },
                // What an earlier run has not reported as failed is not this run's.
                Err(_)
                    if self.selection.as_ref().is_some_and(|selection| !selection.contains(index, None)) =>
                {
                    Looked { mark: Mark::LeftOut, hashes: None, bad: None }
                }
                Err(problems) => {
                    let bad = Bad { index, place: place(source, at.line), problems };
                    Looked { mark: Mark::Invalid, hashes: None, bad: Some(Box::new(bad)) }
                }
            });
        });
        (file, found)
    }
}

struct Looked {
    mark: Mark,
    hashes: Option<Hashes>,
    bad: Option<Box<Bad>>,
}
