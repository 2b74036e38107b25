//! Two clients, many tasks.

use crate::{
    cases::list,
    faulty::Request,
    fixture::{Fixture, Stop, Verdict, failed, holds, same, says},
    harness::Client,
    requests::{
        A, B, C, LEASE, R, TTL, did_not, done, happened, name, nth_token, reserve, retake, span, unknown,
    },
    shown::Shown,
    suite::long,
};
use hapax_core::{Name, StoreError, StoreResult, idempotency::Reserve};
use std::sync::Arc;
use tokio::sync::Barrier;

list!("races":
    of_many_callers_one_wins,
    of_many_callers_on_a_dead_owners_key_one_wins,
    the_same_token_from_many_tasks_is_always_yours,
    the_same_result_from_many_tasks_is_stored_once,
    of_many_results_one_becomes_the_record,
    a_take_over_never_overwrites_a_result,
    complete_and_release_never_lose_the_result,
    release_and_a_late_result_never_lose_the_result,
    a_forced_release_and_a_late_result_never_lose_the_result,
    a_resolver_and_a_late_success_never_lose_the_success,
    a_verdict_and_a_late_success_never_lose_the_success,
    of_many_resolvers_one_asks,
    of_many_verdicts_one_stands,
    of_a_resolver_and_a_verdict_one_wins,
    of_many_releases_one_applies,
    batches_in_opposite_order_both_end,
    batches_of_every_step_all_end,
    each_key_of_crossing_batches_has_one_winner,
    pruning_takes_nothing_that_is_live,
    the_secret_is_made_once,
);

fn rounds() -> usize {
    if long() { 300 } else { 15 }
}

/// How many tasks there are, half of them on each client.
const TASKS: usize = 32;

/// Runs the calls at the same moment, each in a task of its own; their answers in order.
async fn race<T, F>(calls: Vec<F>) -> Result<Vec<T>, Stop>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let start = Arc::new(Barrier::new(calls.len()));
    let tasks: Vec<_> = calls
        .into_iter()
        .map(|call| {
            let start = Arc::clone(&start);
            tokio::spawn(async move {
                start.wait().await;
                call.await
            })
        })
        .collect();
    let mut answers = Vec::with_capacity(tasks.len());
    for task in tasks {
        answers.push(task.await?);
    }
    Ok(answers)
}

/// The same call from many tasks on both clients, told which one it is; the answers as text, in order.
async fn from_all<A, F>(fx: &Fixture, call: impl Fn(Client, usize) -> F) -> Result<Vec<String>, Stop>
where
    A: Shown + Send + 'static,
    F: Future<Output = StoreResult<A>> + Send + 'static,
{
    let clients = [&fx.a, &fx.b].into_iter().cycle();
    let calls = clients.take(TASKS).enumerate().map(|(n, client)| call(Arc::clone(client), n)).collect();
    let answers: Result<Vec<_>, StoreError> = race(calls).await?.into_iter().collect();
    Ok(answers?.iter().map(Shown::shown).collect())
}

/// Two requests at the same moment, one on each client; the answers as text. Of two that take no time the one that is
/// started first would always win, so they take turns.
async fn both(fx: &Fixture, round: usize, one: Request, two: Request) -> Result<(String, String), Stop> {
    let swap = round.is_multiple_of(2);
    let (one, two) = if swap { (two, one) } else { (one, two) };
    let calls = [(&fx.a, one), (&fx.b, two)].map(|(store, request)| {
        let store = Arc::clone(store);
        async move { request.send(&store).await }
    });
    let mut answers = race(calls.into()).await?.into_iter();
    match (answers.next(), answers.next()) {
        (Some(one), Some(two)) if swap => Ok((two?.shown(), one?.shown())),
        (Some(one), Some(two)) => Ok((one?.shown(), two?.shown())),
        _ => Err(failed("two calls have fewer answers")),
    }
}

#[track_caller]
fn one_of(answer: &str, expected: &[&str]) -> Verdict {
    holds(expected.contains(&answer), || format!("expected one of {expected:?}, the store says {answer:?}"))
}

fn count(answers: &[String], of: &str) -> usize {
    answers.iter().filter(|answer| *answer == of).count()
}

async fn of_many_callers_one_wins(fx: Fixture) -> Verdict {
    for round in 0..rounds() {
        let k = name(&format!("k{round}"));
        let answers = from_all(&fx, |store, n| {
            let request = reserve(&k, nth_token(n));
            async move { store.reserve(&request).await }
        });
        let answers = answers.await?;
        same("how many won", &count(&answers, "yours"), &1)?;
        same("how many met the winner", &count(&answers, "held: pending ?"), &(TASKS - 1))?;
        let winner = answers.iter().position(|answer| answer == "yours").unwrap_or_default();
        let version = fx.a.read(&k).await?.map(|record| record.version);
        same("who holds the key", &version, &Some(nth_token(winner).version()))?;
    }
    Ok(())
}

