//! `hapax mail send`: files of mails, each sent once.
//!
//! | module | what it does |
//! |---|---|
//! | `input` | files, lines, rows, templates, keys |
//! | `check` | the first pass: every entry is looked at before the first is sent |
//! | `feed` | the second pass: entries become messages |
//! | `run` | messages through the mailer, signals, messages that another run holds |
//! | `gate`, `rate`, `via` | the transport, how often and how fast it is asked |
//! | `report`, `tally`, `progress` | what is said |

mod check;
mod dry_run;
mod feed;
mod gate;
mod input;
mod interrupts;
mod progress;
mod rate;
mod report;
mod run;
mod selection;
mod tally;
mod twins;
mod via;

pub(super) use via::{DELIVERED, Target};

use crate::{
    commands::Context,
    duration,
    exit::Exit,
    failure::Failure,
    output,
    store::{self, Sharing},
};
use check::{Bad, Checked, Checker};
use clap::Args;
use feed::Feed;
use gate::{Gate, Passage};
use hapax::{
    Hapax,
    core::{Namespace, Scope},
    mail::Mailer,
};
use input::{Drafter, Format, KeyTemplate, Opening, Source, Template};
use interrupts::Interrupts;
use progress::Progress;
use rate::Rate;
use report::Report;
use run::{Run, Stop};
use selection::Selection;
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};
use tally::Tally;
use tokio::sync::mpsc;

/// What is unknown is held at least so long: somebody has to look at it.
const UNKNOWN_TTL: Duration = Duration::from_hours(24);

/// Send files of mails, each mail once
///
/// Every line is checked before the first is sent: a line that is not valid is reported with its number, and nothing is
/// sent. A mail with an idempotency key is sent once: run the same again after a kill, a crash or a failure, and only what
/// was not sent is sent.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax mail send welcome.jsonl                           writes one .eml a message to the folder outbox
  hapax mail send - --via stub: < welcome.jsonl           accepts and forgets
  hapax mail send list.csv --template welcome.json        one message a row
  hapax mail send welcome.jsonl --key-template 'welcome:{to}'
  hapax mail send welcome.jsonl --json > report.jsonl     a receipt a line
  hapax mail send welcome.jsonl --only-failed report.jsonl

