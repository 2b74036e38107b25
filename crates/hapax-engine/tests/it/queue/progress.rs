//! How far jobs are, as their handlers say.

use super::{MAIL, Mail, Post, life::until, mail};
use crate::support::secs;
use hapax_core::queue::Progress;
use hapax_engine::queue::{Job, JobError};
use std::sync::{Arc, atomic::Ordering};
use tokio::sync::Semaphore;

/// Says one thing after the other, when it is let.
async fn tells(turns: Arc<Semaphore>, job: Job<Mail>) -> Result<(), JobError> {
    for n in 0..=2 {
        job.progress(Progress::of(n, 2).note(format!("{n} of 2")));
        turns.acquire().await.unwrap().forget();
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn progress_goes_along_with_the_next_beat() {
    let (post, turns) = (Post::new(), Arc::new(Semaphore::new(0)));
    let id = post.queue().add(&MAIL, &mail("ada")).await.unwrap().id().to_owned();
    let worker = post.queue().worker(&MAIL, Arc::clone(&turns), tells).claim_idle(secs(30));
    let worker = worker.start().await.unwrap();
    let shown = async || post.find(&id).await.and_then(|info| info.progress);
    for n in 0..=2 {
        until(async || shown().await == Some(Progress::of(n, 2).note(format!("{n} of 2")))).await;
        turns.add_permits(1);
    }
    until(async || post.stats().await.done == 1).await;
    assert_eq!(shown().await, None);
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn progress_that_met_a_store_that_failed_goes_along_later() {
    let (post, turns) = (Post::new(), Arc::new(Semaphore::new(0)));
    let id = post.queue().add(&MAIL, &mail("ada")).await.unwrap().id().to_owned();
    post.store.deaf.store(true, Ordering::SeqCst);
    let worker = post.queue().worker(&MAIL, Arc::clone(&turns), tells).start().await.unwrap();
    let beats = || post.store.beats.load(Ordering::SeqCst);
    let before = beats();
    until(async || beats() > before).await;
    post.store.deaf.store(false, Ordering::SeqCst);
    until(async || post.find(&id).await.is_some_and(|info| info.progress.is_some())).await;
    turns.add_permits(3);
    worker.stop().await;
}
