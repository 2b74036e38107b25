//! Two clients, many tasks.

mod batches;

use crate::{
    cases::{Entry, list},
    faulty::Request,
    fixture::{Fixture, Stop, Verdict, failed, holds, same, says},
    harness::Client,
    requests::{A, B, C, LEASE, R, did_not, done, happened, name, nth_token, reserve, retake, unknown},
    shown::Shown,
    suite::long,
};
use hapax_core::{StoreError, StoreResult};
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
);

pub(super) fn all() -> impl Iterator<Item = Entry> {
    [CASES, batches::CASES].into_iter().flatten().copied()
}

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
        let version = fx.a.read(&k).await?.map(|record| record.version());
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