A line of a .jsonl file:
  {\"from\":\"Shop <shop@example.com>\",\"to\":[\"ada@example.com\"],\"subject\":\"Welcome\",\"text\":\"Welcome aboard.\",
   \"attachments\":[{\"path\":\"terms.pdf\"}],\"idempotency_key\":\"welcome:1\"}
(on one line). Also: sender, cc, bcc, reply_to, html, headers, in_reply_to, references, message_id, metadata, tags,
send_at, tracking, unsubscribe; of an attachment also filename, content_type, base64, cid. Relative paths start at the
folder of FILE. A line has at most 32 MiB.

A template for CSV is a JSON object like such a line, with {{ column }} in its texts; {{ row[\"First name\"] }} for names
that are no words. Values are escaped in html. What comes out empty is left out. subject, text and html may be
{\"file\": \"body.html\"}, next to the template.

Exit codes: 0 all sent, now or before; 1 some failed; 65 not valid, nothing sent; 75 some are in flight elsewhere; 76 some
may have been sent; 130, 143 stopped.")]
pub(crate) struct Send {
    /// JSON Lines (- for standard input), .eml, or .csv together with --template
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[arg(
        long,
        value_name = "URL",
        default_value = "file:outbox",
        help = "Where mails go: file:DIR writes one .eml a message, stub: accepts and forgets"
    )]
    via: Vec<String>,
    /// Makes a message of each row of a CSV file
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// What stands between the columns of a CSV file [default: a comma, a tab for .tsv]
    #[arg(long, value_name = "CHAR", value_parser = parse_delimiter)]
    delimiter: Option<u8>,
    /// How FILEs are read, where their names do not say so
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    #[arg(
        long,
        value_name = "TEXT",
        help = "The key of messages that have none: text with {to}, {from}, {subject}, {line}, {file}, {message_id}, \
                {metadata.NAME}, or the name of a column"
    )]
    key_template: Option<String>,
    /// Sends what is valid, and counts the rest as failed
    #[arg(long)]
    skip_invalid: bool,
    /// Says what would be sent and what would be replayed. Writes nothing
    #[arg(long)]
    dry_run: bool,
    /// Only what failed in an earlier run and may fare better, by what it printed with --json
    #[arg(long, value_name = "REPORT")]
    only_failed: Option<PathBuf>,
    /// With --only-failed: also what failed for good
    #[arg(long, requires = "only_failed")]
    failed_too: bool,
    /// Sends in progress at a time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    concurrency: u16,
    /// At most so many sends start: 50/s, 600/m, 1000/h. Replays do not count
    #[arg(long, value_name = "RATE", value_parser = Rate::parse)]
    rate: Option<Rate>,
    /// Attempts of one message, where a failure may pass
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    attempts: u32,
    /// For one message, all attempts together
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive)]
    timeout: Option<Duration>,
    /// How long a key stays reserved if this run dies; renewed while it lives
    #[arg(long, value_name = "DUR", default_value = "60s", value_parser = duration::parse_lease)]
    lease: Duration,
    /// How long receipts answer
    #[arg(long, value_name = "DUR", default_value = "24h", value_parser = duration::parse_positive)]
    ttl: Duration,
    /// How long messages that another run holds are waited for at the end [default: the lease]
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    wait: Option<Duration>,
    /// Keeps permanent refusals too, so that a later run answers with them instead of trying again
    #[arg(long)]
    keep_rejected: bool,
}

fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text {
        "\\t" | "tab" => Ok(b'\t'),
        _ => match text.as_bytes() {
            [byte] if byte.is_ascii_graphic() && *byte != b'"' || matches!(text, "\t" | " ") => {
                Ok(*text.as_bytes().first().unwrap_or(&b','))
            }
            _ => Err("one ASCII character, or tab".to_owned()),
        },
    }
}

