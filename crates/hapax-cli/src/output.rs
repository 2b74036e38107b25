//! Data on stdout, everything else on stderr.
//!
//! A closed stdout ends the output, not the work: `hapax … | head -1` goes on to its end, quietly.

use crate::failure::Failure;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use std::{
    io::{self, ErrorKind, IsTerminal, Write},
    sync::atomic::{AtomicBool, Ordering},
};

/// Where a command writes.
#[derive(Debug)]
pub(crate) struct Output {
    /// Objects instead of text.
    pub(crate) json: bool,
    /// No notes.
    pub(crate) quiet: bool,
    closed: AtomicBool,
    failed: AtomicBool,
    changed: AtomicBool,
}

impl Output {
    pub(crate) fn new(json: bool, quiet: bool) -> Self {
        Self {
            json,
            quiet,
            closed: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            changed: AtomicBool::new(false),
        }
    }

    /// Bytes, as they are.
    pub(crate) fn bytes(&self, bytes: &[u8]) {
        if self.is_closed() {
            return;
        }
        let mut stdout = io::stdout().lock();
        if let Err(error) = stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            self.closed.store(true, Ordering::Relaxed);
            if error.kind() != ErrorKind::BrokenPipe {
                self.failed.store(true, Ordering::Relaxed);
                warn(&format!("stdout can no longer be written: {error}"));
            }
        }
    }

    /// A line of text.
    pub(crate) fn line(&self, text: &str) {
        self.bytes(format!("{text}\n").as_bytes());
    }

    /// A line of JSON.
    pub(crate) fn object(&self, object: &impl Serialize) {
        match serde_json::to_string(object) {
            Ok(line) => self.line(&line),
            Err(error) => warn(&format!("an answer has no form in JSON: {error}")),
        }
    }

    /// A list: a table for people, lines of cells with tabs between them for programs.
    pub(crate) fn list(&self, header: &[&str], rows: &[Vec<String>]) {
        if !io::stdout().is_terminal() {
            for row in rows {
                self.line(&row.join("\t"));
            }
            return;
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        if let Some(width) = width() {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        table.set_header(header.iter().copied());
        table.add_rows(rows);
        self.line(&table.trim_fmt());
    }

    /// Whether nobody reads any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// A note on stderr, unless they are not wanted.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            say(text);
        }
    }

    /// From here on something is done that lasts: whoever sees the command fail would do it again. What cannot be written is
    /// said on stderr, and the exit code is that of the work.
    pub(crate) fn changed(&self) {
        self.changed.store(true, Ordering::Relaxed);
    }

    /// What a command whose work was the output has to end with. After [`changed`](Self::changed) it was not.
    pub(crate) fn end(&self) -> Result<(), Failure> {
        if self.failed.load(Ordering::Relaxed) && !self.changed.load(Ordering::Relaxed) {
            let exit = crate::exit::Exit::ItemFailed;
            return Err(Failure::new(exit, "command.output", "the output could not be written whole"));
        }
        Ok(())
    }
}

/// The columns of the terminal on stdout.
#[cfg(unix)]
fn width() -> Option<u16> {
    rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col).filter(|columns| *columns > 0)
}

#[cfg(not(unix))]
fn width() -> Option<u16> {
    None
}

/// A line on stderr, in one write, so that lines of several processes do not mix.
pub(crate) fn say(text: &str) {
    // Nobody is left to be told when this fails.
    let _ = io::stderr().write_all(format!("hapax: {text}\n").as_bytes());
}

/// What has to be known, notes wanted or not.
pub(crate) fn warn(text: &str) {
    say(&format!("warning: {text}"));
}

/// Bytes on stderr, as they are.
pub(crate) fn stderr_bytes(bytes: &[u8]) {
    let _ = io::stderr().write_all(bytes);
}
