//! The first pass: every entry is looked at before the first is sent.

use super::{
    clashes::{Clashes, Place},
    input::{
        At, Batch, Draft, Drafter, Known, Mark, Marking, Marks, Problem, Problems, Source, in_batches, place,
    },
    pass::Purpose,
    selection::{Last, Selection},
    twins::{Hashes, Twins},
};
use crate::failure::Failure;
use hapax::{
    Key,
    mail::{Stamp, jobs::QueuedMail},
    queue::raw::MAX_PAYLOAD,
};
use std::{
    fmt::Write as _,
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
pub(in super::super) struct Checker {
    pub(super) sources: Vec<Source>,
    pub(super) drafter: Drafter,
    pub(super) selection: Option<Selection>,
    pub(super) purpose: Purpose,
}

/// What was found.
#[derive(Debug)]
pub(in super::super) struct Checked {
    pub(in super::super) checker: Arc<Checker>,
    /// Of each source.
    entries: Vec<u64>,
    marks: Marks,
    pub(in super::super) valid: u64,
    pub(in super::super) invalid: u64,
    /// The report says that they need no other try.
    pub(super) left_out: u64,
    /// The report says nothing of them.
    pub(super) unreported: u64,
    /// Valid, and without a key.
    pub(in super::super) keyless: u64,
    /// Equal to an earlier message, under another key.
    pub(in super::super) twins: u64,
}

/// An entry that is not valid.
#[derive(Debug)]
pub(in super::super) struct Bad {
    pub(in super::super) index: u64,
    pub(in super::super) place: String,
    pub(in super::super) problems: Problems,
}

impl Bad {
    /// Each fault on a line of its own, as compilers do it, so that editors find the place.
    pub(in super::super) fn lines(&self) -> String {
        self.problems.0.iter().fold(String::new(), |mut lines, problem| {
            let _ = writeln!(lines, "{}: {problem}", self.place);
            lines
        })
    }
}

impl Checked {
    /// How many are dealt with: valid ones, and those that are reported as invalid.
    pub(in super::super) fn all(&self) -> u64 {
        self.valid + self.invalid
    }

    /// Why nothing is done where some are not valid.
    pub(in super::super) fn refused(&self, done: &str, to_do: &str) -> Failure {
        let (invalid, all) = (self.invalid, self.all());
        let message = match (invalid, all) {
            (1, 1) => format!("the message is not valid: nothing was {done}"),
            (1, _) => format!("1 of {all} messages is not valid: nothing was {done}"),
            _ => format!("{invalid} of {all} messages are not valid: nothing was {done}"),
        };
        Failure::input(message).help(format!("mend them, or {to_do} the others with --skip-invalid"))
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
        let (mut valid, mut invalid, mut left_out, mut unreported, mut keyless) = (0, 0, 0, 0, 0);
        let (mut twins, mut clashes, random) = (Twins::default(), Clashes::default(), RandomState::new());
        let mut kept = Ok(());
        let work = |batch: Batch<'_>| self.look(batch, &random);
        in_batches(&self.sources, None, work, |(file, found)| {
            if let Some(entries) = entries.get_mut(file) {
                *entries += found.len() as u64;
            }
            for mut looked in found {
                self.compare(&mut looked, &mut clashes, file);
                match looked.mark {
                    Mark::Send(_) => valid += 1,
                    Mark::Invalid | Mark::Clash => invalid += 1,
                    Mark::LeftOut if looked.unreported => unreported += 1,
                    Mark::LeftOut => left_out += 1,
                }
                keyless += u64::from(looked.keyless);
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
            seen(valid + invalid + left_out + unreported);
            if stop.load(Ordering::Relaxed) || kept.is_err() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        let marks = kept.and_then(|()| marking.finish()).map_err(|error| not_kept(&error))?;
        if let Some(selection) = &self.selection
            && valid + invalid + left_out == 0
            && !stop.load(Ordering::Relaxed)
        {
            return Err(selection.foreign());
        }
        let twins = twins.found;
        Ok(Checked { entries, marks, valid, invalid, left_out, unreported, keyless, twins, checker: self })
    }

    /// A message under the key of another one before it can't be sent.
    fn compare(&self, looked: &mut Looked, clashes: &mut Clashes, file: usize) {
        let (Mark::Send(stamp), Some(Hashes { key, .. })) = (looked.mark, looked.hashes) else { return };
        let (index, at) = (looked.index, looked.at);
        let place = Place { index, file, at, stamp };
        if let Some(first) = clashes.look(key, place, self) {
            let problems = used_by(&first.place(self)).into();
            looked.bad = Some(Box::new(Bad { index, place: place.slot().place(self), problems }));
            looked.mark = Mark::Clash;
        }
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
            let drafted = self.drafter.draft(entry, at.line, source);
            let key = drafted.as_ref().ok().and_then(Draft::key);
            let hashes = drafted.as_ref().ok().and_then(|draft| Hashes::of(draft, random));
            // What an earlier run has not reported as failed is not this run's, valid or not.
            let left_out = match self.last(index, key.as_ref()) {
                Some(Last::Again) => None,
                last => Some(last.is_none()),
            };
            let mark = Mark::LeftOut;
            let looked = Looked { index, at, mark, unreported: false, keyless: false, hashes, bad: None };
            found.push(if let Some(unreported) = left_out {
                Looked { unreported, ..looked }
            } else {
                match drafted.and_then(|draft| self.fitting(draft, source)) {
                    Ok(stamp) => Looked { mark: Mark::Send(stamp), keyless: key.is_none(), ..looked },
                    Err(problems) => {
                        let bad = Some(Box::new(Bad { index, place: place(source, at.line), problems }));
                        Looked { mark: Mark::Invalid, bad, ..looked }
                    }
                }
            });
        });
        (file, found)
    }

    /// Without a report, everything is to be sent.
    fn last(&self, index: u64, key: Option<&Key>) -> Option<Last> {
        self.selection.as_ref().map_or(Some(Last::Again), |selection| selection.last(index, key))
    }

    /// The same, where it becomes a job: with its attachments it has to fit into one.
    pub(super) fn fitting(&self, draft: Draft, source: &Source) -> Result<Stamp, Problems> {
        let stamp = self.inspect(&draft, source)?;
        if let Purpose::Queue = self.purpose {
            let size = QueuedMail::from(draft.load(source, Some(stamp))?).to_payload().len();
            if size > MAX_PAYLOAD {
                let reason = format!(
                    "as a job the mail has {size} bytes, its attachments among them: {MAX_PAYLOAD} are the most; \
                     `hapax mail send` takes larger ones"
                );
                return Err(Problem::new("", "queue.payload_too_large", reason).into());
            }
        }
        Ok(stamp)
    }

    /// What a draft looks like, if it can be sent as it wants to be.
    fn inspect(&self, draft: &Draft, source: &Source) -> Result<Stamp, Problems> {
        let later = draft.message().is_some_and(|message| message.send_at().is_some());
        let reason = match self.purpose {
            Purpose::Send { at_once: Some(transport) } => {
                Some(format!("`{transport}` sends at once and cannot wait for a time: leave send_at out"))
            }
            Purpose::Send { at_once: None } => None,
            Purpose::Queue => Some(
                "a job is sent when it is due: leave send_at out, and say --run-at or --delay".to_owned(),
            ),
        };
        let reason = reason.filter(|_| later);
        let unsupported = reason.map(|reason| Problem::new("send_at", "message.unsupported", reason));
        match (draft.inspect(source), unsupported) {
            (inspected, None) => inspected,
            (Ok(_), Some(problem)) => Err(problem.into()),
            (Err(Problems(mut problems)), Some(problem)) => {
                problems.push(problem);
                Err(Problems(problems))
            }
        }
    }
}

/// Why a message is not sent whose key an earlier one has, there.
pub(super) fn used_by(place: &str) -> Problem {
    let reason = format!("it is the key of {place}, which is another message");
    Problem::new("idempotency_key", "idempotency.key_reused", reason)
}

struct Looked {
    index: u64,
    at: At,
    mark: Mark,
    /// It was left out because the report does not name it.
    unreported: bool,
    /// It is sent, and again with each run.
    keyless: bool,
    hashes: Option<Hashes>,
    bad: Option<Box<Bad>>,
}
