//! The second pass: entries become messages, in order, a little ahead of the transport.

use super::{
    check::{Checked, Checker},
    input::{At, Batch, Draft, Mail, Mark, Problem, Problems, Reader, changed, in_batches, place},
};
use hapax::{Key, mail::Stamp};
use std::{collections::VecDeque, ops::ControlFlow, thread};
use tokio::sync::mpsc;

/// So many messages go to the transport's side at once.
const CHUNK: usize = 64;
/// A chunk with so many bytes is full: a mail with large attachments goes alone.
const CHUNK_BYTES: usize = 512 * 1024;

/// One message, and where it comes from.
#[derive(Debug)]
pub(super) struct Fed {
    pub(super) slot: Slot,
    pub(super) mail: Result<Mail, Problems>,
}

/// A place in the input.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) index: u64,
    pub(super) file: u32,
    pub(super) at: At,
    pub(super) key: Option<Key>,
    stamp: Option<Stamp>,
}

impl Slot {
    /// For people.
    pub(super) fn place(&self, checker: &Checker) -> String {
        checker.sources.get(self.file as usize).map_or_else(String::new, |source| place(source, self.at.line))
    }
}

/// Messages in order, as they are read.
#[derive(Debug)]
pub(super) struct Feed {
    chunks: mpsc::Receiver<Vec<Fed>>,
    chunk: VecDeque<Fed>,
}

impl Feed {
    /// Starts to read. The reading ends with the entries, or when the feed is dropped.
    pub(super) fn start(mut checked: Checked) -> (Self, std::sync::Arc<Checker>)
    where
        Checker: Send,
    {
        let _ = &mut checked;
        unimplemented!()
    }
}