impl Send {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let target = match self.via.as_slice() {
            [via] => Target::parse(via)?,
            _ => return Err(Failure::usage("this build sends via one transport").help("give --via once")),
        };
        let interrupts = Interrupts::listen();
        let mut interrupts = interrupts.map_err(|error| {
            Failure::new(Exit::Bug, "command.internal", format!("signals cannot be heard: {error}"))
        })?;
        let progress = Progress::new(&context.output);
        let mut report = Report::new(&context.output, &progress, self.skip_invalid);
        let checked = match self.check(&mut report, &progress, &mut interrupts).await {
            Ok(Ok(checked)) => checked,
            Ok(Err(signal)) => {
                progress.finish();
                report.finish();
                output::say("stopped before anything was sent");
                return Ok(Exit::Signal(signal));
            }
            Err(failure) => {
                progress.finish();
                return Err(failure);
            }
        };
        report.finish();
        if checked.twins > 0 {
            progress.aside(|| output::warn(&twins(checked.twins)));
        }
        if checked.invalid > 0 && !self.skip_invalid {
            progress.finish();
            return Err(invalid(&checked));
        }
        if self.dry_run {
            let done = self.rehearse(context, &target, checked, &mut report).await;
            progress.finish();
            return done;
        }
        let opened = store::open(&context.settings, Sharing::Needed).await;
        let hapax = opened.inspect_err(|_| progress.finish())?;
        self.send(context, &hapax, &target, checked, (report, &progress), &mut interrupts).await
    }

    /// Reads and checks everything, on a thread of its own: standard input may be slow, and a signal has to be heard.
    async fn check(
        &self,
        report: &mut Report<'_>,
        progress: &Progress,
        interrupts: &mut Interrupts,
    ) -> Result<Result<Checked, i32>, Failure> {
        enum News {
            Bad(Bad),
            Seen(u64),
            Done(Box<Result<Checked, Failure>>),
        }
        // Bounded: a file of nothing but faults must not fill the memory.
        let (sender, mut news) = mpsc::channel(64);
        let stop = Arc::new(AtomicBool::new(false));
        let (plan, stopped) = (self.plan(), Arc::clone(&stop));
        thread::spawn(move || {
            let tell = |news| drop(sender.blocking_send(news));
            let checked = plan.open().and_then(|checker| {
                Arc::new(checker).check(&stopped, |bad| tell(News::Bad(bad)), |seen| tell(News::Seen(seen)))
            });
            tell(News::Done(Box::new(checked)));
        });
        loop {
            tokio::select! {
                signal = interrupts.next() => {
                    stop.store(true, Ordering::Relaxed);
                    return Ok(Err(signal));
                }
                next = news.recv() => match next {
                    Some(News::Bad(bad)) => report.bad(&bad),
                    Some(News::Seen(seen)) => progress.checked(seen),
                    Some(News::Done(checked)) => return checked.map(Ok),
                    None => return Err(Failure::new(Exit::Bug, "command.internal", "the check ended without an answer")),
                },
            }
        }
    }

    fn plan(&self) -> Plan {
        Plan {
            files: self.files.clone(),
            opening: Opening {
                format: self.format,
                has_template: self.template.is_some(),
                delimiter: self.delimiter,
            },
            template: self.template.clone(),
            key_template: self.key_template.clone(),
            only_failed: self.only_failed.clone(),
            failed_too: self.failed_too,
        }
    }

    async fn rehearse(
        &self,
        context: &Context,
        target: &Target,
        checked: Checked,
        report: &mut Report<'_>,
    ) -> Result<Exit, Failure> {
        let hapax = if store::is_missing(&context.settings)? {
            None
        } else {
            Some(store::open(&context.settings, Sharing::Needed).await?)
        };
        let namespace = Namespace::new(&context.settings.namespace)?;
        let look_up = dry_run::LookUp { hapax, namespace, scope: Scope::new(&target.scope())? };
        let checker = Arc::clone(&checked.checker);
        let mut feed = Feed::start(checked);
        let counts = dry_run::look(&mut feed, &checker, &look_up, &context.output, report).await?;
        feed.end()?;
        report.finish();
        output::stderr_bytes(format!("{counts}\n").as_bytes());
        context.output.end()?;
        Ok(Exit::Done)
    }

    async fn send(
        &self,
        context: &Context,
        hapax: &Hapax,
        target: &Target,
        checked: Checked,
        (report, progress): (Report<'_>, &Progress),
        interrupts: &mut Interrupts,
    ) -> Result<Exit, Failure> {
        let stop = Stop::new(interrupts);
        let mailer = self.mailer(hapax, target, &stop)?;
        progress.sending(checked.all());
        let checker = Arc::clone(&checked.checker);
        let (all, invalid, left_out) = (checked.all(), checked.invalid, checked.left_out);
        let mut feed = Feed::start(checked);
        let mut run = Run {
            mailer,
            checker: &checker,
            concurrency: usize::from(self.concurrency),
            report,
            progress,
            stop,
            tally: Tally::default(),
            waiting: Vec::new(),
        };
        run.send(&mut feed).await;
        run.wait(self.wait.unwrap_or(self.lease)).await;
        let Run { mut report, stop, tally, .. } = run;
        report.finish();
        progress.finish();
        let read = feed.end();
        drop(feed);
        let closed = if stop.at_once() {
            None
        } else {
            Some(hapax.close().within(self.lease.min(Duration::from_mins(1))).await)
        };
        if let Some(closed) = closed.filter(|closed| closed.unstored > 0) {
            output::warn(&format!(
                "{} receipts could not be stored: those messages are sent again once their leases have passed",
                closed.unstored
            ));
        }
        if let Some(outage) = stop.outage() {
            let code = outage.code().unwrap_or_default();
            output::warn(&format!(
                "{} messages in a row failed, the last with {code}: the rest is left for the next run",
                run::OUTAGE
            ));
        }
        if invalid > 0 {
            context
                .output
                .note(&format!("{invalid} messages are not valid and were skipped; they count as failed"));
        }
        if left_out > 0 {
            context.output.note(&format!("--only-failed left out {left_out} messages"));
        }
        let left = all.saturating_sub(tally.all());
        if left > 0 && (stop.signal().is_some() || stop.outage().is_some()) {
            context.output.note(&format!("{left} messages are left: run the same again to send them"));
        }
        let read = match read {
            // Whatever the reason: what was not dealt with must not look as if it were.
            Ok(()) if left > 0 && stop.signal().is_none() && stop.outage().is_none() => {
                Err(Failure::new(Exit::Bug, "command.internal", format!("{left} messages were passed over")))
            }
            read => read,
        };
        if let Err(failure) = &read {
            failure.explain();
        }
        // As it stands: scripts look for it.
        output::stderr_bytes(format!("{tally}\n").as_bytes());
        context.output.end()?;
        Ok(match (stop.signal(), read) {
            (Some(signal), _) => Exit::Signal(signal),
            (None, Err(failure)) => failure.exit,
            (None, Ok(())) => tally.exit(),
        })
    }

    fn mailer(&self, hapax: &Hapax, target: &Target, stop: &Stop<'_>) -> Result<Mailer, Failure> {
        let via = target.open();
        let passage = Passage {
            attempts: self.attempts,
            rate: self.rate,
            timeout: self.timeout,
            stop: stop.drain.clone(),
        };
        let built = Mailer::via(Gate::new(via.transport, passage))
            .idempotent(&hapax.idempotency(&via.scope))
            .scope(&via.scope)
            .lease(self.lease)
            .ttl(self.ttl)
            .unknown_ttl(self.ttl.max(UNKNOWN_TTL))
            .keep_rejected(self.keep_rejected)
            .build();
        built.map_err(|error| Failure::usage(error.to_string()))
    }
}

