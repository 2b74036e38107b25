//! Workers in processes of their own that are killed at any moment: every job ends once.

#![expect(clippy::unwrap_used, reason = "tests")]

use hapax::{
    Hapax, Job, JobError, OnError, QueueDef,
    core::{Namespace, StoreResult, idempotency::List},
    queue::QueueStats,
};
use hapax_testkit::{
    postgres::{self, Postgres},
    redis::Redis,
};
use libtest_mimic::{Arguments, Completion, Trial};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    time::Duration,
};
use tokio::time::Instant;

const URL: &str = "HAPAX_TEST_WORKER_URL";
const EFFECTS: &str = "HAPAX_TEST_WORKER_EFFECTS";
const WORKERS: usize = 4;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    n: usize,
}

static ORDERS: QueueDef<Order> = QueueDef::new("orders");

/// The effect: one line in a file, in one write.
async fn effect(file: PathBuf, job: Job<Order>) -> Result<usize, JobError> {
    let mut file = OpenOptions::new().append(true).open(file)?;
    file.write_all(format!("{}\n", job.data.n).as_bytes())?;
    Ok(job.data.n)
}

/// What a child of these tests does, until it is killed.
async fn work(url: &str, effects: PathBuf) {
    let hapax = hapax::connect(url).await.unwrap();
    let keys = hapax.idempotency("orders").with_lease(Duration::from_secs(1));
    let worker = hapax.queue().worker(&ORDERS, effects, effect).idempotent(&keys, OnError::Retry);
    let worker = worker.concurrency(8).claim_idle(Duration::from_secs(1)).max_losses(u32::MAX);
    worker.start().await.unwrap().run_until(std::future::pending::<()>()).await;
}

/// A worker that is killed when it is dropped.
struct Killed(Child);

impl Killed {
    fn start(url: &str, effects: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(URL, url).env(EFFECTS, effects).stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn figures(hapax: &Hapax) -> QueueStats {
    hapax.queue().stats(&ORDERS).await.unwrap().remove(0)
}

/// Keys of jobs, and how many of them are done.
async fn keys(hapax: &Hapax) -> StoreResult<(usize, usize)> {
    let (mut after, mut all, mut done) = (None, 0, 0);
    loop {
        let req = List {
            namespace: Namespace::default(),
            scope: None,
            prefix: String::new(),
            state: None,
            after,
            limit: 500,
        };
        let page = hapax.backend().idempotency.list(&req).await?;
        all += page.records.len();
        done += page
            .records
            .iter()
            .filter(|(_, record)| record.is(hapax::core::idempotency::StateFilter::Done))
            .count();
        after = page.records.last().map(|(name, _)| {
            (
                hapax::core::Scope::from_shown(name.scope()).unwrap(),
                hapax::core::Key::from_shown(name.key()).unwrap(),
            )
        });
        if !page.more {
            return Ok((all, done));
        }
    }
}

/// Kills one of the workers at a random moment, again and again, while they work.
#[expect(clippy::print_stdout, reason = "the count belongs into the report of a long run")]
async fn killed_at_random(url: &str, folder: &Path) {
    let long = std::env::var_os("HAPAX_TEST_LONG").is_some();
    let kills = if long { 1000 } else { 25 };
    let effects = folder.join("effects");
    std::fs::File::create(&effects).unwrap();
    let hapax = hapax::connect(url).await.unwrap();
    let (mut added, mut killed) = (0, 0);
    let mut workers: Vec<_> = (0..WORKERS).map(|_| Killed::start(url, &effects)).collect();
    let started = Instant::now();
    loop {
        let stats = hapax.queue().stats(&ORDERS).await.unwrap().into_iter().next();
        let open = stats.map_or(0, |stats| stats.ready + stats.delayed + stats.running);
        if killed < kills && open < 200 {
            let orders: Vec<_> = (added..added + 100).map(|n| Order { n }).collect();
            let each =
                |order: &Order, options: hapax::JobOptions| options.job_id(["order", &order.n.to_string()]);
            for answer in hapax.queue().add_many(&ORDERS, &orders, each).await.unwrap() {
                assert!(!answer.unwrap().is_duplicate());
            }
            added += orders.len();
        } else if killed < kills {
            // A moment that nobody chose: the child is wherever it is.
            tokio::time::sleep(Duration::from_micros(fastrand::u64(0..60_000))).await;
            let at = killed % WORKERS;
            drop(workers.remove(at));
            workers.insert(at, Killed::start(url, &effects));
            killed += 1;
        } else if open == 0 {
            break;
        } else {
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(started.elapsed() < Duration::from_mins(if long { 60 } else { 3 }), "{open} jobs are open");
    }
    drop(workers);
    let stats = figures(&hapax).await;
    let ended = (stats.done, stats.dead, stats.cancelled);
    // A drop between the effect and its receipt is no drop that the process sees: nothing is unknown here.
    assert_eq!(ended, (u64::try_from(added).unwrap(), 0, 0), "{stats:?}");
    assert_eq!(keys(&hapax).await.unwrap(), (added, added), "every key is done");
    let mut times: HashMap<String, usize> = HashMap::new();
    for line in std::fs::read_to_string(&effects).unwrap().lines() {
        *times.entry(line.to_owned()).or_default() += 1;
    }
    assert_eq!(times.len(), added, "every effect happened");
    let twice = times.values().filter(|times| **times > 1).count();
    let most = times.values().max().copied().unwrap_or_default();
    println!(
        "{added} jobs, {killed} kills: {twice} effects happened again ({most} times at most), {} losses",
        stats.lost
    );
    assert!(twice <= killed * 8, "an effect happens again only where a kill fell between it and its receipt");
}

fn workers_killed_at_random_end_every_job_once_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("store.db").display());
    on_runtime(killed_at_random(&url, folder.path()));
}

fn workers_killed_at_random_end_every_job_once_on_redis() {
    let server = Redis::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let folder = tempfile::tempdir().unwrap();
    on_runtime(killed_at_random(&server.url(), folder.path()));
}

fn workers_killed_at_random_end_every_job_once_on_postgres() {
    let server = Postgres::start();
    let folder = tempfile::tempdir().unwrap();
    on_runtime(killed_at_random(&server.url(), folder.path()));
}

fn on_runtime(case: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(case);
}

/// Why a server cannot be had.
type Missing = fn() -> Option<String>;

fn main() -> ExitCode {
    if let (Ok(url), Some(effects)) = (std::env::var(URL), std::env::var_os(EFFECTS)) {
        on_runtime(work(&url, effects.into()));
        return ExitCode::FAILURE;
    }
    let cases: [(&str, fn(), Missing); 3] = [
        (
            "workers_killed_at_random_end_every_job_once_on_sqlite",
            workers_killed_at_random_end_every_job_once_on_sqlite,
            || None,
        ),
        (
            "workers_killed_at_random_end_every_job_once_on_redis",
            workers_killed_at_random_end_every_job_once_on_redis,
            || hapax_testkit::missing(&["redis-server"]),
        ),
        (
            "workers_killed_at_random_end_every_job_once_on_postgres",
            workers_killed_at_random_end_every_job_once_on_postgres,
            postgres::missing,
        ),
    ];
    let trials = cases.map(|(name, case, missing)| {
        Trial::ignorable_test(name, move || {
            if let Some(why) = missing() {
                return Ok(Completion::ignored_with(why));
            }
            case();
            Ok(Completion::Completed)
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}
