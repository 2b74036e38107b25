//! Many callers at once, timed.

use super::work::{Operation, Work};
use crate::{exit::Exit, failure::Failure};
use hapax::core::Name;
use serde::Serialize;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{task::JoinSet, time::Instant};

/// Bounds the memory for keys.
const MOST_FRESH: usize = 500_000;
/// Bounds the memory for latencies.
const MOST: usize = 5_000_000;
/// Faster than this, reading the clock around each call would be a good part of what is measured: one in so many is
/// looked at.
const FAST: f64 = 200_000.0;
const ONE_IN: usize = 64;
/// So long a rate is looked at before it is measured.
const TRIAL: Duration = Duration::from_millis(100);
const TRIAL_MOST: usize = 20_000;

/// What the callers did.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Measured {
    pub(super) n: usize,
    pub(super) secs: f64,
    pub(super) ops_s: f64,
    /// Processor time of this process.
    pub(super) client_us_op: f64,
    /// That of the server, where it says.
    #[serde(rename = "redis_us_op", skip_serializing_if = "Option::is_none")]
    pub(super) server_us_op: Option<f64>,
    /// Where something was timed one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p50_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p99_us: Option<f64>,
}

/// Runs `operation` with `conc` callers for about `time`.
pub(super) async fn measure(
    work: &Arc<Work>,
    operation: Operation,
    conc: u32,
    time: Duration,
) -> Result<Measured, Failure> {
    let conc = usize::try_from(conc).unwrap_or(1);
    let kept = if operation.is_fresh() { Vec::new() } else { work.names(operation, 0, conc).await? };
    let kept = Arc::new(kept);
    let trial = run(work, operation, &kept, conc, TRIAL_MOST, TRIAL, 1).await?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded right after")]
    let wanted = (trial.ops_s * time.as_secs_f64()) as usize;
    // Time alone would end the callers one by one, so the number of calls does; the time bounds it.
    let most = if operation.is_fresh() { MOST_FRESH } else { MOST };
    let one_in = if trial.ops_s > FAST { ONE_IN } else { 1 };
    run(work, operation, &kept, conc, wanted.clamp(conc, most), time * 3, one_in).await
}

async fn run(
    work: &Arc<Work>,
    operation: Operation,
    kept: &Arc<Vec<Name>>,
    conc: usize,
    n: usize,
    limit: Duration,
    one_in: usize,
) -> Result<Measured, Failure> {
    let names =
        if operation.is_fresh() { Arc::new(work.names(operation, n, conc).await?) } else { Arc::clone(kept) };
    let over = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    let server = work.server_cpu().await;
    let (cpu, started) = (cpu_time(), Instant::now());
    for first in 0..conc {
        let (work, names, over) = (Arc::clone(work), Arc::clone(&names), Arc::clone(&over));
        // Each takes every so many-th key: a common counter would be what several threads wait for.
        callers.spawn(async move {
            let mut caller = Caller::default();
            let (mut next, mut unlooked) = (first % names.len().max(1), 0);
            for _ in 0..n.saturating_sub(first).div_ceil(conc) {
                let Some(name) = names.get(next).filter(|_| !over.load(Ordering::Relaxed)) else { break };
                let number = next;
                next += conc;
                if next >= names.len() {
                    next %= names.len();
                }
                let begun = (unlooked == 0).then(Instant::now);
                unlooked = if begun.is_some() { one_in - 1 } else { unlooked - 1 };
                if begun.is_some_and(|begun| begun - started > limit) {
                    over.store(true, Ordering::Relaxed);
                }
                match operation {
                    Operation::Fresh => work.fresh(name, &caller.ran).await,
                    Operation::Replay if work.is_known(name) => Ok(()),
                    Operation::Replay => work.replay(name, &caller.ran).await,
                    Operation::Lock => work.lock(name, &caller.ran).await,
                    Operation::Limit(_) => work.check(operation, number).await,
                }?;
                caller.calls += 1;
                caller.took.extend(begun.map(|begun| begun.elapsed()));
            }
            Ok(caller)
        });
    }
    let (mut n, mut ran, mut took) = (0, 0, Vec::new());
    while let Some(caller) = callers.join_next().await {
        let caller: Result<Caller, Failure> = caller.map_err(|error| {
            Failure::new(Exit::Bug, "command.internal", format!("a caller ended early: {error}"))
        })?;
        let caller = caller?;
        n += caller.calls;
        ran += caller.ran.into_inner();
        took.extend(caller.took);
    }
    let (elapsed, cpu) = (started.elapsed(), cpu_time().saturating_sub(cpu));
    let server = work.server_cpu().await.zip(server).map(|(after, before)| after.saturating_sub(before));
    // Figures of something else than what was meant are worth nothing.
    let meant = operation.effects(n);
    if ran != meant {
        let message = format!("{} ran {ran} effects, not {meant}", operation.name());
        return Err(Failure::new(Exit::Bug, "command.internal", message));
    }
    Ok(measured(n, took, elapsed, Cpu { here: cpu, server }))
}

/// What one of them did.
#[derive(Default)]
struct Caller {
    calls: usize,
    /// Effects.
    ran: AtomicU64,
    took: Vec<Duration>,
}

/// Processor time that was used.
#[derive(Clone, Copy, Default)]
pub(super) struct Cpu {
    pub(super) here: Duration,
    pub(super) server: Option<Duration>,
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
pub(super) fn measured(n: usize, mut took: Vec<Duration>, elapsed: Duration, cpu: Cpu) -> Measured {
    took.sort_unstable();
    let last = took.len().saturating_sub(1);
    let us = |duration: &Duration| rounded(duration.as_secs_f64() * 1e6, 100.0);
    let rank = |per_cent: usize| took.get(last * per_cent / 100).map(us);
    let (secs, of) = (elapsed.as_secs_f64(), n.max(1) as f64);
    let per_op = |cpu: Duration| rounded(cpu.as_secs_f64() * 1e6 / of, 100.0);
    Measured {
        n,
        secs: rounded(secs, 10_000.0),
        ops_s: rounded(n as f64 / secs.max(1e-9), 1.0),
        client_us_op: per_op(cpu.here),
        server_us_op: cpu.server.map(per_op),
        p50_us: rank(50),
        p99_us: rank(99),
    }
}

fn rounded(value: f64, per_unit: f64) -> f64 {
    (value * per_unit).round() / per_unit
}

/// Processor time of this process, all threads together.
#[cfg(unix)]
pub(super) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(not(unix))]
pub(super) fn cpu_time() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_sorted_list() {
        let took = (1..=100).rev().map(Duration::from_micros).collect();
        let measured =
            measured(100, took, Duration::from_secs(2), Cpu { here: Duration::from_millis(1), server: None });
        assert_eq!((measured.n, measured.ops_s, measured.client_us_op), (100, 50.0, 10.0));
        assert_eq!((measured.p50_us, measured.p99_us), (Some(50.0), Some(99.0)));
    }

    #[test]
    fn nothing_measured_is_no_panic() {
        let measured = measured(0, Vec::new(), Duration::ZERO, Cpu::default());
        assert_eq!((measured.n, measured.p50_us), (0, None));
    }
}
