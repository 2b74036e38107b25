//! What is said about each message: an object on stdout with `--json`, and without it a line on stderr for what went
//! wrong.

use super::{
    check::{Bad, Checker},
    feed::Slot,
    progress::Progress,
    tally::{Ending, IN_FLIGHT},
};
use crate::{
    duration,
    output::{self, Output},
    text,
};
use hapax::{
    CodeInfo, Key,
    mail::{Outcome, Receipt},
};
use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    io::{self, IsTerminal as _},
};

/// So much is gathered before it is written, while there is more to come.
const BUFFER: usize = 24 * 1024;
/// So many messages are spelled out on stderr.
const MOST_SHOWN: u64 = 100;

/// What was said, and where.
pub(super) struct Report<'a> {
    output: &'a Output,
    progress: &'a Progress,
    /// Entries that are not valid are reported twice: at the check for people, in their order for programs.
    skips_invalid: bool,
    /// Whether data goes where the bar is.
    shares_terminal: bool,
    buffer: Vec<u8>,
    shown: u64,
    hidden: u64,
    codes: HashMap<&'static str, CodeInfo>,
    explained: HashSet<String>,
}

impl<'a> Report<'a> {
    pub(super) fn new(output: &'a Output, progress: &'a Progress, skips_invalid: bool) -> Self {
        let codes = hapax::codes().into_iter().map(|info| (info.code, info)).collect();
        let (buffer, explained) = (Vec::with_capacity(BUFFER * 2), HashSet::new());
        Self {
            output,
            progress,
            skips_invalid,
            shares_terminal: io::stdout().is_terminal(),
            buffer,
            shown: 0,
            hidden: 0,
            codes,
            explained,
        }
    }

    /// What became of a message.
    pub(super) fn receipt(&mut self, slot: &Slot, receipt: &Receipt, checker: &Checker) {
        if self.output.json {
            return self.object(slot.index, slot.key.as_ref(), receipt, &slot.place(checker));
        }
        if slot.stamp.is_none() {
            return;
        }
        let (what, failure) = match (&receipt.outcome, Ending::of(receipt)) {
            (Outcome::Accepted, _) | (_, Ending::Left) => return,
            (Outcome::Unknown(failure), Ending::InFlight) => ("another run is sending it", failure),
            (Outcome::Failed(failure), _) => ("not sent", failure),
            (Outcome::Unknown(failure), _) => ("it may have been sent", failure),
        };
        if !self.has_room() {
            return;
        }
        let mut line = slot.place(checker);
        if let Some(key) = &slot.key {
            let _ = write!(line, ": {}", text::shown(key.as_str()));
        }
        let _ = write!(line, ": {what}");
        let meaning = self.codes.get(&*failure.code).map(|info| info.meaning);
        match (failure.detail.as_deref().or(meaning), failure.retry_after) {
            (_, Some(wait)) if failure.code == IN_FLIGHT => {
                let _ = write!(line, ", for {} at most unless it goes on", duration::format_rough(wait));
            }
            (Some(detail), _) => {
                let _ = write!(line, ": {}", text::shown(detail));
            }
            (None, _) => {}
        }
        if let Some(response) = &receipt.response {
            let _ = write!(line, ": {}", text::shown(response));
        }
        let _ = write!(line, " ({})", text::shown(&failure.code));
        if self.explained.insert(failure.code.to_string())
            && let Some(info) = self.codes.get(&*failure.code)
        {
            let _ = write!(line, "\n  help: {}", info.remedy);
        }
        self.say(&line);
    }

    /// An entry that is not valid: each fault on a line of its own, as `FILE:LINE: field: reason`.
    pub(super) fn bad(&mut self, bad: &Bad) {
        if self.output.json && !self.skips_invalid {
            self.object(bad.index, None, &bad.problems.receipt(), &bad.place);
        }
        if !self.has_room() {
            return;
        }
        self.progress.aside(|| output::stderr_bytes(bad.lines().as_bytes()));
    }

    fn has_room(&mut self) -> bool {
        let room = self.shown < MOST_SHOWN;
        if room {
            self.shown += 1;
        } else {
            self.hidden += 1;
        }
        room
    }

    fn object(&mut self, index: u64, key: Option<&Key>, receipt: &Receipt, place: &str) {
        let start = self.buffer.len();
        if let Err(error) = write_object(&mut self.buffer, index, key, receipt, place) {
            self.buffer.truncate(start);
            self.say(&format!("warning: a receipt has no form in JSON: {error}"));
        }
        if self.buffer.len() >= BUFFER {
            self.flush();
        }
    }

    /// A line of any kind, for programs.
    pub(super) fn line(&mut self, line: &str) {
        self.buffer.extend_from_slice(line.as_bytes());
        self.buffer.push(b'\n');
        if self.buffer.len() >= BUFFER {
            self.flush();
        }
    }

    /// Writes what was gathered.
    pub(super) fn flush(&mut self) {
        if !self.buffer.is_empty() {
            if self.shares_terminal {
                self.progress.aside(|| self.output.bytes(&self.buffer));
            } else {
                self.output.bytes(&self.buffer);
            }
            self.buffer.clear();
        }
    }

    /// What has to be known.
    pub(super) fn say(&self, text: &str) {
        self.progress.aside(|| output::say(text));
    }

    /// The end: how many more there are than were spelled out.
    pub(super) fn finish(&mut self) {
        self.flush();
        match std::mem::take(&mut self.hidden) {
            0 => {}
            hidden => self.say(&format!("and {hidden} more: --json lists all")),
        }
        self.shown = 0;
    }
}

/// The receipt's own object, with three fields before its first.
fn write_object(
    out: &mut Vec<u8>,
    index: u64,
    key: Option<&Key>,
    receipt: &Receipt,
    place: &str,
) -> serde_json::Result<()> {
    out.extend_from_slice(b"{\"index\":");
    serde_json::to_writer(&mut *out, &index)?;
    out.extend_from_slice(b",\"key\":");
    serde_json::to_writer(&mut *out, &key.map(Key::as_str))?;
    out.extend_from_slice(b",\"place\":");
    serde_json::to_writer(&mut *out, place)?;
    let brace = out.len();
    serde_json::to_writer(&mut *out, receipt)?;
    if let Some(brace) = out.get_mut(brace) {
        *brace = b',';
    }
    out.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_the_place_and_the_receipt() {
        let mut out = Vec::new();
        let key = Key::new("a,\"b").unwrap();
        write_object(&mut out, 3, Some(&key), &Receipt::accepted(), "a.jsonl:4").unwrap();
        write_object(&mut out, 4, None, &Receipt::accepted(), "-:5").unwrap();
        let lines: Vec<serde_json::Value> =
            String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["key"], "a,\"b");
        assert_eq!(lines[0]["index"], 3);
        assert_eq!(lines[0]["place"], "a.jsonl:4");
        assert_eq!(lines[0]["outcome"], "accepted");
        assert_eq!(lines[1]["key"], serde_json::Value::Null);
    }
}
