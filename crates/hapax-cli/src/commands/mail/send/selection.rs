//! `--only-failed`: which entries an earlier report says to send again.

use crate::{failure::Failure, text};
use hapax::{Key, core::Fingerprint};
use serde::Deserialize;
use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::{BufRead, BufReader, Read as _},
    path::Path,
};

/// A line of a report is a receipt: longer ones are none.
const MAX_LINE: u64 = 4 * 1024 * 1024;

/// What is sent again: by key, and without one by place.
#[derive(Debug, Default)]
pub(super) struct Selection {
    keys: HashSet<Digest>,
    indices: HashSet<u64>,
}

type Digest = [u8; 16];

#[derive(Deserialize)]
struct Line<'a> {
    index: u64,
    #[serde(borrow)]
    key: Option<std::borrow::Cow<'a, str>>,
    outcome: Option<&'a str>,
    #[serde(default)]
    retryable: bool,
    #[serde(default)]
    delivery_unknown: bool,
}

/// The last word of a report about an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Again,
    Not,
}

impl Selection {
    /// Reads a report: entries that failed and may fare better, with `permanent` also those that failed for good.
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
            let again =
                line.outcome == Some("failed") && !line.delivery_unknown && (line.retryable || permanent);
            let last = if again { Last::Again } else { Last::Not };
            // Only those that are sent again are remembered: a long report of successes takes no memory.
            match line.key {
                Some(key) => note(&mut keys, digest(&key), last),
                None => note(&mut indices, line.index, last),
            }
        }
        Ok(Self { keys: again(keys), indices: again(indices) })
    }

    /// Whether the report says so.
    pub(super) fn contains(&self, index: u64, key: Option<&Key>) -> bool {
        match key {
            Some(key) => self.keys.contains(&digest(key.as_str())),
            None => self.indices.contains(&index),
        }
    }
}

fn note<K: std::hash::Hash + Eq>(map: &mut HashMap<K, Last>, at: K, last: Last) {
    match last {
        Last::Again => map.insert(at, last),
        Last::Not => map.remove(&at),
    };
}

fn again<K: std::hash::Hash + Eq>(map: HashMap<K, Last>) -> HashSet<K> {
    map.into_keys().collect()
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
        keys.into_iter().filter(|key| selection.contains(9, Some(&Key::new(key).unwrap()))).collect()
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
        assert!(selection.contains(4, None) && !selection.contains(1, None));
    }

    #[test]
    fn what_is_no_report_is_refused_with_its_line() {
        let failure = Selection::from_lines(&b"\n{\"to\":\"x\"}\n"[..], false, "r.jsonl").unwrap_err();
        assert!(format!("{failure:?}").contains("r.jsonl:2"), "{failure:?}");
    }
}