/// What the first pass needs, on its way to another thread.
struct Plan {
    files: Vec<PathBuf>,
    opening: Opening,
    template: Option<PathBuf>,
    key_template: Option<String>,
    only_failed: Option<PathBuf>,
    failed_too: bool,
}

impl Plan {
    /// Everything that is small first: standard input may take long, and is gone once it was read.
    fn open(self) -> Result<Checker, Failure> {
        if self.files.iter().filter(|file| *file == Path::new("-")).count() > 1 {
            return Err(Failure::usage("standard input, `-`, can be read once only"));
        }
        let template = self.template.as_deref().map(Template::load).transpose()?;
        let key_template = self.key_template.as_deref();
        let key_template =
            key_template.map(|text| KeyTemplate::parse(text, template.is_some())).transpose()?;
        let selection =
            self.only_failed.as_deref().map(|path| Selection::read(path, self.failed_too)).transpose()?;
        let sources: Result<Vec<_>, _> =
            self.files.iter().map(|file| Source::open(file, self.opening)).collect();
        Ok(Checker { sources: sources?, drafter: Drafter { template, key_template }, selection })
    }
}

fn twins(found: u64) -> String {
    let what = if found == 1 { "1 message is".to_owned() } else { format!("{found} messages are") };
    format!("{what} equal to an earlier one, to the same recipients, and under another key: each is sent")
}

fn invalid(checked: &Checked) -> Failure {
    let (invalid, all) = (checked.invalid, checked.all());
    let message = match (invalid, all) {
        (1, 1) => "the message is not valid: nothing was sent".to_owned(),
        (1, _) => format!("1 of {all} messages is not valid: nothing was sent"),
        _ => format!("{invalid} of {all} messages are not valid: nothing was sent"),
    };
    Failure::input(message).help("mend them, or send the others with --skip-invalid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiters_are_one_character() {
        assert_eq!(parse_delimiter(";"), Ok(b';'));
        assert_eq!(parse_delimiter("tab"), Ok(b'\t'));
        for text in ["", ",,", "\"", "ä", "\n"] {
            assert!(parse_delimiter(text).is_err(), "{text:?}");
        }
    }
}
