//! `hapax mail enqueue`: files of mails, each a job of the queue that `hapax mail worker` works on.

use super::{
    QUEUE,
    send::{Bad, Checked, Fed, Feed, Files, Progress, Purpose, messages},
};
use crate::{
    commands::{
        Context,
        interrupts::Interrupts,
        queue::{
            Found,
            add::{
                many::{CHUNK_BYTES, Item, Many, Place},
                options::Common,
            },
            drive,
        },
    },
    duration,
    exit::Exit,
    failure::Failure,
    output,
};
use clap::Args;
use hapax::{Key, core::queue::MOST, mail::jobs::QueuedMail};
use serde_json::json;
use std::{future::poll_fn, sync::Arc, time::Duration};

/// Of mails that are not valid, so many are spelled out.
const SAID: u64 = 100;

/// Add files of mails to the queue `mail`
///
/// All are checked before the first is added, as `hapax mail send` does it; one that is not valid, or is larger than a job may
/// be with its attachments, is reported with its place, and nothing is added. The key of a mail is the id of its job: run the
/// same again, and only what is missing is added; another mail under a key that is taken is refused. A mail without a key is
/// added by every run, and sent once by the workers.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax mail enqueue welcome.jsonl
  hapax mail enqueue list.csv --template welcome.json --key-template 'welcome:{to}' --run-at 2030-01-31T09:00:00Z
  hapax mail enqueue reset.eml --priority 0 --max-attempts 10
  hapax mail worker --via file:outbox --until-empty

EXIT CODES:
  0   added, or there before
  1   some were refused
  65  some are not valid: nothing was added
  75  the queue is full (--wait waits for room)")]
pub(super) struct Enqueue {
    #[command(flatten)]
    files: Files,
    /// The queue
    #[arg(long, value_name = "QUEUE", default_value = QUEUE)]
    queue: String,
    /// Adds what is valid, and counts the rest as refused
    #[arg(long)]
    skip_invalid: bool,
    /// Waits so long for room in a full queue before it answers 75
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    wait: Option<Duration>,
    #[command(flatten)]
    options: Common,
}

impl Enqueue {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        crate::commands::queue::name(&self.queue)?;
        let mut interrupts = drive::interrupts()?;
        let progress = Progress::new(&context.output);
        let mut said = 0;
        let plan = self.files.plan(Purpose::Queue, None);
        let bad = |bad: &Bad| self.say(bad, &mut said, &progress, context);
        let checked = plan.check(bad, &progress, &mut interrupts).await;
        progress.finish();
        let checked = match checked? {
            Ok(checked) => checked,
            Err(signal) => {
                output::say("stopped before anything was added");
                return Ok(Exit::Signal(signal));
            }
        };
        if said > SAID {
            output::say(&format!("and {} more: --json lists all", said - SAID));
        }
        if checked.invalid > 0 && !self.skip_invalid {
            return Err(checked.refused("added", "add"));
        }
        if checked.keyless > 0 {
            let (have, them) = if checked.keyless == 1 { ("has", "it") } else { ("have", "them") };
            context.output.note(&format!(
                "{} {have} no key, and every run adds {them}: give {them} an idempotency_key, or use --key-template",
                messages(checked.keyless)
            ));
        }
        self.add(checked, &mut interrupts, context).await
    }

    /// What is not valid, for people at the check; for programs in its order, at the end where the rest is added.
    fn say(&self, bad: &Bad, said: &mut u64, progress: &Progress, context: &Context) {
        *said += 1;
        if context.output.json && !self.skip_invalid {
            let (code, message) = said_of(&bad.problems);
            context.output.object(&json!({
                "index": bad.index,
                "place": bad.place,
                "id": null,
                "job_id": null,
                "accepted": false,
                "code": code,
                "message": message,
            }));
        }
        if *said <= SAID {
            progress.aside(|| output::stderr_bytes(bad.lines().as_bytes()));
        }
    }

    async fn add(
        &self,
        checked: Checked,
        interrupts: &mut Interrupts,
        context: &Context,
    ) -> Result<Exit, Failure> {
        let found = Found::open(&self.queue, context).await?;
        let checker = Arc::clone(&checked.checker);
        let mut many = Many::new(&found.raw, checked.all(), self.wait, context);
        let mut feed = Feed::start(checked);
        let (mut chunk, mut bytes, mut signal) = (Vec::new(), 0, None);
        let options = |job_id: Option<&Key>| self.options.of_job(job_id);
        loop {
            tokio::select! {
                number = interrupts.next() => {
                    signal = Some(number);
                    break;
                }
                () = poll_fn(|cx| feed.poll_ready(cx)) => {}
            }
            let Some(Fed { slot, mail }) = feed.pop() else { break };
            let place = Place::Entry(slot.index, slot.place(&checker));
            match mail {
                Ok(mail) => {
                    let payload = QueuedMail::from(mail).to_payload();
                    bytes += payload.len();
                    chunk.push(Item { place, payload, job_id: slot.key });
                }
                Err(problems) => {
                    many.add(std::mem::take(&mut chunk), options).await?;
                    let (code, message) = said_of(&problems);
                    many.refuse(&place, code, &message);
                }
            }
            if chunk.len() >= MOST || bytes >= CHUNK_BYTES {
                bytes = 0;
                many.add(std::mem::take(&mut chunk), options).await?;
            }
        }
        if signal.is_none() {
            many.add(chunk, options).await?;
        }
        let tally = many.end();
        context.output.end()?;
        match signal {
            Some(signal) => {
                context.output.note("stopped: run the same again to add the rest");
                Ok(Exit::Signal(signal))
            }
            None => feed.end().map(|()| tally.exit()),
        }
    }
}

/// The first code, and all reasons.
fn said_of(problems: &super::send::Problems) -> (&'static str, String) {
    let code = problems.0.first().map_or("message.syntax", |problem| problem.code);
    let reasons: Vec<_> = problems.0.iter().map(ToString::to_string).collect();
    (code, reasons.join("; "))
}
