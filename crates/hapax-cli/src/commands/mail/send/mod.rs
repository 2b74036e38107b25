//! `hapax mail send`: files of mails, each sent once.
//!
//! | module | what it does |
//! |---|---|
//! | `args` | the command line |
//! | `input` | files, lines, rows, templates, keys |
//! | `pass`, `check`, `clashes`, `twins` | the first pass: every entry is looked at before the first is sent |
//! | `feed` | the second pass: entries become messages |
//! | `run`, `stop` | messages through the mailer, messages that another run holds, signals |
//! | `gate`, `rate`, `via`, `server`, `provider` | the transports, how often and how fast they are asked |
//! | `report`, `progress`, `tally`, `ended` | what is said |

mod args;
mod check;
mod clashes;
mod dry_run;
mod ended;
mod feed;
mod gate;
mod input;
mod pass;
mod progress;
mod provider;
mod rate;
mod report;
mod run;
mod selection;
mod server;
mod stop;
mod tally;
mod twins;
mod via;

pub(super) use {
    args::Send,
    check::{Bad, Checked},
    ended::messages,
    feed::{Fed, Feed},
    gate::{Passage, stack, suppressed},
    input::Problems,
    pass::{Files, Purpose},
    progress::Progress,
    rate::Rate,
    via::{DELIVERED, Target, Targets},
};

use crate::{
    commands::{Context, interrupts::Interrupts},
    exit::Exit,
    failure::Failure,
    output,
    store::{self, Sharing},
};
use ended::{Ended, say_unreported};
use hapax::{
    Hapax,
    core::{Namespace, Scope},
    mail::{Mailer, SuppressionList, Transport},
};
use report::Report;
use run::Run;
use std::{sync::Arc, time::Duration};
use stop::Stop;
use tally::Tally;

/// What is unknown is held at least so long: somebody has to look at it.
const UNKNOWN_TTL: Duration = Duration::from_hours(24);

impl Send {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let targets = Targets::parse(&self.via)?;
        // A key that is missing is told before anything is read.
        let transports = if self.dry_run { Vec::new() } else { targets.open()? };
        let list = suppressed(self.suppress.as_deref())?;
        let interrupts = Interrupts::listen();
        let mut interrupts = interrupts.map_err(|error| {
            Failure::new(Exit::Bug, "command.internal", format!("signals cannot be heard: {error}"))
        })?;
        let progress = Progress::new(&context.output);
        let mut report = Report::new(&context.output, &progress, self.skip_invalid);
        let selection = self.only_failed.clone().map(|report| (report, self.failed_too));
        let plan = self.files.plan(Purpose::Send { at_once: targets.sends_at_once() }, selection);
        let checked = match plan.check(|bad| report.bad(bad), &progress, &mut interrupts).await {
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
            progress.aside(|| output::warn(&twins::said(checked.twins)));
        }
        if checked.invalid > 0 && !self.skip_invalid {
            progress.finish();
            return Err(checked.refused("sent", "send"));
        }
        if checked.keyless > 0 {
            progress.aside(|| context.output.note(&keyless(checked.keyless)));
        }
        if self.dry_run {
            let done = tokio::select! {
                done = self.rehearse(context, (&targets, list), checked, &mut report) => done,
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
        let via = (transports, list, targets.scope());
        self.send(context, &hapax, via, checked, (report, &progress), &mut interrupts).await
    }

    async fn rehearse(
        &self,
        context: &Context,
        (targets, suppressed): (&Targets, SuppressionList),
        checked: Checked,
        report: &mut Report<'_>,
    ) -> Result<Exit, Failure> {
        let hapax = if let Some(note) = store::missing(&context.settings)? {
            context.output.note(&note);
            None
        } else {
            Some(store::open(&context.settings, Sharing::Needed).await?)
        };
        targets.unproven().for_each(|note| context.output.note(&note));
        let namespace = Namespace::new(&context.settings.namespace)?;
        let look_up = dry_run::LookUp { hapax, namespace, scope: Scope::new(&targets.scope())?, suppressed };
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
        via: (Vec<Arc<dyn Transport>>, SuppressionList, String),
        checked: Checked,
        (report, progress): (Report<'_>, &Progress),
        interrupts: &mut Interrupts,
    ) -> Result<Exit, Failure> {
        let stop = Stop::new(interrupts);
        let mailer = self.mailer(hapax, via, &stop)?;
        context.output.changed();
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

    fn mailer(
        &self,
        hapax: &Hapax,
        (transports, list, scope): (Vec<Arc<dyn Transport>>, SuppressionList, String),
        stop: &Stop<'_>,
    ) -> Result<Mailer, Failure> {
        let passage = Passage {
            attempts: self.attempts,
            rate: self.rate,
            timeout: self.timeout,
            stop: stop.drain.clone(),
        };
        let built = Mailer::via(stack(transports, list, &passage)?)
            .idempotent(&hapax.idempotency(&scope))
            .scope(&scope)
            .lease(self.lease)
            .ttl(self.ttl)
            .unknown_ttl(self.ttl.max(UNKNOWN_TTL))
            .keep_rejected(self.keep_rejected)
            .build();
        built.map_err(|error| Failure::usage(error.to_string()))
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

fn keyless(found: u64) -> String {
    let (have, them) = if found == 1 { ("has", "it") } else { ("have", "them") };
    format!(
        "{} {have} no key, and every run sends {them}: give {them} an idempotency_key, or use --key-template",
        messages(found)
    )
}
