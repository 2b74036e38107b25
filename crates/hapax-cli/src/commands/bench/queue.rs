//! Queues: adding, draining, both at once, and how soon a job starts.

use super::load::{self, Cpu, Measured};
use crate::{exit::Exit, failure::Failure};
use hapax::{
    Hapax, Job, JobError, JobOptions, Queue, QueueDef, Worker,
    core::{Namespace, Token, doctor::Examine},
    queue::QueueStore,
};
use serde::{Deserialize, Serialize};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, task::JoinSet, time::Instant};

/// A payload, as JSON.
const PAYLOAD_BYTES: usize = 200;
/// So many are added in a call.
const BATCH: usize = 100;
/// The same where it is not measured.
const FILL: usize = 256;
/// A rate is looked at with so many before it is measured.
const TRIAL: usize = 1000;
/// Bounds the memory for latencies.
const MOST: usize = 1_000_000;
/// Jobs that are over are remembered for so long: what is over is then removed while others are added, as it would be in
/// the long run.
const REMEMBERED: Duration = Duration::from_secs(1);
/// So many ids that are over are removed in one step.
const STEP: usize = 1000;
/// A worker that has begun to wait is what latencies are about.
const SETTLING: Duration = Duration::from_millis(300);

static QUEUE: QueueDef<Payload> = QueueDef::new("bench");

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Case {
    /// One job with an id a call
    Add,
    /// A hundred jobs with ids a call
    AddBulk,
    /// Jobs that wait are worked off
    Drain,
    /// A hundred a call are added, and worked off at once
    EndToEnd,
    /// From the call of `add` to the start of the handler
    Latency,
}

impl Case {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::AddBulk => "add-bulk",
            Self::Drain => "drain",
            Self::EndToEnd => "end-to-end",
            Self::Latency => "latency",
        }
    }

    /// Callers, or handlers of the worker.
    pub(super) fn usual_conc(self) -> &'static [u32] {
        match self {
            Self::Add => &[64],
            Self::AddBulk => &[1],
            Self::Drain => &[1, 10, 100],
            Self::EndToEnd => &[100],
            Self::Latency => &[10],
        }
    }

    pub(super) fn has_rate(self) -> bool {
        self == Self::Latency
    }

    pub(super) fn has_ids(self, plan: &Plan) -> bool {
        plan.ids || self == Self::Add
    }

    pub(super) fn batch(self) -> Option<usize> {
        matches!(self, Self::AddBulk | Self::EndToEnd).then_some(BATCH)
    }
}

/// How much is measured.
pub(super) struct Plan {
    pub(super) time: Duration,
    pub(super) jobs: Option<u32>,
    pub(super) rate: u32,
    /// Whether jobs have ids where that is a choice.
    pub(super) ids: bool,
    /// How many jobs a worker takes ahead.
    pub(super) prefetch: usize,
}

#[derive(Serialize, Deserialize)]
struct Payload {
    /// When it was added, in nanoseconds since the case began.
    at: u64,
    fill: String,
}

impl Payload {
    fn new(at: u64) -> Self {
        let frame = r#"{"at":,"fill":""}"#.len() + at.to_string().len();
        Self { at, fill: "p".repeat(PAYLOAD_BYTES.saturating_sub(frame)) }
    }
}

/// What the handlers have seen.
struct Seen {
    began: Instant,
    left: AtomicUsize,
    all: Notify,
    /// Where latencies are wanted.
    took: Option<Mutex<Vec<Duration>>>,
}

