//! Reading all sources in batches that several threads work on, with the results in order.

use super::{
    lines::At,
    marks::{Mark, Marked},
    problem::Problems,
    rows::Row,
    source::{Entry, Source},
};
use crate::failure::Failure;
use std::{
    collections::BTreeMap,
    ops::{ControlFlow, Range},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
};

/// A batch ends with either: enough to be worth the way to another thread, little enough to be forgotten.
const ENTRIES: usize = 64;
const BYTES: usize = 24 * 1024;
/// More threads than this gain nothing: the store is slower.
const MOST_THREADS: usize = 4;

/// Entries that follow each other in one source.
#[derive(Debug)]
pub(crate) struct Batch<'s> {
    pub(crate) source: &'s Source,
    /// The number of the source.
    pub(crate) file: usize,
    /// The number of the first entry, among all sources.
    first: u64,
    bytes: Vec<u8>,
    entries: Vec<(At, Owned, Option<Mark>)>,
    /// Where the source ends before its marks do, those that are left.
    missing: Vec<Mark>,
}

/// An [`Entry`] that can go to another thread.
#[derive(Debug)]
enum Owned {
    Line(Range<usize>),
    Row(Row),
    Mail(Vec<u8>),
    Bad(Problems),
}

impl<'s> Batch<'s> {
    fn new(source: &'s Source, file: usize, first: u64) -> Self {
        // At once: a buffer that grows step by step leaves holes of every size behind.
        let (bytes, entries) = (Vec::with_capacity(BYTES + BYTES / 4), Vec::with_capacity(ENTRIES));
        Self { source, file, first, bytes, entries, missing: Vec::new() }
    }

    fn push(&mut self, at: At, entry: Entry<'_>, mark: Option<Mark>) {
        let owned = match entry {
            Entry::Line(line) => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(line);
                Owned::Line(start..self.bytes.len())
            }
            Entry::Mail(mail) => Owned::Mail(mail),
            Entry::Row(row) => Owned::Row(row),
            Entry::Bad(problems) => Owned::Bad(problems),
        };
        self.entries.push((at, owned, mark));
    }

    /// The number of the entry after the last.
    fn end(&self) -> u64 {
        self.first + (self.entries.len() + self.missing.len()) as u64
    }

    fn is_full(&self) -> bool {
        self.entries.len() + self.missing.len() >= ENTRIES || self.bytes.len() >= BYTES
    }

    /// Takes each entry with its number, its place, and its mark where there are marks. An entry that is gone is none.
    pub(crate) fn each(self, mut take: impl FnMut(u64, At, Option<Entry<'_>>, Option<Mark>)) {
        let mut index = self.first;
        for (at, owned, mark) in self.entries {
            let entry = match owned {
                Owned::Line(range) => Entry::Line(self.bytes.get(range).unwrap_or_default()),
                Owned::Mail(mail) => Entry::Mail(mail),
                Owned::Row(row) => Entry::Row(row),
                Owned::Bad(problems) => Entry::Bad(problems),
            };
            take(index, at, Some(entry), mark);
            index += 1;
        }
        for mark in self.missing {
            take(index, At { line: 0, offset: 0 }, None, Some(mark));
            index += 1;
        }
    }
}

/// What was checked: how many entries each source has, and a mark for each entry.
pub(crate) struct Known<'a> {
    pub(crate) entries: &'a [u64],
    pub(crate) marks: Marked<'a>,
}

/// Reads all sources. `work` runs on several threads; `take` gets its results in order, and may end the reading.
pub(crate) fn in_batches<'s, R: Send>(
    sources: &'s [Source],
    known: Option<Known<'_>>,
    work: impl Fn(Batch<'s>) -> R + Sync,
    take: impl FnMut(R) -> ControlFlow<()>,
) -> Result<(), Failure> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let (to_work, batches) = mpsc::sync_channel::<(u64, Batch<'s>)>(threads);
    let (to_order, results) = mpsc::sync_channel::<(u64, R)>(threads);
    let batches = Arc::new(Mutex::new(batches));
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut numbers = 0..;
            read(sources, known, |batch| {
                let numbered = numbers.next().map(|number| (number, batch));
                numbered.map_or(ControlFlow::Break(()), |numbered| match to_work.send(numbered) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                })
            })
        });
        for _ in 0..threads {
            let (to_order, batches, work) = (to_order.clone(), Arc::clone(&batches), &work);
            scope.spawn(move || {
                loop {
                    let next = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((number, batch)) = next else { return };
                    if to_order.send((number, work(batch))).is_err() {
                        return;
                    }
                }
            });
        }
        // Each side ends when the other is gone: these two are only held by the threads from here on.
        drop((to_order, batches));
        in_order(results, take);
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn in_order<R>(results: mpsc::Receiver<(u64, R)>, mut take: impl FnMut(R) -> ControlFlow<()>) {
    let (mut next, mut early) = (0, BTreeMap::new());
    for (number, result) in results {
        early.insert(number, result);
        while let Some(result) = early.remove(&next) {
            next += 1;
            if take(result).is_break() {
                return;
            }
        }
    }
}

