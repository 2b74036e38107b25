//! `hapax queue add`.
//!
//! | module | what it does |
//! |---|---|
//! | `options` | what a job is added with |
//! | `payload` | one payload |
//! | `lines` | many of them, one a line, all checked before the first is added |
//! | `many` | adds what was checked, a chunk at a time |
//! | `answer` | what is said of each |

mod answer;
mod lines;
pub(in crate::commands) mod many;
pub(in crate::commands) mod options;
pub(super) mod payload;

use self::{answer::Answer, lines::Lines, many::Many, options::Options};
use super::Found;
use crate::{commands::Context, duration, exit::Exit, failure::Failure};
use clap::Args;
use std::{ffi::OsString, io, time::Duration};

/// Add a job to a queue, or many
///
/// Prints the id that hapax gives to the job. With --job-id it is safe to call again: the same id is the same job, while it
/// lives and for --dedupe-for after its end. The payload is any bytes up to 1 MiB; with --lines, one JSON value a line.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue add thumbs '{\"file\":\"a.png\"}'
  hapax queue add thumbs '{\"file\":\"a.png\"}' --job-id a.png      once, however often it is called
  hapax queue add mails --delay 10m --max-attempts 3 --backoff fixed:30s - < mail.json
  hapax queue add thumbs --lines --job-id-by /file < files.jsonl
  hapax queue add reports '{\"day\":\"mon\"}' --unique-for 24h --unique-by /day
  id=$(hapax queue add sums '[1,2]' --keep-result 1h); hapax queue wait sums \"$id\"

EXIT CODES:
  0   added, or there before
  1   with --lines: some were refused
  65  the payload or a line is invalid, or the job id was used for another payload
  75  the queue is full (--wait waits for room)")]
pub(super) struct Add {
    /// The queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// What the job is about; `-`, or nothing, reads it from standard input
    #[arg(value_name = "PAYLOAD", allow_negative_numbers = true)]
    payload: Option<OsString>,
    /// One job for each line of standard input, which is a JSON value. All lines are checked before the first is added
    #[arg(long)]
    lines: bool,
    /// With --lines: the text or whole number at this JSON pointer is the job id
    #[arg(long, value_name = "POINTER", requires = "lines", conflicts_with_all = ["job_id", "unique_for"], value_parser = options::parse_pointer)]
    job_id_by: Option<String>,
    /// Waits so long for room in a full queue before it answers 75
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    wait: Option<Duration>,
    #[command(flatten)]
    options: Options,
}

impl Add {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        super::queue(&self.queue)?;
        if self.lines { self.many(context).await } else { self.one(context).await }
    }

    async fn one(self, context: &Context) -> Result<Exit, Failure> {
        let payload = payload::read(self.payload.as_deref())?;
        let found = Found::open(&self.queue, context).await?;
        let mut add = found.raw.add(payload).options(self.options.of_job());
        if let Some(limit) = self.wait {
            add = add.wait_for_room(limit);
        }
        let added = add.await?;
        context.output.changed();
        Answer::of(&added, self.options.job_id()).print(&context.output);
        Ok(Exit::Done)
    }

    async fn many(self, context: &Context) -> Result<Exit, Failure> {
        if self.payload.as_ref().is_some_and(|payload| payload != "-") {
            return Err(Failure::usage(
                "--lines reads the payloads from standard input: give `-`, or nothing",
            ));
        }
        if self.options.job_id().is_some() {
            return Err(Failure::usage("--job-id is one id for many jobs")
                .help("take it from each payload: --job-id-by POINTER"));
        }
        let by = self.job_id_by.as_deref();
        let mut lines = Lines::check(io::stdin().lock(), by, self.options.unique_by())?;
        let found = Found::open(&self.queue, context).await?;
        let mut many = Many::new(&found.raw, lines.jobs(), self.wait, context);
        loop {
            let chunk = lines.next_chunk(by)?;
            if chunk.is_empty() {
                break;
            }
            many.add(chunk, |job_id| self.options.of_line(job_id)).await?;
        }
        Ok(many.end().exit())
    }
}
