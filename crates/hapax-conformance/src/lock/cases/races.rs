//! Many tasks and two clients at once.

use super::list;
use crate::{
    fixture::{Stop, Verdict, failed, holds, same},
    lock::{
        Door,
        door::{acquire, lock},
    },
    requests::nth_token,
    suite::long,
};
use hapax_core::lock::{Acquired, Fence, Write};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

list!("races":
    there_is_never_more_than_one_holder,
    one_of_many_gets_a_free_lock,
    a_token_that_asks_twice_at_once_has_one_grant,
);

async fn there_is_never_more_than_one_holder(door: Door) -> Verdict {
    let (tasks, each) = (8, if long() { 300 } else { 25 });
    let (held, fences) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::<Fence>::new())));
    let works = |task: usize| {
        let (door, held, fences) = (door.clone(), Arc::clone(&held), Arc::clone(&fences));
        tokio::spawn(async move {
            let store = if task.is_multiple_of(2) { &door.a } else { &door.b };
            for round in 0..each {
                let token = nth_token(task * 100_000 + round);
                let grant = loop {
                    match store.acquire(&acquire("k", token)).await? {
                        Acquired::Yours(grant) => break grant,
                        Acquired::Busy { .. } => tokio::task::yield_now().await,
                    }
                };
                holds(!held.swap(true, Ordering::SeqCst), || "two hold it".into())?;
                fences.lock().unwrap_or_else(PoisonError::into_inner).push(grant.fence);
                tokio::task::yield_now().await;
                held.store(false, Ordering::SeqCst);
                same("the release", &store.release(&lock("k"), &token).await?, &Write::Applied)?;
            }
            Ok::<_, Stop>(())
        })
    };
    for task in (0..tasks).map(works).collect::<Vec<_>>() {
        task.await??;
    }
    let fences = fences.lock().unwrap_or_else(PoisonError::into_inner);
    same("how many grants there were", &fences.len(), &(tasks * each))?;
    holds(fences.is_sorted_by(|a, b| a < b), || "a fence does not rise".into())
}

async fn one_of_many_gets_a_free_lock(door: Door) -> Verdict {
    for round in 0..10_usize {
        let key = format!("k {round}");
        let asks = |n: usize| {
            let store = Arc::clone(if n.is_multiple_of(2) { &door.a } else { &door.b });
            let req = acquire(&key, nth_token(n));
            tokio::spawn(async move { store.acquire(&req).await })
        };
        let mut granted = 0;
        for task in (0..32).map(asks).collect::<Vec<_>>() {
            granted += usize::from(matches!(task.await??, Acquired::Yours(_)));
        }
        same("how many hold it", &granted, &1)?;
    }
    Ok(())
}

async fn a_token_that_asks_twice_at_once_has_one_grant(door: Door) -> Verdict {
    for round in 0..10_usize {
        let req = acquire("k", nth_token(round));
        let asks = |n: usize| {
            let (store, req) = (Arc::clone(if n.is_multiple_of(2) { &door.a } else { &door.b }), req.clone());
            tokio::spawn(async move { store.acquire(&req).await })
        };
        let mut fences = Vec::new();
        for task in (0..8).map(asks).collect::<Vec<_>>() {
            match task.await?? {
                Acquired::Yours(grant) => fences.push(grant.fence),
                Acquired::Busy { rest } => return Err(failed(format!("locked out by itself for {rest:?}"))),
            }
        }
        fences.dedup();
        same("how many fences there are", &fences.len(), &1)?;
        same("the release", &door.a.release(&req.name, &req.token).await?, &Write::Applied)?;
    }
    Ok(())
}
