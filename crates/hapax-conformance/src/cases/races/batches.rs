//! Batches, pruning and the secret, from many tasks.

use super::{TASKS, race, rounds};
use crate::{
    cases::list,
    fixture::{Fixture, Stop, Verdict, holds, same, says},
    requests::{A, B, LEASE, TTL, done, name, nth_token, reserve, span},
    shown::Shown,
};
use hapax_core::{BoxFuture, Name, StoreError, idempotency::Reserve};
use std::{collections::HashMap, sync::Arc};

list!("races":
    batches_in_opposite_order_both_end,
    each_key_of_crossing_batches_has_one_winner,
    batches_of_every_step_all_end,
    pruning_takes_nothing_that_is_live,
    the_secret_is_made_once,
);

/// The names in one order for even tasks and in the other for odd ones.
fn crossing(names: &[Name], task: usize) -> Vec<Name> {
    if task.is_multiple_of(2) { names.to_vec() } else { names.iter().rev().cloned().collect() }
}

async fn batches_in_opposite_order_both_end(fx: Fixture) -> Verdict {
    for round in 0..rounds() {
        let names: Vec<_> = (0..64).map(|n| name(&format!("{round}/{n}"))).collect();
        let (up, down): (Vec<_>, Vec<_>) = (
            names.iter().map(|k| reserve(k, A)).collect(),
            names.iter().rev().map(|k| reserve(k, B)).collect(),
        );
        let (a, b) = (Arc::clone(&fx.a), Arc::clone(&fx.b));
        let calls: Vec<BoxFuture<'static, _>> = vec![
            Box::pin(async move { a.reserve_many(&up).await }),
            Box::pin(async move { b.reserve_many(&down).await }),
        ];
        for answers in race(calls).await? {
            same("how many answers", &answers.len(), &names.len())?;
            for answer in answers {
                let _won_or_lost = answer?;
            }
        }
    }
    Ok(())
}

async fn each_key_of_crossing_batches_has_one_winner(fx: Fixture) -> Verdict {
    for round in 0..rounds() {
        let names: Vec<_> = (0..16).map(|n| name(&format!("{round}/{n}"))).collect();
        let calls = [&fx.a, &fx.b].into_iter().cycle().take(8).enumerate();
        let calls = calls.map(|(task, store)| {
            let (store, names) = (Arc::clone(store), crossing(&names, task));
            let batch: Vec<Reserve> = names.iter().map(|k| reserve(k, nth_token(task))).collect();
            async move { names.into_iter().zip(store.reserve_many(&batch).await).collect::<Vec<_>>() }
        });
        let mut winners = HashMap::new();
        for (task, answers) in race(calls.collect()).await?.into_iter().enumerate() {
            for (k, answer) in answers {
                if answer?.shown() == "yours" {
                    let before = winners.insert(k, task);
                    same("another winner", &before, &None)?;
                }
            }
        }
        for k in &names {
            let version = fx.a.read(k).await?.map(|record| record.version());
            let winner = winners.get(k).map(|task| nth_token(*task).version());
            holds(version.is_some(), || "a key is vacant".into())?;
            same("who holds the key", &version, &winner)?;
        }
    }
    Ok(())
}

async fn batches_of_every_step_all_end(fx: Fixture) -> Verdict {
    for round in 0..rounds() {
        let end = |n| if n % 2 == 0 { "yes" } else { "no" };
        let names: Vec<_> = (0..32).map(|n| name(&format!("{round}/{n} {}", end(n)))).collect();
        let calls = [&fx.a, &fx.b].into_iter().cycle().take(8).enumerate();
        let calls = calls.map(|(task, store)| {
            let (store, names) = (Arc::clone(store), crossing(&names, task));
            let token = nth_token(task);
            async move {
                let reserves: Vec<_> = names.iter().map(|k| reserve(k, token)).collect();
                let extends: Vec<_> = names.iter().map(|k| (k.clone(), token, span(LEASE))).collect();
                let (happens, fails): (Vec<_>, Vec<_>) = names.iter().partition(|k| k.key().ends_with("yes"));
                let completes: Vec<_> = happens.into_iter().map(|k| done(k, token, "paid")).collect();
                let releases: Vec<_> = fails.into_iter().map(|k| (k.clone(), token)).collect();
                let mut errors = Vec::new();
                errors.extend(store.reserve_many(&reserves).await.into_iter().filter_map(Result::err));
                errors.extend(store.extend_many(&extends).await.into_iter().filter_map(Result::err));
                errors.extend(store.complete_many(&completes).await.into_iter().filter_map(Result::err));
                errors.extend(store.release_many(&releases).await.into_iter().filter_map(Result::err));
                errors
            }
        });
        for errors in race(calls.collect()).await? {
            if let Some(error) = errors.into_iter().next() {
                return Err(error.into());
            }
        }
        for (n, k) in names.iter().enumerate() {
            says(&fx.a.read(k).await?, if n % 2 == 0 { "done ? paid" } else { "vacant" })?;
        }
    }
    Ok(())
}

async fn pruning_takes_nothing_that_is_live(fx: Fixture) -> Verdict {
    for round in 0..rounds() {
        let names: Vec<_> = (0..TASKS).map(|n| name(&format!("k{n}"))).collect();
        // What is over lies under the very keys that are reserved again.
        for k in &names {
            says(&fx.a.reserve(&reserve(k, A)).await?, "yours")?;
        }
        fx.elapse(TTL).await;
        let calls =
            names.iter().zip([&fx.a, &fx.b].into_iter().cycle()).enumerate().map(|(n, (k, store))| {
                let (k, store, prune) = (k.clone(), Arc::clone(store), n % 4 == 0);
                async move {
                    if prune {
                        store.prune(1_000).await?;
                    }
                    let answer = store.reserve(&reserve(&k, B)).await?;
                    store.prune(1_000).await?;
                    Ok::<_, StoreError>(answer)
                }
            });
        for answer in race(calls.collect()).await? {
            says(&answer?, "yours")?;
        }
        for k in &names {
            says(&fx.a.read(k).await?, "pending B")?;
            let result = done(k, B, &round.to_string());
            says(&fx.b.complete(&result).await?, "stored")?;
        }
        fx.b.prune(1_000).await?;
        for k in &names {
            says(&fx.a.read(k).await?, &format!("done B {round}"))?;
        }
        fx.elapse(TTL).await;
    }
    Ok(())
}

async fn the_secret_is_made_once(fx: Fixture) -> Verdict {
    let calls = [&fx.a, &fx.b].into_iter().cycle().take(TASKS).map(|store| {
        let store = Arc::clone(store);
        async move { store.secret().await }
    });
    let secrets: Result<Vec<_>, _> = race(calls.collect()).await?.into_iter().collect();
    let secrets = secrets?;
    let first = secrets.first().copied().flatten().ok_or(Stop::Skipped("keeps no secret"))?;
    same("whether all are the same", &secrets.iter().all(|secret| *secret == Some(first)), &true)
}
