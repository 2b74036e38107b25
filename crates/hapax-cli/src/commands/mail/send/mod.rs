//! `hapax mail send`: files of mails, each sent once.
//!
//! | module | what it does |
//! |---|---|
//! | `args` | the command line |
//! | `input` | files, lines, rows, templates, keys |
//! | `check`, `clashes`, `twins` | the first pass: every entry is looked at before the first is sent |
//! | `feed` | the second pass: entries become messages |
//! | `run`, `stop` | messages through the mailer, messages that another run holds, signals |
//! | `gate`, `rate`, `via` | the transport, how often and how fast it is asked |
//! | `report`, `progress`, `tally`, `ended` | what is said |

mod args;
mod check;
mod clashes;
mod dry_run;
mod ended;
mod feed;
mod gate;
mod input;
mod interrupts;
mod progress;
mod rate;
mod report;
mod run;
mod selection;
mod stop;
mod tally;
mod twins;
mod via;

pub(super) use args::Send;
pub(super) use via::{DELIVERED, Target};

use crate::{
    commands::Context,
    exit::Exit,
    failure::Failure,
    output,
    store::{self, Sharing},
};
use check::{Bad, Checked, Checker};
use ended::{Ended, messages, say_unreported};
use feed::Feed;
use gate::{Gate, Passage};
use hapax::{
    Hapax,
    core::{Namespace, Scope},
    mail::Mailer,
};
use input::{Drafter, KeyTemplate, Opening, Source, Template};
use interrupts::Interrupts;
use progress::Progress;
use report::Report;
use run::Run;
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
use stop::Stop;
use tally::Tally;
use tokio::sync::mpsc;

/// What is unknown is held at least so long: somebody has to look at it.
const UNKNOWN_TTL: Duration = Duration::from_hours(24);

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
        let checked = match self.check(&target, &mut report, &progress, &mut interrupts).await {
            Ok(Ok(checked)) => checked,
            Ok(Err(signal)) => {
                report.finish();
                return Ok(stopped_early(signal, &progress));
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
        if checked.keyless > 0 {
            progress.aside(|| context.output.note(&keyless(checked.keyless)));
        }
        if self.dry_run {
            let done = tokio::select! {
                done = self.rehearse(context, &target, checked, &mut report) => done,
                signal = interrupts.next() => Ok(Exit::Signal(signal)),
            };
            progress.finish();
            return done;
        }
        let opened = tokio::select! {
            opened = store::open(&context.settings, Sharing::Needed) => opened,
            signal = interrupts.next() => return Ok(stopped_early(signal, &progress)),
        };
        let hapax = opened.inspect_err(|_| progress.finish())?;
        self.send(context, &hapax, &target, checked, (report, &progress), &mut interrupts).await
    }

    /// Reads and checks everything, on a thread of its own: standard input may be slow, and a signal has to be heard.
    async fn check(
        &self,
        target: &Target,
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
        let (plan, stopped) = (self.plan(target), Arc::clone(&stop));
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

    fn plan(&self, target: &Target) -> Plan {
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
            transport: target.name(),
        }
    }

    async fn rehearse(
        &self,
        context: &Context,
        target: &Target,
        checked: Checked,
        report: &mut Report<'_>,
    ) -> Result<Exit, Failure> {
        let hapax = if let Some(note) = store::missing(&context.settings)? {
            context.output.note(&note);
            None
        } else {
            Some(store::open(&context.settings, Sharing::Needed).await?)
        };
        if let Some(note) = target.unproven() {
            context.output.note(&note);
        }
        let namespace = Namespace::new(&context.settings.namespace)?;
        let look_up = dry_run::LookUp { hapax, namespace, scope: Scope::new(&target.scope())? };
        let (checker, unreported) = (Arc::clone(&checked.checker), checked.unreported);
        let mut feed = Feed::start(checked);
        let counts = dry_run::look(&mut feed, &checker, &look_up, &context.output, report).await?;
        feed.end()?;
        report.finish();
        say_unreported(unreported);
        if !context.output.quiet {
            output::stderr_bytes(format!("{counts}\n").as_bytes());
        }
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
        let (all, invalid) = (checked.all(), checked.invalid);
        let (left_out, unreported) = (checked.left_out, checked.unreported);
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
        let Run { mut report, mut stop, tally, .. } = run;
        report.finish();
        progress.finish();
        let read = feed.end();
        drop(feed);
        if !stop.at_once() {
            // A further signal ends the wait.
            tokio::select! {
                closed = hapax.close().within(self.lease.min(Duration::from_mins(1))) => unstored(closed.unstored),
                () = stop.signalled() => {}
            }
        }
        let ended = Ended {
            all,
            invalid,
            left_out,
            unreported,
            tally,
            signal: stop.signal(),
            outage: stop.outage().cloned(),
            read,
        };
        let exit = ended.say(&context.output);
        context.output.end()?;
        Ok(exit)
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
    transport: &'static str,
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
        let drafter = Drafter { template, key_template };
        Ok(Checker { sources: sources?, drafter, selection, transport: self.transport })
    }
}

fn stopped_early(signal: i32, progress: &Progress) -> Exit {
    progress.finish();
    output::say("stopped before anything was sent");
    Exit::Signal(signal)
}

fn unstored(receipts: usize) {
    if receipts > 0 {
        output::warn(&if receipts == 1 {
            "1 receipt could not be stored: that message is sent again once its lease has passed".to_owned()
        } else {
            format!(
                "{receipts} receipts could not be stored: those messages are sent again once their leases have passed"
            )
        });
    }
}

fn twins(found: u64) -> String {
    let are = if found == 1 { "is" } else { "are" };
    format!(
        "{} {are} equal to an earlier one, to the same recipients, and under another key: each is sent",
        messages(found)
    )
}

fn keyless(found: u64) -> String {
    let (have, them) = if found == 1 { ("has", "it") } else { ("have", "them") };
    format!(
        "{} {have} no key, and every run sends {them}: give {them} an idempotency_key, or use --key-template",
        messages(found)
    )
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
