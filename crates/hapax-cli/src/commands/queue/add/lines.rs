//! Payloads, one a line. What cannot be read twice is spooled to a file without a name.

use super::many::{CHUNK_BYTES, Item, Place};
use crate::{failure::Failure, output, text};
use bytes::Bytes;
use hapax::{Key, core::queue::MOST, queue::raw::MAX_PAYLOAD};
use serde_json::Value;
use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write},
};

/// More lines than this that are wrong are only counted.
const SAID: u64 = 10;

/// Lines that have been checked.
#[derive(Debug)]
pub(super) struct Lines {
    file: BufReader<File>,
    number: u64,
    jobs: u64,
}

impl Lines {
    /// Reads all of them. Each has to have a job id there, or at least a value.
    pub(super) fn check(
        input: impl BufRead,
        job_id_by: Option<&str>,
        unique_by: Option<&str>,
    ) -> Result<Self, Failure> {
        let broken = |error: io::Error| Failure::input(format!("standard input cannot be read: {error}"));
        let spooled = |error: io::Error| {
            Failure::new(
                crate::exit::Exit::Unreachable,
                "store.unavailable",
                format!("no copy of standard input can be kept: {error}"),
            )
            .help("make room in the folder that TMPDIR names")
        };
        let mut input = input;
        let mut copy = BufWriter::new(tempfile::tempfile().map_err(spooled)?);
        let (mut line, mut number, mut jobs, mut wrong) = (Vec::new(), 0, 0, 0_u64);
        while next(&mut input, &mut line).map_err(broken)? {
            number += 1;
            match check(&line, job_id_by, unique_by) {
                Ok(true) => jobs += 1,
                Ok(false) => {}
                Err(why) => {
                    wrong += 1;
                    if wrong <= SAID {
                        output::say(&format!("line {number}: {}", text::shown(&why)));
                    }
                }
            }
            if wrong == 0 {
                copy.write_all(&line).and_then(|()| copy.write_all(b"\n")).map_err(spooled)?;
            }
        }
        if wrong > 0 {
            let lines = if wrong == 1 { "line is" } else { "lines are" };
            return Err(Failure::input(format!("{wrong} {lines} invalid: nothing was added"))
                .help("each line is one JSON value of at most 1 MiB"));
        }
        let mut file = copy.into_inner().map_err(|error| spooled(error.into_error()))?;
        file.rewind().map_err(spooled)?;
        Ok(Self { file: BufReader::new(file), number: 0, jobs })
    }

    /// How many jobs they are.
    pub(super) fn jobs(&self) -> u64 {
        self.jobs
    }

    /// What one round trip takes; none at the end.
    pub(super) fn next_chunk(&mut self, job_id_by: Option<&str>) -> Result<Vec<Item>, Failure> {
        let broken =
            |error: io::Error| Failure::input(format!("the copy of standard input cannot be read: {error}"));
        let (mut chunk, mut bytes, mut line) = (Vec::new(), 0, Vec::new());
        while chunk.len() < MOST && bytes < CHUNK_BYTES && next(&mut self.file, &mut line).map_err(broken)? {
            self.number += 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            let job_id = job_id_by
                .map(|by| parse(&line).and_then(|value| job_id(&value, by)))
                .transpose()
                .map_err(Failure::input)?;
            bytes += line.len();
            chunk.push(Item {
                place: Place::Line(self.number),
                payload: Bytes::copy_from_slice(line.trim_ascii()),
                job_id,
            });
        }
        Ok(chunk)
    }
}

/// Reads a line without its end, and no more of it than it takes to see that it is too long. `false`: there is none.
fn next(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let most = u64::try_from(MAX_PAYLOAD).unwrap_or(u64::MAX).saturating_add(2);
    if input.by_ref().take(most).read_until(b'\n', line)? == 0 {
        return Ok(false);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > MAX_PAYLOAD {
        skip_line(input)?;
    }
    Ok(true)
}

fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let read = input.fill_buf()?;
        let end = read.iter().position(|byte| *byte == b'\n');
        let (length, all) = (read.len(), end.is_some() || read.is_empty());
        input.consume(end.map_or(length, |end| end + 1));
        if all {
            return Ok(());
        }
    }
}

/// Whether the line is a job; an empty one is none.
fn check(line: &[u8], job_id_by: Option<&str>, unique_by: Option<&str>) -> Result<bool, String> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(false);
    }
    if line.len() > MAX_PAYLOAD {
        return Err("it is larger than 1 MiB".to_owned());
    }
    let value = parse(line)?;
    if let Some(by) = unique_by.filter(|by| value.pointer(by).is_none()) {
        return Err(format!("it has nothing at `{by}`"));
    }
    job_id_by.map_or(Ok(true), |by| job_id(&value, by).map(|_| true))
}

fn parse(line: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(line)
        .map_err(|error| format!("it is no JSON: {error} (plain text becomes JSON by `jq -R . FILE`)"))
}

/// The job id that a payload holds.
fn job_id(value: &Value, by: &str) -> Result<Key, String> {
    let id = match value.pointer(by) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) if !number.is_f64() => number.to_string(),
        _ => return Err(format!("at `{by}` is neither a text nor a whole number")),
    };
    Key::new(&id).map_err(|error| format!("the job id at `{by}`: {error}"))
}