async fn of_many_callers_on_a_dead_owners_key_one_wins(fx: Fixture) -> Verdict {
    for round in 0..rounds() {
        let k = name(&format!("k{round}"));
        fx.held(&k, A).await?;
        fx.elapse(LEASE).await;
        let answers = from_all(&fx, |store, n| {
            let request = reserve(&k, nth_token(n));
            async move { store.reserve(&request).await }
        });
        let answers = answers.await?;
        same("how many won", &count(&answers, "yours"), &1)?;
        same("how many met the winner", &count(&answers, "held: pending ?"), &(TASKS - 1))?;
    }
    Ok(())
}

async fn the_same_token_from_many_tasks_is_always_yours(fx: Fixture) -> Verdict {
    for round in 0..rounds() {
        let k = name(&format!("k{round}"));
        let answers = from_all(&fx, |store, _| {
            let request = reserve(&k, A);
            async move { store.reserve(&request).await }
        });
        same("how many are told yours", &count(&answers.await?, "yours"), &TASKS)?;
        says(&fx.a.read(&k).await?, "pending A")?;
    }
    Ok(())
}

async fn the_same_result_from_many_tasks_is_stored_once(fx: Fixture) -> Verdict {
    for round in 0..rounds() {
        let k = name(&format!("k{round}"));
        fx.held(&k, A).await?;
        let answers = from_all(&fx, |store, _| {
            let request = done(&k, A, "paid");
            async move { store.complete(&request).await }
        });
        let answers = answers.await?;
        same("how many stored", &count(&answers, "stored"), &1)?;
        same("how many came again", &count(&answers, "already done"), &(TASKS - 1))?;
    }
    Ok(())
}

async fn of_many_results_one_becomes_the_record(fx: Fixture) -> Verdict {
    for round in 0..rounds() {
        let k = name(&format!("k{round}"));
        let answers = from_all(&fx, |store, n| {
            let request = done(&k, nth_token(n), &n.to_string());
            async move { store.complete(&request).await }
        });
        let answers = answers.await?;
        same("how many stored", &count(&answers, "stored"), &1)?;
        let winner = answers.iter().position(|answer| answer == "stored").unwrap_or_default();
        same(
            "how many were told so",
            &count(&answers, &format!("superseded: done ? {winner}")),
            &(TASKS - 1),
        )?;
        says(&fx.a.read(&k).await?, &format!("done ? {winner}"))?;
    }
    Ok(())
}

async fn a_take_over_never_overwrites_a_result(fx: Fixture) -> Verdict {
    for round in 0..rounds() * 4 {
        let k = name(&format!("k{round}"));
        fx.held(&k, A).await?;
        fx.elapse(LEASE).await;
        let (result, taken) = (done(&k, A, "paid"), reserve(&k, B));
        let (stored, taken) = both(&fx, round, Request::Complete(result), Request::Reserve(taken)).await?;
        match (stored.as_str(), taken.as_str()) {
            ("stored", "held: done A paid") => says(&fx.a.read(&k).await?, "done A paid")?,
            ("stored late", "yours") => {
                says(&fx.a.read(&k).await?, "pending B")?;
                says(&fx.b.release(&k, &B).await?, "applied")?;
                says(&fx.a.read(&k).await?, "done A paid")?;
            }
            other => return Err(failed(format!("the answers are {other:?}"))),
        }
    }
    Ok(())
}

async fn complete_and_release_never_lose_the_result(fx: Fixture) -> Verdict {
    for round in 0..rounds() * 4 {
        let k = name(&format!("k{round}"));
        fx.held(&k, A).await?;
        let result = done(&k, A, "paid");
        let (stored, freed) =
            both(&fx, round, Request::Complete(result), Request::Release(k.clone(), A)).await?;
        one_of(&stored, &["stored"])?;
        one_of(&freed, &["fenced", "applied"])?;
        says(&fx.a.read(&k).await?, "done A paid")?;
    }
    Ok(())
}

async fn release_and_a_late_result_never_lose_the_result(fx: Fixture) -> Verdict {
    for round in 0..rounds() * 4 {
        let k = name(&format!("k{round}"));
        fx.taken_over(&k).await?;
        let late = done(&k, A, "paid");
        let (stored, freed) =
            both(&fx, round, Request::Complete(late), Request::Release(k.clone(), B)).await?;
        one_of(&freed, &["applied"])?;
        one_of(&stored, &["stored", "stored late"])?;
        says(&fx.a.reserve(&reserve(&k, C)).await?, "held: done A paid")?;
    }
    Ok(())
}

async fn a_forced_release_and_a_late_result_never_lose_the_result(fx: Fixture) -> Verdict {
    for round in 0..rounds() * 4 {
        let k = name(&format!("k{round}"));
        fx.taken_over(&k).await?;
        let late = unknown(&k, A, "sent?");
        let (stored, freed) =
            both(&fx, round, Request::Complete(late), Request::ForceRelease(k.clone())).await?;
        one_of(&freed, &["applied"])?;
        one_of(&stored, &["stored", "stored late"])?;
        says(&fx.a.reserve(&reserve(&k, C)).await?, "held: unknown A sent?")?;
    }
    Ok(())
}

