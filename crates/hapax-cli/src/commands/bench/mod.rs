//! `hapax bench`: what a store costs on this machine.
//!
//! | module | what it does |
//! |---|---|
//! | `load` | many callers at once, timed |
//! | `work` | the calls that are timed: through the engine, or to the store alone |
//! | `disk` | what one sync of the disk takes |

mod disk;
mod load;
mod work;

use self::{
    load::Measured,
    work::{Operation, Work},
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
use hapax::{BackendUrl, core::Token};
use serde::Serialize;
use std::{sync::Arc, time::Duration};
use tokio::runtime::{Builder, Runtime};

/// Measure what a store costs on this machine
///
/// fresh: a new key each time is reserved, an effect that does nothing runs, its receipt of 100 bytes is kept. replay:
/// a thousand keys that have run are asked again. The keys are random, lie in a namespace of their own, and are
/// removed afterwards or over within a minute.
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
  hapax bench --store 'sqlite:bench.db?synchronous=normal' --json")]
pub(crate) struct Bench {
    /// The store alone, without what hapax does around it
    #[arg(long)]
    inline: bool,
    /// What is measured
    #[arg(long, value_name = "OP", value_delimiter = ',', default_value = "fresh,replay")]
    op: Vec<Operation>,
    /// How many callers at a time
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,64,512", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    conc: Vec<u32>,
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
        let mut url = BackendUrl::parse(&store)?;
        if self.inline && url.scheme() == "sqlite" && url.option("inline").is_none() {
            // Without the way to a thread for blocking work and back.
            store.push_str(if store.contains('?') { "&inline=yes" } else { "?inline=yes" });
            url = BackendUrl::parse(&store)?;
        }
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
        let (sync, fdatasync_us) = (persistence(url), disk::sync_us(url));
        if !output.json {
            let disk = fdatasync_us.map_or_else(String::new, |us| format!(", fdatasync {us} us"));
            output.line(&format!("{}, synchronous {sync}{disk}, threads {}", url.scheme(), self.threads));
            output.line(&format!(
                "{:<8}{:>6}{:>12}{:>10}{:>10}{:>12}{:>10}",
                "op", "conc", "ops/s", "p50 us", "p99 us", "cpu us/op", "n"
            ));
        }
        let work = Arc::new(Work::new(&hapax, &settings.namespace, self.inline)?);
        for conc in &self.conc {
            for &operation in &self.op {
                let measured = load::measure(&work, operation, *conc, self.time).await?;
                let row = Row {
                    bench: format!("idem-{}", url.scheme()),
                    op: operation,
                    implementation: concat!("hapax ", env!("CARGO_PKG_VERSION")),
                    inline: self.inline,
                    sync: &sync,
                    conc: *conc,
                    threads: self.threads,
                    measured,
                    fdatasync_us,
                };
                if output.json { output.object(&row) } else { output.line(&row.text()) }
            }
        }
        work.clean_up(&hapax).await?;
        output.end()?;
        Ok(Exit::Done)
    }
}

/// A line of the answer, with the fields that the other programs of a comparison print.
#[derive(Debug, Serialize)]
struct Row<'a> {
    bench: String,
    op: Operation,
    #[serde(rename = "impl")]
    implementation: &'static str,
    inline: bool,
    sync: &'a str,
    conc: u32,
    threads: u32,
    #[serde(flatten)]
    measured: Measured,
    #[serde(skip_serializing_if = "Option::is_none")]
    fdatasync_us: Option<u64>,
}

impl Row<'_> {
    fn text(&self) -> String {
        let Measured { n, ops_s, client_us_op, p50_us, p99_us, .. } = self.measured;
        let op = self.op.name();
        format!("{op:<8}{:>6}{ops_s:>12.0}{p50_us:>10.1}{p99_us:>10.1}{client_us_op:>12.2}{n:>10}", self.conc)
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
