//! `hapax queue dead export`: dead letters as lines, to be read, kept, mended, and taken back.
#![expect(clippy::doc_markdown, reason = "help texts are read without markup")]

use super::super::{Found, OfGroup, names};
use crate::{commands::Context, exit::Exit, failure::Failure, text};
use base64::{Engine, prelude::BASE64_STANDARD};
use clap::Args;
use hapax::{
    core::queue::{JobInfo, ListJobs, MOST},
    queue::{DeadReason, JobState},
};
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde::Serialize;
use serde_json::Value;
use std::{
    fs::{self, File},
    io::{self, BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
};
use tempfile::NamedTempFile;

/// Write dead letters to a file, one JSON object a line
///
/// Each line has the ids of its job, why and when it died, its counts, its settings, and its payload: as text where that is
/// UTF-8 (payload), in base64 otherwise (payload_base64). Nothing is changed. `hapax queue dead redrive QUEUE --from FILE` takes
/// the lines back, with the payloads that they have by then.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue dead export thumbs dead.jsonl
  hapax queue dead export thumbs | jq -r .error | sort | uniq -c
  hapax queue dead export thumbs | jq -c '.payload |= (fromjson | .width = 64 | tojson)' | hapax queue dead redrive thumbs --from -")]
pub(super) struct Export {
    /// The queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// Where to; `-`, or nothing, is stdout. A file that is there is replaced, once all is written, unless there is nothing to
    /// write; only you can read it
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    group: OfGroup,
}

/// A line. The names of its fields are stable.
#[derive(Debug, Serialize)]
struct Letter<'a> {
    id: String,
    job_id: Option<&'a str>,
    group: Option<&'a str>,
    reason: Option<&'static str>,
    error: Option<&'a str>,
    attempts: u32,
    losses: u32,
    snoozes: u32,
    given_back: u32,
    redriven: u32,
    priority: u8,
    added_at: Option<String>,
    died_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    settings: Option<Value>,
}

impl<'a> From<&'a JobInfo> for Letter<'a> {
    fn from(info: &'a JobInfo) -> Self {
        let payload = str::from_utf8(&info.payload).ok();
        Self {
            id: info.uid.to_string(),
            job_id: info.job_id.as_ref().map(hapax::Key::as_str),
            group: info.group.as_ref().map(hapax::queue::Group::as_str),
            reason: info.reason.map(DeadReason::as_str),
            error: info.error.as_deref(),
            attempts: info.counts.attempts,
            losses: info.counts.losses,
            snoozes: info.counts.snoozes,
            given_back: info.counts.given_back,
            redriven: info.counts.redriven,
            priority: info.priority.number(),
            added_at: text::time(info.added_at),
            died_at: text::time(info.at),
            payload,
            payload_base64: payload.is_none().then(|| BASE64_STANDARD.encode(&info.payload)),
            settings: serde_json::from_slice(&info.settings).ok(),
        }
    }
}

/// Where the lines go.
enum To<'a> {
    Stdout(&'a crate::output::Output),
    /// What is no file: a pipe, a device.
    Direct(BufWriter<File>),
    /// A file beside the one that is meant, which it replaces at the end.
    File(BufWriter<NamedTempFile>, PathBuf),
}

impl<'a> To<'a> {
    fn open(path: Option<&Path>, output: &'a crate::output::Output) -> io::Result<Self> {
        let Some(path) = path else { return Ok(Self::Stdout(output)) };
        let place = match fs::metadata(path) {
            Ok(found) if found.is_file() => {
                // Whoever may not write to a file may not replace it, and a link stays one.
                File::options().append(true).open(path)?;
                fs::canonicalize(path)?
            }
            Ok(_) => return Ok(Self::Direct(BufWriter::new(File::options().write(true).open(path)?))),
            // A link to nothing is refused here.
            Err(_) if fs::symlink_metadata(path).is_ok() => fs::canonicalize(path)?,
            Err(_) => path.to_owned(),
        };
        let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty());
        let file = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
        Ok(Self::File(BufWriter::new(file), place))
    }

    fn write(&mut self, letter: &Letter<'_>) -> io::Result<()> {
        match self {
            Self::Stdout(output) => {
                output.object(letter);
                Ok(())
            }
            Self::Direct(to) => line(to, letter),
            Self::File(to, _) => line(to, letter),
        }
    }

    /// Answers whether an earlier file was left as it is.
    fn end(self, exported: u64) -> io::Result<bool> {
        match self {
            Self::Stdout(_) => {}
            Self::Direct(mut to) => to.flush()?,
            // It may be the only copy of letters that were dropped since.
            Self::File(_, place) if exported == 0 && place.exists() => return Ok(true),
            Self::File(to, place) => {
                let file = to.into_inner().map_err(io::IntoInnerError::into_error)?;
                file.as_file().sync_all()?;
                file.persist(place).map_err(|error| error.error)?;
            }
        }
        Ok(false)
    }
}

fn line(to: &mut impl Write, letter: &Letter<'_>) -> io::Result<()> {
    serde_json::to_writer(&mut *to, letter)?;
    to.write_all(b"\n")
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let path = text::shown(&path.display().to_string());
    Failure::new(Exit::ItemFailed, "command.output", format!("{path} could not be written: {error}"))
}

impl Export {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let group = self.group.name()?;
        let found = Found::look(&self.queue, context).await?.ok_or_else(|| names::no_store(&self.queue))?;
        let id = found.raw.id();
        let stats = names::figures(&*found.store, &id.namespace, Some(&id.name), group.as_ref()).await?;
        let path = self.file.as_deref().filter(|path| *path != Path::new("-"));
        let failed = |error: io::Error| unwritable(path.unwrap_or(Path::new("-")), &error);
        let mut to = To::open(path, &context.output).map_err(failed)?;
        let shown = path.is_some() && !context.output.quiet && io::stderr().is_terminal();
        let target = if shown { ProgressDrawTarget::stderr_with_hz(8) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(stats.iter().map(|stats| stats.dead).sum()), target);
        let (mut after, mut exported) = (None, 0_u64);
        while !context.output.is_closed() {
            let req = ListJobs {
                queue: id.clone(),
                group: group.clone(),
                state: JobState::Dead,
                after,
                limit: MOST,
            };
            let page = found.store.list(&req).await?;
            for info in &page.jobs {
                to.write(&Letter::from(info)).map_err(failed)?;
                exported += 1;
            }
            bar.set_position(exported);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        bar.finish_and_clear();
        let left = to.end(exported).map_err(failed)?;
        let letters = if exported == 1 { "letter" } else { "letters" };
        let left = if left { "; the file is left as it is" } else { "" };
        context.output.note(&format!("{exported} dead {letters} exported{left}"));
        Ok(Exit::Done)
    }
}
