//! Many tasks and two clients at once.

use super::list;
use crate::{
    fixture::{Stop, Verdict, holds, same},
    queue::{
        desk::Desk,
        requests::{done, finish, job, jobs, named, step, uid},
    },
    suite::long,
};
use hapax_core::queue::{Added, Limits, NewJob, ReadEvents, Step, Taken, Uid, events::MOST_KEPT};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

list!("races":
    each_job_is_handed_out_once,
    a_job_id_is_one_job_for_all_callers,
    adding_and_working_go_together,
    who_reads_along_misses_nothing,
);

/// What was handed out, and how often.
type Seen = Arc<Mutex<HashMap<Uid, usize>>>;

fn note(seen: &Seen, jobs: &[Taken]) {
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    for job in jobs {
        *seen.entry(job.uid).or_default() += 1;
    }
}

async fn works(desk: Desk, who: String, seen: Seen, left: Arc<AtomicUsize>) -> Verdict {
    let mut finishes = Vec::new();
    while left.load(Ordering::SeqCst) > 0 {
        let ended = finishes.len();
        let client = if who.len().is_multiple_of(2) { &desk.a } else { &desk.b };
        let stepped = client.step(&Step { finishes, ..step(&who, 7) }).await?;
        for finished in &stepped.finished {
            crate::fixture::says(&finished.job, "applied")?;
        }
        left.fetch_sub(ended, Ordering::SeqCst);
        finishes = stepped.jobs.iter().map(|job| finish(job, done())).collect();
        note(&seen, &stepped.jobs);
        tokio::task::yield_now().await;
    }
    Ok(())
}

fn spawn_workers(
    desk: &Desk,
    count: usize,
    seen: &Seen,
    left: &Arc<AtomicUsize>,
) -> Vec<tokio::task::JoinHandle<Verdict>> {
    let start = |n: usize| {
        let who = format!("w{}", "x".repeat(n));
        tokio::spawn(works(desk.clone(), who, Arc::clone(seen), Arc::clone(left)))
    };
    (0..count).map(start).collect()
}

async fn each_job_is_handed_out_once(desk: Desk) -> Verdict {
    let count = if long() { 5_000 } else { 500 };
    let all: Vec<_> = (0..count).map(|n| job(&n.to_string())).collect();
    for batch in all.chunks(100) {
        desk.adds(batch).await?;
    }
    let (seen, left) = (Seen::default(), Arc::new(AtomicUsize::new(count)));
    for worker in spawn_workers(&desk, 8, &seen, &left) {
        worker.await??;
    }
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    same("how many jobs were handed out", &seen.len(), &count)?;
    holds(seen.values().all(|times| *times == 1), || "a job was handed out twice".into())?;
    same("how many are done", &desk.stats().await?.done, &u64::try_from(count).unwrap_or_default())
}

async fn a_job_id_is_one_job_for_all_callers(desk: Desk) -> Verdict {
    for round in 0..10 {
        let id = format!("id {round}");
        let adding = |n: usize| {
            let new = NewJob { uid: uid(&format!("{round} {n}")), ..named("same", &id) };
            let client = if n.is_multiple_of(2) { Arc::clone(&desk.a) } else { Arc::clone(&desk.b) };
            tokio::spawn(async move { client.add(&jobs(), &[new]).await })
        };
        let all: Vec<_> = (0..32).map(adding).collect();
        let (mut new, mut uids) = (0, Vec::new());
        for answer in all {
            match answer.await??.pop() {
                Some(Added::New { .. }) => new += 1,
                Some(Added::Duplicate { uid, .. }) => uids.push(uid),
                other => return Err(crate::fixture::failed(format!("an add is {other:?}"))),
            }
        }
        uids.dedup();
        same("how many are new, and how many jobs the others know", &(new, uids.len()), &(1, 1))?;
    }
    same("how many jobs there are", &desk.stats().await?.ready, &10)
}

async fn adding_and_working_go_together(desk: Desk) -> Verdict {
    let (each, adders) = (if long() { 500 } else { 60 }, 4);
    let (seen, left) = (Seen::default(), Arc::new(AtomicUsize::new(each * adders)));
    let workers = spawn_workers(&desk, 4, &seen, &left);
    let adding = |adder: usize| {
        let desk = desk.clone();
        tokio::spawn(async move {
            for n in 0..each {
                desk.adds(&[job(&format!("{adder} {n}"))]).await?;
            }
            Ok::<_, Stop>(())
        })
    };
    for adder in (0..adders).map(adding).collect::<Vec<_>>() {
        adder.await??;
    }
    for worker in workers {
        worker.await??;
    }
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    same("how many jobs were handed out", &seen.len(), &(each * adders))?;
    holds(seen.values().all(|times| *times == 1), || "a job was handed out twice".into())
}

async fn who_reads_along_misses_nothing(desk: Desk) -> Verdict {
    let count = if long() { 2_000 } else { 150 };
    desk.a.set_limits(&jobs(), &Limits { events: MOST_KEPT, ..Limits::default() }).await?;
    let (seen, left) = (Seen::default(), Arc::new(AtomicUsize::new(count)));
    let mut tasks = spawn_workers(&desk, 3, &seen, &left);
    let adds = desk.clone();
    tasks.push(tokio::spawn(async move {
        for n in 0..count {
            adds.a.add(&jobs(), &[job(&n.to_string())]).await?;
        }
        Ok(())
    }));
    let (mut after, mut numbers) = (0, Vec::new());
    loop {
        let are_through = tasks.iter().all(tokio::task::JoinHandle::is_finished);
        let page = desk.b.events(&ReadEvents { queue: jobs(), after, limit: 50 }).await?;
        holds(!page.missed, || format!("events behind {after} are missing"))?;
        if page.events.is_empty() && are_through {
            break;
        }
        after = page.next(after);
        numbers.extend(page.events.iter().map(|event| event.number));
        tokio::task::yield_now().await;
    }
    for task in tasks {
        task.await.map_err(|error| Stop::from(hapax_core::BoxError::from(error)))??;
    }
    // Each was added, started, and done.
    let first = numbers.first().copied().unwrap_or_default();
    let all: Vec<_> = (first..).take(3 * count).collect();
    holds(numbers == all, || format!("{} of {} events were read", numbers.len(), all.len()))
}
