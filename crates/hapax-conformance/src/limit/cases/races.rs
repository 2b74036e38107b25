//! Many tasks and two clients at once.

use super::list;
use crate::{
    fixture::{Stop, Verdict, same},
    limit::{
        Gate,
        gate::{WINDOW, check, decide, quota},
    },
    suite::long,
};
use hapax_core::limit::{Algorithm, Check};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

list!("races":
    never_more_than_the_limit_passes,
    limits_in_any_order_count_alike,
);

async fn never_more_than_the_limit_passes(gate: Gate) -> Verdict {
    let (tasks, each) = (8, if long() { 200 } else { 20 });
    for algorithm in Algorithm::ALL {
        let passed = Arc::new(AtomicU32::new(0));
        let asks = |task: usize| {
            let (gate, passed) = (gate.clone(), Arc::clone(&passed));
            // Nothing comes back within a case: a day for each.
            let one = check("k", quota(algorithm, 100, WINDOW * 2400));
            tokio::spawn(async move {
                let store = if task.is_multiple_of(2) { &gate.a } else { &gate.b };
                for _ in 0..each {
                    if store
                        .decide(&decide(std::slice::from_ref(&one)))
                        .await?
                        .allowed(std::slice::from_ref(&one))
                    {
                        passed.fetch_add(1, Ordering::SeqCst);
                    }
                }
                Ok::<_, Stop>(())
            })
        };
        for task in (0..tasks).map(asks).collect::<Vec<_>>() {
            task.await??;
        }
        same("how many passed", &passed.load(Ordering::SeqCst), &100)?;
    }
    Ok(())
}

async fn limits_in_any_order_count_alike(gate: Gate) -> Verdict {
    gate.needs(3)?;
    let (tasks, each) = (8, if long() { 200 } else { 20 });
    for algorithm in Algorithm::ALL {
        let of = |name: &str, limit| check(name, quota(algorithm, limit, WINDOW * 2400));
        let all = [of("a", 1000), of("b", 60), of("c", 1000)];
        let passed = Arc::new(AtomicU32::new(0));
        let asks = |task: usize| {
            let (gate, passed) = (gate.clone(), Arc::clone(&passed));
            let mut checks: Vec<Check> = all.to_vec();
            checks.rotate_left(task % 3);
            if task.is_multiple_of(2) {
                checks.reverse();
            }
            tokio::spawn(async move {
                let store = if task.is_multiple_of(2) { &gate.a } else { &gate.b };
                for _ in 0..each {
                    if store.decide(&decide(&checks)).await?.allowed(&checks) {
                        passed.fetch_add(1, Ordering::SeqCst);
                    }
                }
                Ok::<_, Stop>(())
            })
        };
        for task in (0..tasks).map(asks).collect::<Vec<_>>() {
            task.await??;
        }
        same("how many passed", &passed.load(Ordering::SeqCst), &60)?;
        let left = gate.dry(&of("a", 1000)).await?.remaining;
        same("what is left where it was not short", &left, &939)?;
    }
    Ok(())
}
