//! Workers on real servers on bad days: answers that get lost, restarts in a row, a memory that is gone.

#![expect(clippy::unwrap_used, reason = "tests")]

use hapax::{Hapax, Job, JobError, OnError, QueueDef, queue::QueueStats};
use hapax_testkit::{
    Fault, Proxy,
    postgres::{self, SharedPostgres},
    redis::Redis,
};
use libtest_mimic::{Arguments, Completion, Trial};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    process::ExitCode,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::Instant;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    n: usize,
}

static ORDERS: QueueDef<Order> = QueueDef::new("orders");

/// How often each order was seen by a handler.
type Runs = Arc<Mutex<HashMap<usize, usize>>>;

async fn noted(runs: Runs, job: Job<Order>) -> Result<(), JobError> {
    *runs.lock().unwrap().entry(job.data.n).or_default() += 1;
    Ok(())
}

async fn figures(hapax: &Hapax) -> QueueStats {
    hapax.queue().stats(&ORDERS).await.unwrap().remove(0)
}

/// Waits for a condition; fails after a minute.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_mins(1), waited).await.is_ok(), "never so: {what}");
}

/// A handler in whose way to the server something is.
#[derive(Clone)]
struct Cutting {
    runs: Runs,
    proxy: Arc<Proxy>,
}

/// One job in so many puts a fault on the request that follows: mostly the step that ends it and takes others.
const EACH: usize = 20;
/// A request does not come twice over a connection of TCP.
const FAULTS: [Fault; 3] = [Fault::CutAfter, Fault::CutReply, Fault::CutBefore];

async fn cuts(state: Cutting, job: Job<Order>) -> Result<(), JobError> {
    if let Some(fault) =
        FAULTS.get(job.data.n / EACH % FAULTS.len()).filter(|_| job.data.n.is_multiple_of(EACH))
    {
        state.proxy.arm(*fault);
    }
    noted(state.runs, job).await
}

/// A worker whose line to its server is cut, again and again, while it works.
async fn through_a_line_that_is_cut(url: impl Fn(u16) -> String, port: u16, is_idempotent: bool) {
    const JOBS: usize = 200;
    let proxy = Arc::new(Proxy::before(port));
    let near = hapax::connect(url(port)).await.unwrap();
    let far = hapax::connect(url(proxy.port())).await.unwrap();
    let orders: Vec<_> = (0..JOBS).map(|n| Order { n }).collect();
    near.queue().add_many(&ORDERS, &orders, |_, options| options).await.unwrap();
    let (runs, keys) = (Runs::default(), far.idempotency("orders"));
    let state = Cutting { runs: Arc::clone(&runs), proxy: Arc::clone(&proxy) };
    let worker = far.queue().worker(&ORDERS, state, cuts).concurrency(3).claim_idle(Duration::from_secs(9));
    let worker = if is_idempotent { worker.idempotent(&keys, OnError::Retry) } else { worker };
    let worker = worker.start().await.unwrap();
    until("all jobs are done", async || figures(&near).await.done == u64::try_from(JOBS).unwrap()).await;
    let ran = worker.stop().await;
    let stats = figures(&near).await;
    assert!(proxy.happened() > JOBS / EACH / 2, "{} faults", proxy.happened());
    // What came in a lost answer was given back in time, and an end that was told twice is no loss either.
    assert_eq!((stats.lost, stats.dead, ran.lost), (0, 0, 0), "{stats:?} {ran:?}");
    assert_eq!(ran.done, u64::try_from(JOBS).unwrap(), "{ran:?}");
    let runs = runs.lock().unwrap();
    assert_eq!((runs.len(), runs.values().max()), (JOBS, Some(&1)), "each job ran once");
}

async fn lost_answers_cost_no_job_and_no_run_on_redis() {
    let server = Redis::start();
    let url = |port| format!("redis://127.0.0.1:{port}");
    through_a_line_that_is_cut(url, server.port(), false).await;
}

async fn lost_answers_cost_no_receipt_on_redis() {
    let server = Redis::start();
    let url = |port| format!("redis://127.0.0.1:{port}");
    through_a_line_that_is_cut(url, server.port(), true).await;
}

async fn lost_answers_cost_no_receipt_on_postgres() {
    let server = SharedPostgres::join();
    let schema = format!("lost_receipts_{}", std::process::id());
    let url = |port| format!("postgres://postgres@127.0.0.1:{port}/postgres?schema={schema}");
    through_a_line_that_is_cut(url, server.port(), true).await;
}

async fn lost_answers_cost_no_job_and_no_run_on_postgres() {
    let server = SharedPostgres::join();
    let schema = format!("lost_answers_{}", std::process::id());
    let url = |port| format!("postgres://postgres@127.0.0.1:{port}/postgres?schema={schema}");
    through_a_line_that_is_cut(url, server.port(), false).await;
}

