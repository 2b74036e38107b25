//! A rate for each value of a field.

use super::{MAIL, Mail, Post, Runs, done, ends::ran, life::until, mail};
use crate::support::secs;
use hapax_core::{
    Span,
    memory::MemoryLimits,
    queue::{Limits, PerRate},
};
use hapax_engine::queue::{Job, JobError, Queue};
use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};
use tokio::time::Instant;

/// Who was written to, and when.
#[derive(Clone, Default)]
struct Starts(Arc<Mutex<Vec<(String, Instant)>>>);

impl Starts {
    fn of(&self, name: &str) -> Vec<Instant> {
        let starts = self.0.lock().unwrap();
        starts.iter().filter(|(to, _)| to == name).map(|(_, at)| *at).collect()
    }
}

async fn notes(starts: Starts, job: Job<Mail>) -> Result<(), JobError> {
    starts.0.lock().unwrap().push((job.data.to, Instant::now()));
    Ok(())
}

/// Two a second for each recipient.
async fn limited(queue: &Queue, pointer: &str) {
    let per = PerRate::new(pointer, 2, Span::new(secs(1)).unwrap()).unwrap();
    queue.set_limits(&MAIL, &Limits { per: Some(per), ..Limits::default() }).await.unwrap();
}

/// Two at once after a rest, then one each half second; no share is left unused.
fn are_in_time(begun: Instant, starts: &[Instant]) {
    for (n, at) in starts.iter().enumerate() {
        let share = Duration::from_millis(500) * u32::try_from(n.saturating_sub(1)).unwrap();
        let late = (*at - begun).saturating_sub(share);
        assert!(*at - begun >= share && late < Duration::from_millis(250), "{n}: {:?}", *at - begun);
    }
}

#[tokio::test(start_paused = true)]
async fn each_value_has_a_share_of_its_own_over_all_workers() {
    let (post, starts) = (Post::new(), Starts::default());
    let limits = Arc::new(MemoryLimits::new(Arc::new(post.clock.clone())));
    let queue = || Queue::of(&post.backend().with_limits(Arc::clone(&limits) as _), secs(5));
    limited(&queue(), "/to").await;
    for _ in 0..8 {
        for name in ["ada", "bob"] {
            queue().add(&MAIL, &mail(name)).await.unwrap();
        }
    }
    let begun = Instant::now();
    let start = async || queue().worker(&MAIL, starts.clone(), notes).concurrency(5).start().await.unwrap();
    let workers = [start().await, start().await];
    until(async || starts.0.lock().unwrap().len() == 16).await;
    for name in ["ada", "bob"] {
        are_in_time(begun, &starts.of(name));
    }
    let mut snoozed = 0;
    for worker in workers {
        snoozed += worker.stop().await.snoozed;
    }
    // Each waits for its turn, and each worker gives out turns: no crowd comes back for each that passes.
    assert!((12..=24).contains(&snoozed), "{snoozed}");
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_share_is_no_fault_of_the_job() {
    let (post, starts) = (Post::new(), Starts::default());
    limited(&post.queue(), "/to").await;
    for _ in 0..8 {
        post.queue().add(&MAIL, &mail("ada")).max_attempts(1).await.unwrap();
    }
    let begun = Instant::now();
    let worker = post.queue().worker(&MAIL, starts.clone(), notes).concurrency(8).max_snooze(secs(1));
    let worker = worker.start().await.unwrap();
    until(async || starts.0.lock().unwrap().len() == 8).await;
    are_in_time(begun, &starts.of("ada"));
    assert_eq!(worker.stop().await, ran(|ran| (ran.done, ran.snoozed) = (8, 6)));
}

#[tokio::test(start_paused = true)]
async fn jobs_without_the_value_are_not_held_back() {
    let (post, runs) = (Post::new(), Runs::default());
    limited(&post.queue(), "/from").await;
    for _ in 0..8 {
        post.queue().add(&MAIL, &mail("ada")).await.unwrap();
    }
    let all = post.queue().worker(&MAIL, runs.clone(), done).concurrency(8).until_empty().await.unwrap();
    assert_eq!(all, ran(|ran| ran.done = 8));
}

#[tokio::test(start_paused = true)]
async fn a_worker_hears_of_a_new_rate() {
    let (post, starts) = (Post::new(), Starts::default());
    let worker = post.queue().worker(&MAIL, starts.clone(), notes).concurrency(8).start().await.unwrap();
    post.queue().add(&MAIL, &mail("ada")).await.unwrap();
    until(async || starts.0.lock().unwrap().len() == 1).await;
    limited(&post.queue(), "/to").await;
    tokio::time::advance(secs(3)).await;
    let begun = Instant::now();
    for _ in 0..6 {
        post.queue().add(&MAIL, &mail("bob")).await.unwrap();
    }
    until(async || starts.0.lock().unwrap().len() == 7).await;
    are_in_time(begun, &starts.of("bob"));
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_job_reads_the_bounds_for_all_and_none_runs_before_they_are_known() {
    let (post, starts) = (Post::new(), Starts::default());
    limited(&post.queue(), "/to").await;
    for _ in 0..8 {
        post.queue().add(&MAIL, &mail("ada")).await.unwrap();
    }
    post.store.unread.store(1, Ordering::SeqCst);
    let begun = Instant::now();
    let worker = post.queue().worker(&MAIL, starts.clone(), notes).concurrency(8).start().await.unwrap();
    until(async || starts.0.lock().unwrap().len() == 8).await;
    assert!(starts.of("ada").iter().all(|at| *at - begun >= secs(1)));
    worker.stop().await;
    // At the start, and then once in two seconds at most.
    let most = u32::try_from(begun.elapsed().as_secs() / 2).unwrap() + 1;
    let bounds = post.store.bounds.load(Ordering::SeqCst);
    assert!((2..=most).contains(&bounds), "{bounds}");
}
