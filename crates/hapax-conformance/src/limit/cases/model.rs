//! Random lists of decisions, answered like the memory store; a list that is not is made as short as it gets.

use super::list;
use crate::{
    fixture::{Stop, Verdict, failed, holds, same},
    limit::{
        Gate,
        gate::{decide, key, namespace, quota},
    },
    lists,
    suite::long,
};
use hapax_core::{
    ManualClock,
    limit::{Algorithm, Answer, Check, Decide, LimitStore},
    memory::MemoryLimits,
};
use proptest::{collection::vec, prelude::*};
use std::{sync::Arc, time::Duration};

list!("model": random_decisions_are_answered_like_in_memory);

/// So long that what a clock does by itself during a case is a small part of it.
const WINDOWS: [Duration; 3] =
    [Duration::from_hours(700), Duration::from_hours(1900), Duration::from_hours(4100)];
/// No multiple of it is near an end of one of the windows, or where a token comes in.
const TICK: Duration = Duration::from_mins(60 * 83 + 17);

#[derive(Clone, Debug)]
struct One {
    key: u8,
    algorithm: u8,
    limit: u32,
    window: u8,
    cost: u32,
    shadow: bool,
}

#[derive(Clone, Debug)]
enum Op {
    Decide { checks: Vec<One>, dry_run: bool },
    Reset { key: u8 },
    Prune,
    Elapse { ticks: u8 },
}

fn one() -> impl Strategy<Value = One> {
    let usual = prop_oneof![4 => Just((5_u32, 1_u8)), 1 => (1..9_u32, 0..3_u8)];
    (0..2_u8, 0..4_u8, usual, prop_oneof![3 => Just(1_u32), 1 => 1..8_u32], any::<bool>()).prop_map(
        |(key, algorithm, (limit, window), cost, shadow)| One { key, algorithm, limit, window, cost, shadow },
    )
}

fn op() -> impl Strategy<Value = Op> {
    let dry = || prop_oneof![4 => Just(false), 1 => Just(true)];
    prop_oneof![
        6 => (vec(one(), 1..2), dry()).prop_map(|(checks, dry_run)| Op::Decide { checks, dry_run }),
        4 => (vec(one(), 2..5), dry()).prop_map(|(checks, dry_run)| Op::Decide { checks, dry_run }),
        1 => (0..2_u8).prop_map(|key| Op::Reset { key }),
        1 => Just(Op::Prune),
        4 => (1..9_u8).prop_map(|ticks| Op::Elapse { ticks }),
    ]
}

async fn random_decisions_are_answered_like_in_memory(gate: Gate) -> Verdict {
    let count = match (long(), gate.is_slow()) {
        (false, false) => 80,
        (false, true) => 15,
        (true, false) => 2_000,
        (true, true) => 200,
    };
    lists::check(count, vec(op(), 1..40), |number, list: Vec<Op>| {
        let gate = gate.clone();
        async move { check(&gate, number, &list).await }
    })
    .await
}

async fn check(gate: &Gate, number: usize, list: &[Op]) -> Verdict {
    let clock = ManualClock::new();
    let reference = MemoryLimits::new(Arc::new(clock.clone()));
    for (at, op) in list.iter().enumerate() {
        step(gate, &clock, &reference, number, op).await.map_err(|stop| match stop {
            Stop::Failed(what) => Stop::Failed(format!("step {at}, {op:?}: {what}")),
            skipped @ Stop::Skipped(_) => skipped,
        })?;
    }
    Ok(())
}

/// A check for each, none twice.
fn checks(gate: &Gate, number: usize, wanted: &[One]) -> Result<Vec<Check>, Stop> {
    let mut checks: Vec<Check> = Vec::new();
    for one in wanted {
        let algorithm = Algorithm::ALL.get(usize::from(one.algorithm)).copied();
        let window = WINDOWS.get(usize::from(one.window)).copied();
        let (Some(algorithm), Some(window)) = (algorithm, window) else {
            return Err(failed("a number beyond its table"));
        };
        let check = Check {
            key: key(&format!("list {number} key {}", one.key)),
            quota: quota(algorithm, one.limit, window),
            cost: one.cost,
            shadow: one.shadow,
        };
        let is_same = |held: &Check| {
            held.key == check.key && held.shadow == check.shadow && held.quota.algorithm() == algorithm
        };
        let room = gate.needs(checks.len() + 1).is_ok();
        if room && !checks.iter().any(is_same) {
            checks.push(check);
        }
    }
    Ok(checks)
}

async fn step(gate: &Gate, clock: &ManualClock, reference: &MemoryLimits, number: usize, op: &Op) -> Verdict {
    match op {
        Op::Decide { checks: wanted, dry_run } => {
            let req = Decide { dry_run: *dry_run, ..decide(&checks(gate, number, wanted)?) };
            let got = gate.a.decide(&req).await?;
            let expected = reference.decide(&req).await?;
            same("answers", &got.answers.len(), &expected.answers.len())?;
            for (got, expected) in got.answers.iter().zip(&expected.answers) {
                alike(gate, got, expected)?;
            }
            Ok(())
        }
        Op::Reset { key: k } => {
            let key = key(&format!("list {number} key {k}"));
            gate.b.reset(&namespace(), &key).await?;
            Ok(reference.reset(&namespace(), &key).await?)
        }
        Op::Prune => {
            let _ = (gate.b.prune(100).await?, reference.prune(100).await?);
            Ok(())
        }
        Op::Elapse { ticks } => {
            let by = TICK * u32::from(*ticks);
            gate.elapse(by).await;
            clock.advance(by);
            Ok(())
        }
    }
}

fn alike(gate: &Gate, got: &Answer, expected: &Answer) -> Verdict {
    let times = |answer: &Answer| [answer.retry_after_ms, answer.reset_after_ms, answer.next_after_ms];
    let without =
        |answer: &Answer| Answer { retry_after_ms: 0, reset_after_ms: 0, next_after_ms: 0, ..*answer };
    same("the answer", &without(got), &without(expected))?;
    for (got, expected) in times(got).into_iter().zip(times(expected)) {
        let off = Duration::from_millis(got.abs_diff(expected));
        holds(off <= gate.tolerance(), || format!("{got} ms is {off:?} off {expected} ms"))?;
    }
    Ok(())
}
