//! `--only-failed`: which entries an earlier report says to send again.

use super::tally::IN_FLIGHT;
use crate::{failure::Failure, text};
use hapax::{Key, core::Fingerprint};
use serde::Deserialize;
use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead, BufReader, Read as _},
    path::Path,
};

/// A line of a report is a receipt: longer ones are none.
const MAX_LINE: u64 = 4 * 1024 * 1024;

/// What the report says: by key, and without one by place. Everything in it is remembered, some twenty bytes a line:
/// what a run that was cut short never came to is not there, and has to be told from what was sent.
#[derive(Debug)]
pub(super) struct Selection {
    shown: String,
    keys: HashMap<Digest, Last>,
    indices: HashMap<u64, Last>,
}

type Digest = [u8; 16];

const WHOLE: &str = "run without --only-failed: it sends what is left";

#[derive(Deserialize)]
struct Line<'a> {
    index: u64,
    #[serde(borrow)]
    key: Option<std::borrow::Cow<'a, str>>,
    outcome: Option<&'a str>,
    #[serde(borrow)]
    code: Option<std::borrow::Cow<'a, str>>,
    #[serde(default)]
    retryable: bool,
    #[serde(default)]
    delivery_unknown: bool,
}

/// The last word of a report about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// It is to be sent again.
    Again,
    /// It was sent, or may have been, or there is no use in another try.
    Not,
}

impl Selection {
    /// Reads a report: entries that failed and may fare better or were in flight, with `permanent` also those that
    /// failed for good.
    pub(super) fn read(path: &Path, permanent: bool) -> Result<Self, Failure> {
        let shown = text::shown(&path.display().to_string());
        let cannot =
            |error: std::io::Error| Failure::input(format!("the report {shown} cannot be read: {error}"));
        Self::from_lines(BufReader::new(File::open(path).map_err(cannot)?), permanent, &shown)
    }

    fn from_lines(mut report: impl BufRead, permanent: bool, shown: &str) -> Result<Self, Failure> {
        let cannot =
            |error: std::io::Error| Failure::input(format!("the report {shown} cannot be read: {error}"));
        let mut keys: HashMap<Digest, Last> = HashMap::new();
        let mut indices: HashMap<u64, Last> = HashMap::new();
        let (mut text, mut number) = (Vec::new(), 0_u64);
        loop {
            text.clear();
            if (&mut report).take(MAX_LINE).read_until(b'\n', &mut text).map_err(cannot)? == 0 {
                break;
            }
            number += 1;
            if text.trim_ascii().is_empty() {
                continue;
            }
            let line: Line<'_> = serde_json::from_slice(&text).map_err(|error| {
                let reason = error.to_string().replace(" at line 1 column ", " at column ");
                Failure::input(format!("{shown}:{number}: it is no line of a report: {reason}"))
                    .help("a report is what an earlier `hapax mail send --json` printed")
            })?;
            let failed = !line.delivery_unknown && (line.retryable || permanent);
            // Another run held the key: the store knows whether that one sent it.
            let in_flight = line.code.as_deref() == Some(IN_FLIGHT);
            let again = line.outcome == Some("failed") && (failed || in_flight);
            let last = if again { Last::Again } else { Last::Not };
            match line.key {
                Some(key) => keys.insert(digest(&key), last),
                None => indices.insert(line.index, last),
            };
        }
        if keys.is_empty() && indices.is_empty() {
            return Err(Failure::input(format!("the report {shown} is empty")).help(WHOLE));
        }
        Ok(Self { shown: shown.to_owned(), keys, indices })
    }

    /// What the report says of an entry, if it is there.
    pub(super) fn last(&self, index: u64, key: Option<&Key>) -> Option<Last> {
        match key {
            Some(key) => self.keys.get(&digest(key.as_str())).copied(),
            None => self.indices.get(&index).copied(),
        }
    }

    /// The report is that of another input.
    pub(super) fn foreign(&self) -> Failure {
        let message = format!("no line of the report {} belongs to a message of the input", self.shown);
        Failure::input(message).help(WHOLE)
    }
}

fn digest(key: &str) -> Digest {
    let whole = Fingerprint::of_bytes(key.as_bytes());
    let mut short = [0; 16];
    short.iter_mut().zip(whole.digest()).for_each(|(to, from)| *to = *from);
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"index":0,"key":"a","outcome":"accepted","retryable":false,"delivery_unknown":false}
{"index":1,"key":"b","outcome":"failed","retryable":true,"delivery_unknown":false}
{"index":2,"key":"c","outcome":"failed","retryable":false,"delivery_unknown":false}
{"index":3,"key":"d","outcome":"failed","retryable":false,"delivery_unknown":true}

{"index":4,"key":null,"outcome":"failed","retryable":true,"delivery_unknown":false,"extra":[1]}
{"index":5,"key":"e","outcome":"failed","retryable":true,"delivery_unknown":false}
{"index":5,"key":"e","outcome":"accepted","retryable":false,"delivery_unknown":false}
"#;

    fn selected(permanent: bool) -> Vec<&'static str> {
        let selection = Selection::from_lines(REPORT.as_bytes(), permanent, "r").unwrap();
        let keys = ["a", "b", "c", "d", "e"];
        let last = |key: &str| selection.last(9, Some(&Key::new(key).unwrap()));
        keys.into_iter().filter(|key| last(key) == Some(Last::Again)).collect()
    }

    #[test]
    fn what_failed_and_may_pass_is_sent_again() {
        assert_eq!(selected(false), ["b"]);
    }

    #[test]
    fn permanent_failures_are_added_on_request_and_unknown_ones_never() {
        assert_eq!(selected(true), ["b", "c"]);
    }

    #[test]
    fn entries_without_a_key_go_by_their_place() {
        let selection = Selection::from_lines(REPORT.as_bytes(), false, "r").unwrap();
        assert_eq!(selection.last(4, None), Some(Last::Again));
        assert_eq!(selection.last(1, None), None);
    }

    #[test]
    fn what_was_in_flight_is_sent_again_and_what_is_not_there_is_told_from_what_was_sent() {
        let report = r#"{"index":0,"key":"f","outcome":"failed","code":"idempotency.in_flight","retryable":true,"delivery_unknown":true}
{"index":1,"key":"g","outcome":"accepted"}"#;
        let selection = Selection::from_lines(report.as_bytes(), false, "r").unwrap();
        let last = |key: &str| selection.last(9, Some(&Key::new(key).unwrap()));
        assert_eq!((last("f"), last("g"), last("h")), (Some(Last::Again), Some(Last::Not), None));
        assert!(Selection::from_lines(&b"\n"[..], false, "r").is_err());
    }

    #[test]
    fn what_is_no_report_is_refused_with_its_line() {
        let failure = Selection::from_lines(&b"\n{\"to\":\"x\"}\n"[..], false, "r.jsonl").unwrap_err();
        assert!(format!("{failure:?}").contains("r.jsonl:2"), "{failure:?}");
    }
}
