//! Random lists of steps, answered like the memory store; a list that is not is made as short as it gets.

use super::list;
use crate::{
    fixture::{Stop, Verdict, failed, same},
    lists,
    lock::{
        Door,
        door::{acquire, lock},
    },
    requests::{A, B, C, span},
    suite::long,
};
use hapax_core::{
    Clock, ManualClock,
    lock::{Acquire, Acquired, Extended, Fence, LockStore},
    memory::MemoryLocks,
};
use proptest::{collection::vec, prelude::*};
use std::{sync::Arc, time::Duration};

list!("model": random_steps_are_answered_like_in_memory);

/// Time passes in ticks; leases end half a tick beside them, so that a clock that runs by itself changes nothing.
const TICK: Duration = Duration::from_mins(10);
const HALF: Duration = Duration::from_mins(5);
const TOKENS: [hapax_core::Token; 3] = [A, B, C];

#[derive(Clone, Debug)]
pub(super) enum Op {
    Acquire { who: u8, key: u8, ticks: u8 },
    Extend { who: u8, key: u8, ticks: u8 },
    ExtendAll { who: u8 },
    Release { who: u8, key: u8 },
    Break { key: u8 },
    Seed { key: u8, ahead: u8 },
    Prune,
    Elapse { ticks: u8 },
}

fn op() -> impl Strategy<Value = Op> {
    let who = || (0..3_u8, 0..2_u8);
    prop_oneof![
        6 => (who(), 0..4_u8).prop_map(|((who, key), ticks)| Op::Acquire { who, key, ticks }),
        2 => (who(), 0..4_u8).prop_map(|((who, key), ticks)| Op::Extend { who, key, ticks }),
        1 => (0..3_u8).prop_map(|who| Op::ExtendAll { who }),
        4 => who().prop_map(|(who, key)| Op::Release { who, key }),
        1 => (0..2_u8).prop_map(|key| Op::Break { key }),
        1 => (0..2_u8, 0..3_u8).prop_map(|(key, ahead)| Op::Seed { key, ahead }),
        1 => Just(Op::Prune),
        3 => (1..4_u8).prop_map(|ticks| Op::Elapse { ticks }),
    ]
}

async fn random_steps_are_answered_like_in_memory(door: Door) -> Verdict {
    let count = match (long(), door.is_slow()) {
        (false, false) => 80,
        (false, true) => 15,
        (true, false) => 2_000,
        (true, true) => 200,
    };
    lists::check(count, vec(op(), 1..40), |number, list: Vec<Op>| {
        let door = door.clone();
        async move { check(&door, number, &list).await }
    })
    .await
}

async fn check(door: &Door, number: usize, list: &[Op]) -> Verdict {
    let clock = ManualClock::new();
    let reference = MemoryLocks::new(Arc::new(clock.clone()));
    // What both clocks show differs: fences of a lock are compared by their order.
    let mut fences = <[Seen; 2]>::default();
    for (at, op) in list.iter().enumerate() {
        step(door, &clock, &reference, number, op, &mut fences).await.map_err(|stop| match stop {
            Stop::Failed(what) => Stop::Failed(format!("step {at}, {op:?}: {what}")),
            skipped @ Stop::Skipped(_) => skipped,
        })?;
    }
    Ok(())
}

fn lease(ticks: u8) -> hapax_core::Span {
    span(TICK * u32::from(ticks) + HALF)
}

fn token(who: u8) -> Result<hapax_core::Token, Stop> {
    TOKENS.get(usize::from(who)).copied().ok_or_else(|| failed("a number beyond its table"))
}

/// The place of a fence among those that were seen: both must agree on it.
fn place(seen: &mut Vec<Fence>, fence: Fence) -> usize {
    if let Some(at) = seen.iter().position(|held| *held == fence) {
        return at;
    }
    seen.push(fence);
    seen.sort_unstable();
    seen.iter().position(|held| *held == fence).unwrap_or_default()
}

/// What was seen of the fences of a lock, by the store and by the reference.
type Seen = (Vec<Fence>, Vec<Fence>);