impl Seen {
    fn start(&self, job: &Payload) {
        if let Some(took) = &self.took {
            let took_now = self.began.elapsed().saturating_sub(Duration::from_nanos(job.at));
            took.lock().unwrap_or_else(PoisonError::into_inner).push(took_now);
        }
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.all.notify_one();
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

async fn handle(seen: Arc<Seen>, job: Job<Payload>) -> Result<(), JobError> {
    seen.start(&job.data);
    Ok(())
}

/// A queue of its own, and what is done with it.
struct Bench {
    queue: Queue,
    store: Arc<dyn QueueStore>,
    examiner: Option<Arc<dyn Examine>>,
    ids: bool,
    prefetch: usize,
    /// What the ids of this case begin with.
    run: String,
}

/// Measures a case with `conc` callers, or with a worker of so many handlers.
pub(super) async fn measure(hapax: &Hapax, case: Case, conc: u32, plan: &Plan) -> Result<Measured, Failure> {
    let n = match plan.jobs {
        Some(jobs) => usize::try_from(jobs).unwrap_or(MOST),
        None if case.has_rate() => usize::try_from(plan.rate).unwrap_or(1),
        None => TRIAL,
    };
    if plan.jobs.is_some() {
        return one(hapax, case, conc, plan, n).await;
    }
    let rate =
        if case.has_rate() { f64::from(plan.rate) } else { one(hapax, case, conc, plan, n).await?.ops_s };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded right after")]
    let wanted = (rate * plan.time.as_secs_f64()) as usize;
    one(hapax, case, conc, plan, wanted.clamp(1, MOST)).await
}

async fn one(hapax: &Hapax, case: Case, conc: u32, plan: &Plan, n: usize) -> Result<Measured, Failure> {
    let bench = Arc::new(Bench::new(hapax, case.has_ids(plan), plan.prefetch)?);
    let conc = usize::try_from(conc).unwrap_or(1);
    let measured = match case {
        Case::Add => bench.add(conc, n).await,
        Case::AddBulk => bench.add_bulk(conc, n).await,
        Case::Drain => bench.drain(conc, n).await,
        Case::EndToEnd => bench.end_to_end(conc, n).await,
        Case::Latency => bench.latency(conc, n, plan.rate).await,
    };
    let id = bench.queue.raw(QUEUE.name())?.id().clone();
    bench.store.purge(&id).await?;
    measured
}

/// Removes what is remembered of jobs that are over.
pub(super) async fn forget(hapax: &Hapax) -> Result<(), Failure> {
    tokio::time::sleep(REMEMBERED).await;
    let queue = hapax.queue();
    while queue.store()?.prune(STEP).await? == STEP {}
    let _ = hapax.close().within(Duration::from_secs(5)).await;
    Ok(())
}

impl Bench {
    fn new(hapax: &Hapax, ids: bool, prefetch: usize) -> Result<Self, Failure> {
        let run = Token::random()?.version().to_string();
        // Whatever is kept under it is nobody else's.
        let queue = hapax.queue().with_namespace(Namespace::new(&format!("bench-{run}")));
        let store = Arc::clone(queue.store()?);
        // The only one that says what its server used.
        let examiner = hapax.backend().examiner.clone().filter(|_| hapax.backend().name == "redis");
        Ok(Self { queue, store, examiner, ids, prefetch, run })
    }

    async fn cpu(&self) -> Cpu {
        let server = match &self.examiner {
            Some(examiner) => examiner.examine().await.ok().and_then(|found| found.server_cpu),
            None => None,
        };
        Cpu { here: load::cpu_time(), server }
    }

    /// The figures of `n` jobs since `before`.
    async fn since(&self, n: usize, took: Vec<Duration>, (started, before): (Instant, Cpu)) -> Measured {
        let elapsed = started.elapsed();
        let here = load::cpu_time().saturating_sub(before.here);
        let server = self.cpu().await.server.zip(before.server);
        let server = server.map(|(after, before)| after.saturating_sub(before));
        load::measured(n, took, elapsed, Cpu { here, server })
    }

    async fn start(&self) -> (Instant, Cpu) {
        let cpu = self.cpu().await;
        (Instant::now(), cpu)
    }

    fn options(&self, number: usize) -> JobOptions {
        let options = JobOptions::default().dedupe_for(REMEMBERED);
        if self.ids { options.job_id(format!("job-{}-{number}", self.run)) } else { options }
    }

    async fn add(self: &Arc<Self>, conc: usize, n: usize) -> Result<Measured, Failure> {
        let before = self.start().await;
        let mut callers = JoinSet::new();
        for first in 0..conc.min(n) {
            let bench = Arc::clone(self);
            callers.spawn(async move {
                let mut took = Vec::with_capacity(n / conc + 1);
                for number in (first..n).step_by(conc) {
                    let begun = Instant::now();
                    let added =
                        bench.queue.add(&QUEUE, &Payload::new(0)).options(bench.options(number)).await?;
                    took.push(begun.elapsed());
                    is_new(&added)?;
                }
                Ok::<_, Failure>(took)
            });
        }
        let took = all_of(callers).await?;
        Ok(self.since(n, took, before).await)
    }

    async fn add_bulk(self: &Arc<Self>, conc: usize, n: usize) -> Result<Measured, Failure> {
        let before = self.start().await;
        let mut callers = JoinSet::new();
        for caller in 0..conc {
            let bench = Arc::clone(self);
            callers.spawn(async move {
                let mut took = Vec::with_capacity(n / conc / BATCH + 1);
                for from in (caller * BATCH..n).step_by(conc * BATCH) {
                    let begun = Instant::now();
                    bench.add_some(from..(from + BATCH).min(n), || 0).await?;
                    took.push(begun.elapsed());
                }
                Ok(took)
            });
        }
        let took = all_of(callers).await?;
        Ok(self.since(n, took, before).await)
    }

    async fn add_some(&self, numbers: std::ops::Range<usize>, at: impl Fn() -> u64) -> Result<(), Failure> {
        let raw = self.queue.raw(QUEUE.name())?;
        let jobs = numbers.map(|number| {
            let payload = serde_json::to_vec(&Payload::new(at())).unwrap_or_default();
            (payload.into(), self.options(number))
        });
        for added in raw.add_many(jobs).await? {
            is_new(&added?)?;
        }
        Ok(())
    }

    /// A worker that has seen nothing yet of `n` jobs.
    async fn worker(&self, conc: usize, n: usize, timed: bool) -> Result<(Worker, Arc<Seen>), Failure> {
        let seen = Arc::new(Seen {
            began: Instant::now(),
            left: AtomicUsize::new(n),
            all: Notify::new(),
            took: timed.then(|| Mutex::new(Vec::with_capacity(n))),
        });
        let worker = self.queue.worker(&QUEUE, Arc::clone(&seen), handle).concurrency(conc);
        let worker = worker.prefetch(self.prefetch);
        Ok((worker.start().await?, seen))
    }

    async fn drain(&self, conc: usize, n: usize) -> Result<Measured, Failure> {
        for from in (0..n).step_by(FILL) {
            self.add_some(from..(from + FILL).min(n), || 0).await?;
        }
        let before = self.start().await;
        let (worker, seen) = self.worker(conc, n, false).await?;
        self.ended(n, worker, &seen, before).await
    }

    async fn end_to_end(&self, conc: usize, n: usize) -> Result<Measured, Failure> {
        let before = self.start().await;
        let (worker, seen) = self.worker(conc, n, true).await?;
        let adding = async {
            for from in (0..n).step_by(BATCH) {
                self.add_some(from..(from + BATCH).min(n), || seen.now()).await?;
            }
            Ok::<_, Failure>(())
        };
        adding.await?;
        self.ended(n, worker, &seen, before).await
    }

    async fn latency(&self, conc: usize, n: usize, rate: u32) -> Result<Measured, Failure> {
        let (worker, seen) = self.worker(conc, n, true).await?;
        tokio::time::sleep(SETTLING).await;
        let before = self.start().await;
        let mut tick = tokio::time::interval(Duration::from_secs(1) / rate);
        for number in 0..n {
            tick.tick().await;
            let payload = Payload::new(seen.now());
            is_new(&self.queue.add(&QUEUE, &payload).options(self.options(number)).await?)?;
        }
        self.ended(n, worker, &seen, before).await
    }

    /// All jobs have been seen, and have ended in the store.
    async fn ended(
        &self,
        n: usize,
        worker: Worker,
        seen: &Seen,
        before: (Instant, Cpu),
    ) -> Result<Measured, Failure> {
        tokio::select! {
            () = seen.all.notified() => {}
            _ = worker.ended() => {}
        }
        let ran = worker.stop().await;
        let took = seen
            .took
            .as_ref()
            .map(|took| std::mem::take(&mut *took.lock().unwrap_or_else(PoisonError::into_inner)));
        let measured = self.since(n, took.unwrap_or_default(), before).await;
        // Figures of something else than what was meant are worth nothing.
        if usize::try_from(ran.done) != Ok(n) {
            let message = format!("the worker has done {} jobs, not {n}", ran.done);
            return Err(Failure::new(Exit::Bug, "command.internal", message));
        }
        Ok(measured)
    }
}

fn is_new(added: &hapax::Added) -> Result<(), Failure> {
    if added.is_duplicate() {
        return Err(Failure::new(Exit::Bug, "command.internal", "a job with a new id was there before"));
    }
    Ok(())
}

async fn all_of(mut callers: JoinSet<Result<Vec<Duration>, Failure>>) -> Result<Vec<Duration>, Failure> {
    let mut all = Vec::new();
    while let Some(took) = callers.join_next().await {
        all.extend(took.map_err(|error| {
            Failure::new(Exit::Bug, "command.internal", format!("a caller ended early: {error}"))
        })??);
    }
    Ok(all)
}
