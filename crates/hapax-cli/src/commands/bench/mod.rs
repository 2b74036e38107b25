//! `hapax bench`: what a store costs on this machine.
//!
//! | module | what it does |
//! |---|---|
//! | `load` | many callers at once, timed |
//! | `work` | the calls that are timed: through the engine, or to the store alone |
//! | `queue` | the same for queues: adding, draining, both at once, and how soon a job starts |
//! | `row` | a line of the answer |
//! | `disk` | what one sync of the disk takes |

mod disk;
mod load;
mod queue;
mod row;
mod work;

use self::{
    queue::Case,
    work::{Algorithm, Operation, Work},
};
use super::Context;
use crate::{
    config::Settings,
    duration,
    exit::Exit,
    failure::Failure,
    store::{self, Sharing},
};
use clap::Args;
use hapax::{BackendUrl, Hapax, core::Token};
use std::{sync::Arc, time::Duration};
use tokio::runtime::{Builder, Runtime};

/// Measure what a store costs on this machine
///
/// fresh: a new key each time is reserved, an effect that does nothing runs, its receipt of 100 bytes is kept. replay:
/// a thousand keys that have run are asked again. The keys are random, lie in a namespace of their own, and are
/// removed afterwards or over within a minute.
///
/// --queue measures queues instead, with payloads of 200 bytes and a handler that does nothing: add (one job with an id a
/// call), add-bulk (a hundred with ids a call), drain (jobs that wait, by a worker of --conc handlers), end-to-end (a hundred a
/// call, and a worker at once) and latency (--rate jobs a second, from the call of `add` to the start of the handler). Each
/// has a queue of its own, which is purged afterwards.
///
/// --lock measures locks: one that is free is taken, a body that does nothing runs, and it is given back; each caller has 16
/// names. --limit measures rate limits that nobody reaches, a thousand names, for each way of counting: fixed-window,
/// sliding-counter, token-bucket.
///
/// To compare with a plain loop on the same disk, time an INSERT and an UPDATE, each its own transaction, on a table with a
/// text key (fresh), or a SELECT by key (replay), with the same `synchronous` setting. Compare ratios of runs that took
/// turns: absolute figures drift by half within hours.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax bench
  hapax bench --inline --conc 1 --op replay
  hapax bench --store memory: --threads 2
  hapax bench --queue --store redis://localhost
  hapax bench --queue=drain --conc 100 --jobs 1000000
  hapax bench --lock --store redis://localhost
  hapax bench --limit=token-bucket --store memory:
  hapax bench --store 'sqlite:bench.db?synchronous=normal' --json")]
pub(crate) struct Bench {
    /// The store alone, without what hapax does around it
    #[arg(long)]
    inline: bool,
    /// What is measured
    #[arg(long, value_name = "OP", value_delimiter = ',', default_value = "fresh,replay")]
    op: Vec<Operation>,
    /// Queues in place of keys: all that can be measured of them, or only this
    #[arg(
        long, value_name = "CASE", value_delimiter = ',', num_args = 0.., require_equals = true,
        default_missing_values = ["add", "add-bulk", "drain", "end-to-end", "latency"],
        conflicts_with_all = ["op", "inline"]
    )]
    queue: Option<Vec<Case>>,
    /// Locks in place of keys
    #[arg(long, conflicts_with_all = ["op", "queue", "limit"])]
    lock: bool,
    /// Rate limits in place of keys: all that can be measured of them, or only this
    #[arg(
        long, value_name = "ALGORITHM", value_delimiter = ',', num_args = 0.., require_equals = true,
        default_missing_values = ["fixed-window", "sliding-counter", "token-bucket"], conflicts_with_all = ["op", "queue"]
    )]
    limit: Option<Vec<Algorithm>>,
    /// How many callers at a time, or handlers of a worker (1,64,512; of queues add 64, add-bulk 1, drain 1,10,100,
    /// end-to-end 100, latency 10)
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    conc: Vec<u32>,
    /// How many jobs, in place of as many as --time has room for
    #[arg(long, value_name = "N", requires = "queue", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    jobs: Option<u32>,
    /// How many jobs a second, for latency
    #[arg(long, value_name = "N", requires = "queue", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,
    /// Jobs have no ids, but for add
    #[arg(long, requires = "queue")]
    no_ids: bool,
    /// How many jobs a worker takes ahead of its handlers
    #[arg(long, value_name = "N", default_value = "0", requires = "queue")]
    prefetch: usize,
    /// How many threads they run on
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// About how long each line is measured
    #[arg(long, value_name = "DUR", default_value = "2s", value_parser = duration::parse_positive)]
    time: Duration,
}