fn of_key(fences: &mut [Seen; 2], key: u8) -> Result<(&mut Vec<Fence>, &mut Vec<Fence>), Stop> {
    let seen = fences.get_mut(usize::from(key)).ok_or_else(|| failed("a number beyond its table"))?;
    Ok((&mut seen.0, &mut seen.1))
}

async fn step(
    door: &Door,
    clock: &ManualClock,
    reference: &MemoryLocks,
    number: usize,
    op: &Op,
    fences: &mut [Seen; 2],
) -> Verdict {
    let key = |key: u8| format!("list {number} key {key}");
    match op {
        Op::Acquire { who, key: k, ticks } => {
            let req = Acquire { lease: lease(*ticks), ..acquire(&key(*k), token(*who)?) };
            let (got, expected) = (door.a.acquire(&req).await?, reference.acquire(&req).await?);
            let (ours, theirs) = of_key(fences, *k)?;
            let essence = |answer: &Acquired, seen: &mut Vec<Fence>| match answer {
                Acquired::Yours(grant) => Some(place(seen, grant.fence)),
                Acquired::Busy { .. } => None,
            };
            same("the grant", &essence(&got, ours), &essence(&expected, theirs))?;
            if let (Acquired::Busy { rest }, Acquired::Busy { rest: wanted }) = (got, expected) {
                let off = rest.abs_diff(wanted);
                crate::fixture::holds(off <= door.tolerance(), || format!("{rest:?} is {off:?} off"))?;
            }
            Ok(())
        }
        Op::Extend { who, key: k, ticks } => {
            let (name, token) = (lock(&key(*k)), token(*who)?);
            let got = door.b.extend(&name, &token, lease(*ticks)).await?;
            let expected = reference.extend(&name, &token, lease(*ticks)).await?;
            same("whether it is extended", &(got != Extended::Fenced), &(expected != Extended::Fenced))
        }
        Op::ExtendAll { who } => {
            let token = token(*who)?;
            let batch: Vec<_> = (0..2).map(|k| (lock(&key(k)), token, lease(1))).collect();
            let extended = async |store: &dyn LockStore| {
                let answers = store.extend_many(&batch).await.into_iter();
                answers
                    .map(|answer| Ok::<_, Stop>(answer? != Extended::Fenced))
                    .collect::<Result<Vec<_>, _>>()
            };
            same("who is extended", &extended(&*door.a).await?, &extended(reference).await?)
        }
        Op::Release { who, key: k } => {
            let (name, token) = (lock(&key(*k)), token(*who)?);
            let got = door.b.release(&name, &token).await?;
            same("the release", &got, &reference.release(&name, &token).await?)
        }
        Op::Break { key: k } => {
            let name = lock(&key(*k));
            let (got, expected) = (door.a.break_lock(&name).await?, reference.break_lock(&name).await?);
            let (ours, theirs) = of_key(fences, *k)?;
            let got = got.map(|info| place(ours, info.fence));
            same("whose it was", &got, &expected.map(|info| place(theirs, info.fence)))
        }
        Op::Seed { key: k, ahead } => {
            let name = lock(&key(*k));
            // Ahead of both clocks, or behind both.
            let least = Fence::next(None, clock.now()).get() + 1_000_000_000_000_000 * u64::from(*ahead);
            let least = if *ahead == 0 { 1 } else { least };
            let known = |info: hapax_core::lock::LockInfo| info.fence.is_some();
            if !known(door.a.show(&name).await?) && *ahead == 0 {
                return Ok(());
            }
            let got = door.a.seed_fence(&name, Fence::new(least)?).await?;
            let expected = reference.seed_fence(&name, Fence::new(least)?).await?;
            let (ours, theirs) = of_key(fences, *k)?;
            same("the last fence", &place(ours, got), &place(theirs, expected))
        }
        Op::Prune => {
            let _ = (door.a.prune(100).await?, reference.prune(100).await?);
            Ok(())
        }
        Op::Elapse { ticks } => {
            let by = TICK * u32::from(*ticks);
            door.elapse(by).await;
            clock.advance(by);
            Ok(())
        }
    }
}
