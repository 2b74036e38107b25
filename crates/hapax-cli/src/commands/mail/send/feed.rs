//! The second pass: entries become messages, in order, a little ahead of the transport.

use super::{
    check::{Checked, Checker, used_by},
    input::{At, Batch, Draft, Mail, Mark, Problems, changed, in_batches, place},
};
use crate::failure::Failure;
use hapax::{Key, mail::Stamp};
use std::{
    collections::VecDeque,
    ops::ControlFlow,
    sync::Arc,
    task::{Context, Poll, ready},
    thread,
};
use tokio::sync::mpsc;

/// So many messages go to the transport's side at once.
const CHUNK: usize = 64;
/// A chunk with so many bytes is full: a mail with large attachments goes alone.
const CHUNK_BYTES: usize = 512 * 1024;

/// One message, and where it comes from.
#[derive(Debug)]
pub(in super::super) struct Fed {
    pub(in super::super) slot: Slot,
    pub(in super::super) mail: Result<Mail, Problems>,
}

/// A place in the input.
#[derive(Clone, Debug)]
pub(in super::super) struct Slot {
    pub(in super::super) index: u64,
    pub(super) file: usize,
    pub(super) at: At,
    pub(in super::super) key: Option<Key>,
    /// Of an entry that is sent if it still looks so.
    pub(super) stamp: Option<Stamp>,
}

impl Slot {
    /// For people.
    pub(in super::super) fn place(&self, checker: &Checker) -> String {
        checker.sources.get(self.file).map_or_else(String::new, |source| place(source, self.at.line))
    }
}

/// Messages in order, as they are read.
#[derive(Debug)]
pub(in super::super) struct Feed {
    chunks: mpsc::Receiver<Result<Vec<Fed>, Failure>>,
    chunk: VecDeque<Fed>,
    /// Why the reading ended early.
    failure: Option<Failure>,
}

impl Feed {
    /// Starts to read. The reading ends with the entries, or when the feed is dropped.
    pub(in super::super) fn start(mut checked: Checked) -> Self {
        // Two: one on its way, one being filled.
        let (sender, chunks) = mpsc::channel(1);
        thread::spawn(move || {
            if let Err(failure) = read(&mut checked, &sender) {
                let _ = sender.blocking_send(Err(failure));
            }
        });
        Self { chunks, chunk: VecDeque::new(), failure: None }
    }

    /// Makes sure that the next message is here, unless there is none.
    pub(in super::super) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.chunk.is_empty() {
            match ready!(self.chunks.poll_recv(cx)) {
                Some(Ok(chunk)) => self.chunk = chunk.into(),
                Some(Err(failure)) => self.failure = Some(failure),
                None => break,
            }
        }
        Poll::Ready(())
    }

    /// The next message, if it is here.
    pub(super) fn peek(&self) -> Option<&Fed> {
        self.chunk.front()
    }

    pub(in super::super) fn pop(&mut self) -> Option<Fed> {
        self.chunk.pop_front()
    }

    /// Why not everything could be read.
    pub(in super::super) fn end(&mut self) -> Result<(), Failure> {
        self.failure.take().map_or(Ok(()), Err)
    }
}

fn read(checked: &mut Checked, sender: &mpsc::Sender<Result<Vec<Fed>, Failure>>) -> Result<(), Failure> {
    let checker = Arc::clone(&checked.checker);
    let known = checked.known()?;
    let mut chunk = Vec::new();
    let mut bytes = 0;
    let work = |batch: Batch<'_>| half_made(&checker, batch);
    in_batches(&checker.sources, Some(known), work, |found| {
        for (slot, half) in found {
            let fed = finish(&checker, slot, half);
            bytes += fed.mail.as_ref().map_or(0, Mail::weight);
            chunk.push(fed);
            if chunk.len() >= CHUNK || bytes >= CHUNK_BYTES {
                bytes = 0;
                if sender.blocking_send(Ok(std::mem::take(&mut chunk))).is_err() {
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    // Nobody may be left to take it.
    let _ = sender.blocking_send(Ok(chunk));
    Ok(())
}

/// Files are read in order and late: several threads at it would hold too many at a time.
enum Half {
    Made(Box<Result<Mail, Problems>>),
    WithFiles(Box<Draft>),
}

fn half_made(checker: &Checker, batch: Batch<'_>) -> Vec<(Slot, Half)> {
    let (source, file) = (batch.source, batch.file);
    let mut found = Vec::new();
    batch.each(|index, at, entry, mark| {
        let stamp = match mark {
            Some(Mark::Send(stamp)) => Some(stamp),
            Some(Mark::LeftOut) => return,
            _ => None,
        };
        let mut slot = Slot { index, file, at, key: None, stamp };
        let Some(entry) = entry else {
            found.push((slot, Half::Made(Box::new(Err(changed())))));
            return;
        };
        let half = match (checker.drafter.draft(entry, at.line, source), stamp) {
            (Ok(draft), None) if mark == Some(Mark::Clash) => {
                slot.key = draft.key();
                Half::Made(Box::new(Err(used_by("an earlier line").into())))
            }
            (Err(problems), None) => Half::Made(Box::new(Err(problems))),
            // It was reported as invalid: for what it still is, or it is something else now.
            (Ok(draft), None) => {
                let problems = checker.fitting(draft, source).err().unwrap_or_else(changed);
                Half::Made(Box::new(Err(problems)))
            }
            (Err(_), Some(_)) => Half::Made(Box::new(Err(changed()))),
            (Ok(draft), Some(stamp)) => {
                slot.key = draft.key();
                if draft.has_files() {
                    Half::WithFiles(Box::new(draft))
                } else {
                    Half::Made(Box::new(draft.load(source, Some(stamp))))
                }
            }
        };
        found.push((slot, half));
    });
    found
}

fn finish(checker: &Checker, slot: Slot, half: Half) -> Fed {
    let mail = match half {
        Half::Made(mail) => *mail,
        Half::WithFiles(draft) => match checker.sources.get(slot.file) {
            Some(source) => draft.load(source, slot.stamp),
            None => Err(changed()),
        },
    };
    Fed { slot, mail }
}

/// Reads messages again that were read before.
pub(super) fn again(checker: &Checker, slots: &[Slot]) -> Vec<Fed> {
    let mut reader = None;
    slots
        .iter()
        .map(|slot| {
            let Some(source) = checker.sources.get(slot.file) else {
                return Fed { slot: slot.clone(), mail: Err(changed()) };
            };
            let opened = match reader.take() {
                Some((file, reader)) if file == slot.file => Some(reader),
                _ => source.read().ok(),
            };
            let mut opened = opened.and_then(|reader| reader.seek(slot.at).ok());
            let found = opened.as_mut().and_then(|reader| reader.next().ok().flatten());
            let mail = match found {
                Some((at, entry)) if at == slot.at => {
                    let draft = checker.drafter.draft(entry, at.line, source);
                    draft.map_err(|_| changed()).and_then(|draft| draft.load(source, slot.stamp))
                }
                _ => Err(changed()),
            };
            // A file that is one mail is read once.
            reader = opened.filter(|_| slot.at.line > 0).map(|reader| (slot.file, reader));
            Fed { slot: slot.clone(), mail }
        })
        .collect()
}