impl Bench {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut store = store::url(&context.settings)?;
        if self.inline {
            store = store::inline(store)?;
        }
        let url = BackendUrl::parse(&store)?;
        // Whatever is kept under it is nobody else's.
        let namespace = format!("bench-{}", Token::random()?.version());
        let settings = Settings { namespace, store: Some(store), ..context.settings.clone() };
        #[cfg(unix)]
        crate::limits::check_open_files()?;
        let runtime = self.runtime()?;
        let answer = runtime.block_on(self.measure(context, &settings, &url));
        runtime.shutdown_background();
        answer
    }

    fn runtime(&self) -> Result<Runtime, Failure> {
        let threads = usize::try_from(self.threads).unwrap_or(1);
        let runtime = match threads {
            1 => Builder::new_current_thread().enable_all().build(),
            _ => Builder::new_multi_thread().worker_threads(threads).enable_all().build(),
        };
        runtime.map_err(|error| {
            Failure::new(Exit::Bug, "command.internal", format!("no runtime could be made: {error}"))
        })
    }

    async fn measure(
        &self,
        context: &Context,
        settings: &Settings,
        url: &BackendUrl,
    ) -> Result<Exit, Failure> {
        let output = &context.output;
        let hapax = store::open(settings, Sharing::Unneeded).await?;
        let about = row::About {
            sync: persistence(url),
            threads: self.threads,
            inline: self.inline,
            fdatasync_us: disk::sync_us(url),
        };
        if !output.json {
            about.head(output, url.scheme());
        }
        match &self.queue {
            Some(cases) => self.queues(context, &hapax, cases, &about, url.scheme()).await?,
            None => self.keys(context, &hapax, settings, &about, url.scheme()).await?,
        }
        output.end()?;
        Ok(Exit::Done)
    }

    async fn keys(
        &self,
        context: &Context,
        hapax: &Hapax,
        settings: &Settings,
        about: &row::About,
        scheme: &str,
    ) -> Result<(), Failure> {
        let (what, operations) = match &self.limit {
            Some(algorithms) => ("limit", algorithms.iter().copied().map(Operation::Limit).collect()),
            None if self.lock => ("lock", vec![Operation::Lock]),
            None => ("idem", self.op.clone()),
        };
        let work = Arc::new(Work::new(hapax, &settings.namespace, self.inline, &operations)?);
        for conc in self.conc(&[1, 64, 512]) {
            for &operation in &operations {
                let measured = load::measure(&work, operation, conc, self.time).await?;
                about.row(what, scheme, operation.name(), conc, measured).show(&context.output);
            }
        }
        work.clean_up(hapax).await
    }

    async fn queues(
        &self,
        context: &Context,
        hapax: &Hapax,
        cases: &[Case],
        about: &row::About,
        scheme: &str,
    ) -> Result<(), Failure> {
        let plan = queue::Plan {
            time: self.time,
            jobs: self.jobs,
            rate: self.rate,
            ids: !self.no_ids,
            prefetch: self.prefetch,
        };
        for &case in cases {
            for conc in self.conc(case.usual_conc()) {
                let measured = queue::measure(hapax, case, conc, &plan).await?;
                let mut row = about.row("queue", scheme, case.name(), conc, measured);
                row.ids = Some(case.has_ids(&plan));
                row.rate = case.has_rate().then_some(self.rate);
                row.batch = case.batch();
                row.show(&context.output);
            }
        }
        queue::forget(hapax).await
    }

    fn conc(&self, usual: &[u32]) -> Vec<u32> {
        if self.conc.is_empty() { usual.to_vec() } else { self.conc.clone() }
    }
}

/// When the store answers a write.
fn persistence(url: &BackendUrl) -> String {
    match url.scheme() {
        "sqlite" => url.option("synchronous").unwrap_or("full").to_uppercase(),
        "memory" => "none".to_owned(),
        _ => "of the server".to_owned(),
    }
}