async fn a_resolver_and_a_late_success_never_lose_the_success(fx: Fixture) -> Verdict {
    for round in 0..rounds() * 4 {
        let k = name(&format!("k{round}"));
        fx.retaken(&k, "sent?").await?;
        let late = done(&k, B, "sent");
        let (stored, dropped) =
            both(&fx, round, Request::Complete(late), Request::DropUnknown(k.clone(), R)).await?;
        one_of(&stored, &["stored late"])?;
        one_of(&dropped, &["dropped", "refused"])?;
        says(&fx.a.release(&k, &R).await?, "applied")?;
        says(&fx.b.read(&k).await?, "done B sent")?;
    }
    Ok(())
}

async fn a_verdict_and_a_late_success_never_lose_the_success(fx: Fixture) -> Verdict {
    for round in 0..rounds() * 4 {
        let k = name(&format!("k{round}"));
        fx.unsure(&k, A, "sent?").await?;
        let (late, verdict) = (done(&k, B, "sent"), did_not(&k, C));
        let (stored, resolved) = both(&fx, round, Request::Complete(late), Request::Resolve(verdict)).await?;
        match (stored.as_str(), resolved.as_str()) {
            ("superseded: unknown A sent?", "changed: done B sent") | ("stored", "applied") => {}
            other => return Err(failed(format!("the answers are {other:?}"))),
        }
        says(&fx.b.read(&k).await?, "done B sent")?;
    }
    Ok(())
}

async fn of_many_resolvers_one_asks(fx: Fixture) -> Verdict {
    for round in 0..rounds() {
        let k = name(&format!("k{round}"));
        fx.unsure(&k, A, "sent?").await?;
        let answers = from_all(&fx, |store, n| {
            let request = retake(&k, nth_token(n));
            async move { store.retake_unknown(&request).await }
        });
        let answers = answers.await?;
        same("how many ask", &count(&answers, "yours"), &1)?;
        same("how many are told so", &count(&answers, "changed: pending ?"), &(TASKS - 1))?;
    }
    Ok(())
}

async fn of_many_verdicts_one_stands(fx: Fixture) -> Verdict {
    for round in 0..rounds() {
        let k = name(&format!("k{round}"));
        fx.unsure(&k, A, "sent?").await?;
        let answers = from_all(&fx, |store, n| {
            let token = nth_token(n);
            let verdict = if n % 3 == 0 { did_not(&k, token) } else { happened(&k, token, &n.to_string()) };
            async move { store.resolve(&verdict).await }
        });
        let answers = answers.await?;
        same("how many stand", &count(&answers, "applied"), &1)?;
        let winner = answers.iter().position(|answer| answer == "applied").unwrap_or_default();
        let expected = if winner % 3 == 0 { "vacant".into() } else { format!("done ? {winner}") };
        says(&fx.a.read(&k).await?, &expected)?;
        same("how many are told so", &count(&answers, &format!("changed: {expected}")), &(TASKS - 1))?;
    }
    Ok(())
}

async fn of_a_resolver_and_a_verdict_one_wins(fx: Fixture) -> Verdict {
    for round in 0..rounds() * 4 {
        let k = name(&format!("k{round}"));
        fx.unsure(&k, A, "sent?").await?;
        let (ask, verdict) = (retake(&k, R), did_not(&k, C));
        let (asked, resolved) =
            both(&fx, round, Request::RetakeUnknown(ask), Request::Resolve(verdict)).await?;
        match (asked.as_str(), resolved.as_str()) {
            ("yours", "changed: pending R") => says(&fx.a.read(&k).await?, "pending R")?,
            ("changed: vacant", "applied") => says(&fx.a.read(&k).await?, "vacant")?,
            other => return Err(failed(format!("the answers are {other:?}"))),
        }
    }
    Ok(())
}

async fn of_many_releases_one_applies(fx: Fixture) -> Verdict {
    for round in 0..rounds() {
        let k = name(&format!("k{round}"));
        fx.held(&k, A).await?;
        let answers = from_all(&fx, |store, _| {
            let k = k.clone();
            async move { store.release(&k, &A).await }
        });
        let answers = answers.await?;
        same("how many applied", &count(&answers, "applied"), &1)?;
        same("how many were fenced", &count(&answers, "fenced"), &(TASKS - 1))?;
        says(&fx.a.read(&k).await?, "vacant")?;
    }
    Ok(())
}

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
        let calls: Vec<hapax_core::BoxFuture<'static, _>> = vec![
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
        let mut winners = std::collections::HashMap::new();
        for (task, answers) in race(calls.collect()).await?.into_iter().enumerate() {
            for (k, answer) in answers {
                if answer?.shown() == "yours" {
                    let before = winners.insert(k, task);
                    same("another winner", &before, &None)?;
                }
            }
        }
        for k in &names {
            let version = fx.a.read(k).await?.map(|record| record.version);
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
