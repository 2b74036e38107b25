//! Dead letters from a file of lines, taken back with the payloads that they have there.

use super::{super::Found, tell};
use crate::{commands::Context, failure::Failure, output, text};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use hapax::{
    core::queue::{Edit, Group, JobRef, Redrive as Request, Redriven},
    queue::{JobState, Uid, raw},
};
use serde::Deserialize;
use serde_json::Value;
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek},
    path::Path,
};

/// No line is longer: a payload of 1 MiB of which each byte is an escape.
const MAX_LINE: u64 = 8 << 20;
/// More lines than this that are wrong are only counted.
const SAID: u64 = 10;

/// What counts of a line; it may have more.
#[derive(Debug, Deserialize)]
struct Letter {
    id: String,
    group: Option<String>,
    /// The text, or, where somebody has made it JSON, that.
    payload: Option<Value>,
    payload_base64: Option<String>,
}

/// A letter that can be taken back.
#[derive(Debug)]
struct Wanted {
    uid: Uid,
    group: Option<Group>,
    payload: Option<Bytes>,
}

impl Wanted {
    fn read(line: &[u8]) -> Result<Self, String> {
        let letter: Letter =
            serde_json::from_slice(line).map_err(|error| format!("it is no dead letter: {error}"))?;
        let uid = letter.id.parse().map_err(|_| format!("`{}` is no id that hapax gave", letter.id))?;
        let group = letter.group.as_deref().map(Group::new).transpose().map_err(|error| error.to_string())?;
        let payload = match (letter.payload, letter.payload_base64) {
            (Some(_), Some(_)) => {
                return Err("it has `payload` and `payload_base64`: leave one out".to_owned());
            }
            (Some(Value::String(text)), None) => Some(text.into_bytes()),
            (Some(value), None) => Some(value.to_string().into_bytes()),
            (None, Some(coded)) => {
                Some(BASE64_STANDARD.decode(coded).map_err(|error| format!("payload_base64: {error}"))?)
            }
            (None, None) => None,
        };
        if payload.as_ref().is_some_and(|payload| payload.len() > raw::MAX_PAYLOAD) {
            return Err("its payload is larger than 1 MiB".to_owned());
        }
        Ok(Self { uid, group, payload: payload.map(Bytes::from) })
    }
}

/// Lines that have been checked: none is taken back where one is wrong.
pub(super) struct Lines(BufReader<File>);

impl Lines {
    pub(super) fn check(path: &Path) -> Result<Self, Failure> {
        let shown = text::shown(&path.display().to_string());
        let broken = |error: io::Error| Failure::input(format!("{shown} cannot be read: {error}"));
        let file = if path == Path::new("-") {
            let mut copy = tempfile::tempfile().map_err(broken)?;
            io::copy(&mut io::stdin().lock(), &mut copy).map_err(broken)?;
            copy.rewind().map_err(broken)?;
            copy
        } else {
            File::open(path).map_err(broken)?
        };
        let mut lines = Self(BufReader::new(file));
        let (mut line, mut number, mut wrong) = (Vec::new(), 0_u64, 0_u64);
        while lines.next(&mut line).map_err(broken)? {
            number += 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            if let Err(why) = Wanted::read(&line) {
                wrong += 1;
                if wrong <= SAID {
                    output::say(&format!("line {number}: {}", text::shown(&why)));
                }
            }
        }
        if wrong > 0 {
            let are = if wrong == 1 { "line is" } else { "lines are" };
            return Err(Failure::input(format!("{wrong} {are} invalid: nothing was changed"))
                .help("a line is what `hapax queue dead export` wrote; its payload may be another by now"));
        }
        lines.0.rewind().map_err(broken)?;
        Ok(lines)
    }

    fn next(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        Ok(self.0.by_ref().take(MAX_LINE).read_until(b'\n', line)? > 0)
    }

    /// Takes each back; answers how many are ready and how many stay.
    pub(super) async fn redrive(
        mut self,
        found: &Found,
        group: Option<&Group>,
        force: bool,
        context: &Context,
    ) -> Result<(u64, u64), Failure> {
        let broken = |error: io::Error| Failure::input(format!("the lines cannot be read again: {error}"));
        let (mut ready, mut stay, mut line) = (0, 0, Vec::new());
        while self.next(&mut line).map_err(broken)? {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let wanted = Wanted::read(&line).map_err(Failure::input)?;
            if group.is_some() && wanted.group.is_some() && wanted.group.as_ref() != group {
                continue;
            }
            let answer = one(found, &wanted, group, force).await?;
            context.output.changed();
            if answer == Redriven::Ready {
                ready += 1;
            } else {
                stay += 1;
            }
            tell(wanted.uid, answer, &context.output);
        }
        Ok((ready, stay))
    }
}

/// Edits it where its payload is another, then takes it back.
async fn one(
    found: &Found,
    wanted: &Wanted,
    group: Option<&Group>,
    force: bool,
) -> Result<Redriven, Failure> {
    let (queue, group) = (found.raw.id(), wanted.group.as_ref().or(group));
    let infos = found.store.find(queue, &JobRef::Uid(wanted.uid)).await?;
    let is_meant = |info: &&hapax::core::queue::JobInfo| {
        info.state == JobState::Dead && (group.is_none() || info.group.as_ref() == group)
    };
    let Some(dead) = infos.iter().find(is_meant) else { return Ok(Redriven::NotDead) };
    if let Some(payload) = wanted.payload.as_ref().filter(|payload| **payload != dead.payload) {
        let req = Edit {
            queue: queue.clone(),
            group: group.cloned(),
            uid: wanted.uid,
            fingerprint: raw::fingerprint(payload),
            payload: payload.clone(),
        };
        if !found.store.edit(&req).await? {
            return Ok(Redriven::NotDead);
        }
    }
    let req = Request { queue: queue.clone(), group: group.cloned(), uids: vec![wanted.uid], force };
    Ok(found.store.redrive(&req).await?.pop().unwrap_or(Redriven::NotDead))
}
