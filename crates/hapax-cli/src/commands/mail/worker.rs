//! `hapax mail worker`: sends the mails of a queue.

use super::{
    QUEUE,
    send::{Passage, Rate, Targets, stack, suppressed},
};
use crate::{
    commands::{
        Context,
        queue::{
            Found,
            drive::{self, Ended, Working, parse_concurrency},
        },
    },
    duration,
    exit::Exit,
    failure::Failure,
};
use clap::Args;
use hapax::mail::{Mailer, Transport, jobs::MailJobs};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// What is unknown is held at least so long: somebody has to look at it.
const UNKNOWN_TTL: Duration = Duration::from_hours(24);

/// Send the mails of the queue `mail`
///
/// Each mail is sent once under its key, or under the id of its job where it has none, however often the job runs; run as many
/// workers as you like. Key and job end in one step where the store holds both. A failure that may pass is tried again after the
/// backoff of the job, one that lies in how --via is set up every half a minute, which is no attempt; one that will not is a dead
/// letter at once, and so is a mail that may have gone: `hapax queue dead show
/// mail ID` says how to settle it.
///
/// The first SIGINT or SIGTERM lets the sends end that have begun, for --drain at most; the second ends hapax at once.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax mail worker
  hapax mail worker --via file:outbox --concurrency 16 --rate 50/s
  hapax mail worker --until-empty; hapax queue dead list mail

EXIT CODES:
  0         stopped, or (--once, --until-empty) nothing is left
  1         with --once or --until-empty: a mail that it took went dead
  69        the store failed at the start, or no mail can be written to the folder of --via: no job was taken
  130, 143  ended at once by a second signal")]
pub(super) struct Worker {
    /// The queue
    #[arg(long, value_name = "QUEUE", default_value = QUEUE)]
    queue: String,
    #[arg(
        long,
        value_name = "URL",
        default_value = "file:outbox",
        help = "Where mails go: smtp://HOST, resend: and others (`hapax help transports`), file:DIR writes one .eml a message, \
                stub: accepts and forgets. Given several times: the next one is tried where one fails for certain"
    )]
    via: Vec<String>,
    /// Who gets no mail: an address a line, or @domain
    #[arg(long, value_name = "FILE")]
    suppress: Option<PathBuf>,
    #[command(flatten)]
    working: Working,
    /// Sends in progress at a time
    #[arg(long, value_name = "N", default_value = "8", value_parser = parse_concurrency)]
    concurrency: usize,
    /// At most so many sends of this worker start: 50/s, 600/m, 1000/h. `hapax queue limits` bounds all workers together
    #[arg(long, value_name = "RATE", value_parser = Rate::parse)]
    rate: Option<Rate>,
    /// For one attempt, from when --rate lets it start. A job's own --timeout may be shorter, and counts from when it was taken
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive)]
    timeout: Option<Duration>,
    /// How long a job and its key stay with a worker that has died; renewed while it lives
    #[arg(long, value_name = "DUR", default_value = "30s", value_parser = duration::parse_lease)]
    lease: Duration,
    /// How long receipts answer
    #[arg(long, value_name = "DUR", default_value = "24h", value_parser = duration::parse_positive)]
    ttl: Duration,
}

impl Worker {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        crate::commands::queue::name(&self.queue)?;
        let targets = Targets::parse(&self.via)?;
        let transports = targets.open()?;
        self.working.check()?;
        #[cfg(unix)]
        crate::limits::check_open_files_of(self.concurrency)?;
        let mut interrupts = drive::interrupts()?;
        targets.check().await?;
        let found = Found::open(&self.queue, context).await?;
        let stop = CancellationToken::new();
        let jobs = MailJobs::new(self.mailer(&found, transports, &targets.scope(), &stop)?);
        let worker = found.raw.worker(jobs).concurrency(self.concurrency).claim_idle(self.lease);
        let ran = match self.working.drive(worker, &found, &stop, &mut interrupts, context).await? {
            Ended::By(ran) => ran,
            Ended::AtOnce(signal) => return Ok(Exit::Signal(signal)),
        };
        tokio::select! {
            () = drive::close(&found, self.lease) => {}
            _ = interrupts.next() => {}
        }
        Ok(self.working.report(ran, &found, context).await)
    }

    /// One attempt a time: the queue has the others. Its time-out begins when its turn has come.
    fn mailer(
        &self,
        found: &Found,
        transports: Vec<Arc<dyn Transport>>,
        scope: &str,
        stop: &CancellationToken,
    ) -> Result<Mailer, Failure> {
        let list = suppressed(self.suppress.as_deref())?;
        let passage = Passage { attempts: 1, rate: self.rate, timeout: self.timeout, stop: stop.clone() };
        let built = Mailer::via(stack(transports, list, &passage)?)
            .idempotent(&found.hapax.idempotency(scope))
            .scope(scope)
            .lease(self.lease)
            .ttl(self.ttl)
            .unknown_ttl(self.ttl.max(UNKNOWN_TTL))
            .build();
        built.map_err(|error| Failure::usage(error.to_string()))
    }
}