fn read<'s>(
    sources: &'s [Source],
    known: Option<Known<'_>>,
    mut give: impl FnMut(Batch<'s>) -> ControlFlow<()>,
) -> Result<(), Failure> {
    let mut first = 0;
    let (counts, mut marks) = known.map(|known| (known.entries, known.marks)).unzip();
    for (file, source) in sources.iter().enumerate() {
        let count = counts.map(|counts| counts.get(file).copied().unwrap_or_default());
        let read = match (count, &mut marks) {
            (Some(count), Some(marks)) => read_marked(source, file, first, count, marks, &mut give)?,
            _ => read_all(source, file, first, &mut give)?,
        };
        let ControlFlow::Continue(entries) = read else { break };
        first += entries;
    }
    Ok(())
}

/// Answers how many entries there are.
fn read_all<'s>(
    source: &'s Source,
    file: usize,
    first: u64,
    give: &mut impl FnMut(Batch<'s>) -> ControlFlow<()>,
) -> Result<ControlFlow<(), u64>, Failure> {
    let mut reader = source.read()?;
    let mut batch = Batch::new(source, file, first);
    while let Some((at, entry)) = reader.next().map_err(|error| source.broken(&error))? {
        batch.push(at, entry, None);
        if batch.is_full() {
            let next = Batch::new(source, file, batch.end());
            if give(std::mem::replace(&mut batch, next)).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    let end = batch.end();
    Ok(give(batch).map_continue(|()| end - first))
}

/// As many entries as there are marks. Those that cannot be read any more are gone, each by itself; those that were
/// added are not looked at.
fn read_marked<'s>(
    source: &'s Source,
    file: usize,
    first: u64,
    count: u64,
    marks: &mut Marked<'_>,
    give: &mut impl FnMut(Batch<'s>) -> ControlFlow<()>,
) -> Result<ControlFlow<(), u64>, Failure> {
    let mut reader = source.read().ok();
    let mut batch = Batch::new(source, file, first);
    for _ in 0..count {
        let mark = marks.next().map_err(|error| source.broken(&error))?.unwrap_or(Mark::Invalid);
        let found = reader.as_mut().and_then(|reader| reader.next().unwrap_or_default());
        match found {
            Some((at, entry)) => batch.push(at, entry, Some(mark)),
            None => {
                batch.missing.push(mark);
                reader = None;
            }
        }
        if batch.is_full() {
            let next = Batch::new(source, file, batch.end());
            if give(std::mem::replace(&mut batch, next)).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(give(batch).map_continue(|()| count))
}

#[cfg(test)]
mod tests {
    use super::{super::marks::Marking, *};
    use std::{fs, path::Path};

    fn source(path: &Path) -> Source {
        Source::open(path, super::super::Opening { format: None, has_template: false, delimiter: None })
            .unwrap()
    }

    fn texts(sources: &[Source], known: Option<Known<'_>>, most: usize) -> Vec<(u64, u64, Option<String>)> {
        let mut all = Vec::new();
        let work = |batch: Batch<'_>| {
            let mut found = Vec::new();
            batch.each(|index, at, entry, _| {
                let text = entry.map(|entry| match entry {
                    Entry::Line(line) => String::from_utf8_lossy(line).into_owned(),
                    other => format!("{other:?}"),
                });
                found.push((index, at.line, text));
            });
            found
        };
        in_batches(sources, known, work, |found| {
            all.extend(found);
            if all.len() >= most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
        all
    }

    #[test]
    fn entries_of_all_sources_come_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a.jsonl"), folder.path().join("b.jsonl"));
        fs::write(&a, (0..3000).map(|i| i.to_string() + "\n").collect::<String>()).unwrap();
        fs::write(&b, "x\n\ny").unwrap();
        let all = texts(&[source(&a), source(&b)], None, usize::MAX);
        assert_eq!(all.len(), 3002);
        for (i, (index, line, text)) in all.iter().take(3000).enumerate() {
            assert_eq!((*index, *line, text.clone().unwrap()), (i as u64, i as u64 + 1, i.to_string()));
        }
        assert_eq!(all[3000..], [(3000, 1, Some("x".to_owned())), (3001, 3, Some("y".to_owned()))]);
    }

    #[test]
    fn reading_may_be_ended_early() {
        let folder = tempfile::tempdir().unwrap();
        let a = folder.path().join("a.jsonl");
        fs::write(&a, "line\n".repeat(100_000)).unwrap();
        assert!(texts(&[source(&a)], None, 10).len() < 1000);
    }

    #[test]
    fn entries_that_went_away_are_none_and_those_that_came_are_not_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a.jsonl"), folder.path().join("b.jsonl"));
        fs::write(&a, "1\n").unwrap();
        fs::write(&b, "3\n4\n").unwrap();
        let sources = [source(&a), source(&b)];
        let mut marking = Marking::new();
        (0..3).for_each(|_| marking.push(Mark::Invalid).unwrap());
        let mut marks = marking.finish().unwrap();
        let known = Known { entries: &[2, 1], marks: marks.read().unwrap() };
        let all = texts(&sources, Some(known), usize::MAX);
        assert_eq!(all, [(0, 1, Some("1".to_owned())), (1, 0, None), (2, 1, Some("3".to_owned()))]);
        fs::remove_file(&a).unwrap();
        let known = Known { entries: &[2, 1], marks: marks.read().unwrap() };
        assert_eq!(texts(&sources, Some(known), usize::MAX)[1].2, None);
    }
}