async fn a_worker_outlives_restarts_in_a_row() {
    let mut server = Redis::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let hapax = hapax::connect(format!("{}?timeout=5s", server.url())).await.unwrap();
    let runs = Runs::default();
    // What an answer that dies with the server has handed out comes back after three beats, each a third of this.
    let worker = hapax.queue().worker(&ORDERS, Arc::clone(&runs), noted).claim_idle(Duration::from_secs(9));
    let worker = worker.start().await.unwrap();
    hapax.queue().add(&ORDERS, &Order { n: 0 }).await.unwrap();
    until("the first is done", async || figures(&hapax).await.done == 1).await;
    // Becomes due while there is no server, as others wait, and as it comes back.
    for (n, ms) in [(1, 1), (2, 300), (3, 1000)] {
        hapax.queue().add(&ORDERS, &Order { n }).delay(Duration::from_millis(ms)).await.unwrap();
    }
    for _ in 0..3 {
        server.kill();
        server.start_again();
    }
    let back = Instant::now();
    until("what became due is done", async || {
        let stats = hapax.queue().stats(&ORDERS).await;
        stats.is_ok_and(|stats| stats.iter().any(|stats| stats.done == 4))
    })
    .await;
    assert!(back.elapsed() < Duration::from_secs(15), "{:?} after the server was back", back.elapsed());
    // And it hears of new jobs as before.
    hapax.queue().add(&ORDERS, &Order { n: 4 }).await.unwrap();
    until("a new one is done", async || figures(&hapax).await.done == 5).await;
    assert_eq!((worker.stop().await.lost, figures(&hapax).await.dead), (0, 0));
    assert_eq!(runs.lock().unwrap().len(), 5);
}

async fn a_worker_goes_on_where_the_server_has_forgotten_all() {
    let server = Redis::start();
    let hapax = hapax::connect(server.url()).await.unwrap();
    let runs = Runs::default();
    let worker = hapax.queue().worker(&ORDERS, Arc::clone(&runs), noted).start().await.unwrap();
    for n in 0..4 {
        let forgets = if n % 2 == 0 { "FLUSHALL" } else { "SCRIPT FLUSH" };
        assert!(server.ask(forgets).starts_with("+OK"));
        hapax.queue().add(&ORDERS, &Order { n }).await.unwrap();
        until("it is run", async || runs.lock().unwrap().contains_key(&n)).await;
        until("it is done", async || figures(&hapax).await.done > 0).await;
    }
    assert_eq!(worker.stop().await.done, 4);
}

async fn a_worker_goes_on_whatever_becomes_of_its_connections() {
    let server = Redis::start();
    let hapax = hapax::connect(server.url()).await.unwrap();
    let runs = Runs::default();
    let worker = hapax.queue().worker(&ORDERS, Arc::clone(&runs), noted).start().await.unwrap();
    let is_waiting = || {
        let clients = server.ask("CLIENT LIST");
        let waits =
            clients.lines().find(|client| client.contains("cmd=bzpopmin") && client.contains("flags=b"));
        Some(waits?.split(' ').next()?.strip_prefix("id=")?.to_owned())
    };
    let disturbances: [fn(&str) -> String; 4] = [
        |id| format!("CLIENT UNBLOCK {id}"),
        |id| format!("CLIENT UNBLOCK {id} ERROR"),
        |id| format!("CLIENT KILL ID {id}"),
        |_| "CLIENT KILL TYPE normal SKIPME yes".to_owned(),
    ];
    for (n, disturb) in disturbances.into_iter().enumerate() {
        let mut id = None;
        until("it waits", async || {
            id = is_waiting();
            id.is_some()
        })
        .await;
        let answer = server.ask(&disturb(&id.unwrap()));
        assert!(answer.starts_with(':') && !answer.starts_with(":0"), "{answer}");
        let before = Instant::now();
        until("it is added", async || {
            hapax.queue().add(&ORDERS, &Order { n }).job_id(["n", &n.to_string()]).await.is_ok()
        })
        .await;
        until("it is run", async || runs.lock().unwrap().contains_key(&n)).await;
        assert!(before.elapsed() < Duration::from_secs(10), "{:?}", before.elapsed());
    }
    assert_eq!(worker.stop().await.done, 4);
}

type Case = fn() -> std::pin::Pin<Box<dyn Future<Output = ()>>>;
/// Why a server cannot be had.
type Missing = fn() -> Option<String>;

/// Lists tests. One that is not listed is dead code, so none is forgotten.
macro_rules! list {
    ($missing:expr; $($case:ident),+ $(,)?) => {
        vec![$((stringify!($case), (|| Box::pin($case())) as Case, $missing as Missing)),+]
    };
}

fn main() -> ExitCode {
    let mut cases = list!(|| hapax_testkit::missing(&["redis-server"]);
        lost_answers_cost_no_job_and_no_run_on_redis,
        lost_answers_cost_no_receipt_on_redis,
        a_worker_outlives_restarts_in_a_row,
        a_worker_goes_on_where_the_server_has_forgotten_all,
        a_worker_goes_on_whatever_becomes_of_its_connections,
    );
    cases.extend(list!(postgres::missing;
        lost_answers_cost_no_job_and_no_run_on_postgres,
        lost_answers_cost_no_receipt_on_postgres,
    ));
    let trials = cases.into_iter().map(|(name, case, missing)| {
        Trial::ignorable_test(name, move || {
            if let Some(why) = missing() {
                return Ok(Completion::ignored_with(why));
            }
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(case());
            Ok(Completion::Completed)
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
