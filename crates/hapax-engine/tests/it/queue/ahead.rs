//! Jobs that a worker takes ahead of its handlers.

use super::{MAIL, Mail, Post, Runs, done, faulty::Fault, life::until, mail};
use crate::support::secs;
use hapax_core::queue::JobState;
use hapax_engine::queue::{Job, JobError};
use std::sync::{Arc, Mutex, atomic::Ordering};
use tokio::sync::Semaphore;

/// Runs while it is let, and notes in which order.
#[derive(Clone)]
struct Gate {
    turns: Arc<Semaphore>,
    ran: Arc<Mutex<Vec<String>>>,
}

impl Gate {
    fn new() -> Self {
        Self { turns: Arc::new(Semaphore::new(0)), ran: Arc::default() }
    }

    fn ran(&self) -> Vec<String> {
        self.ran.lock().unwrap().clone()
    }
}

async fn waits(gate: Gate, job: Job<Mail>) -> Result<(), JobError> {
    gate.ran.lock().unwrap().push(job.data.to.clone());
    tokio::select! {
        _ = gate.turns.acquire() => Ok(()),
        _ = job.cancelled() => Err(JobError::retry("it was cancelled")),
    }
}

async fn adds(post: &Post, names: &[&str]) -> Vec<String> {
    let mut ids = Vec::new();
    for name in names {
        ids.push(post.queue().add(&MAIL, &mail(name)).await.unwrap().id().to_owned());
    }
    ids
}

#[tokio::test(start_paused = true)]
async fn few_handlers_share_round_trips() {
    let (post, runs) = (Post::new(), Runs::default());
    for _ in 0..200 {
        post.queue().add(&MAIL, &mail("ada")).await.unwrap();
    }
    post.store.fail(&[Fault::Slow; 100]);
    let worker = post.queue().worker(&MAIL, runs.clone(), done);
    let ran = worker.prefetch(63).until_empty().await.unwrap();
    let steps = post.store.steps.load(Ordering::SeqCst);
    assert_eq!((ran.done, runs.count()), (200, 200));
    // The first takes 64, and each ends what is through by then and takes as many.
    assert!(steps < 15, "{steps} steps for 200 jobs");
}

#[tokio::test(start_paused = true)]
async fn what_is_taken_ahead_is_renewed_and_starts_in_its_turn() {
    let (post, gate) = (Post::new(), Gate::new());
    adds(&post, &["a", "b", "c"]).await;
    let worker = post.queue().worker(&MAIL, gate.clone(), waits).prefetch(2).start().await.unwrap();
    until(async || post.figures().await == [0, 0, 3, 0]).await;
    assert_eq!(gate.ran(), ["a"]);
    gate.turns.add_permits(9);
    until(async || post.stats().await.done == 3).await;
    assert_eq!(gate.ran(), ["a", "b", "c"]);
    assert_eq!((worker.stop().await.done, post.stats().await.lost), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn what_waits_behind_a_slow_handler_is_given_back() {
    let (post, gate) = (Post::new(), Gate::new());
    adds(&post, &["a", "b", "c"]).await;
    let worker = post.queue().worker(&MAIL, gate.clone(), waits).prefetch(2).start().await.unwrap();
    until(async || post.figures().await == [2, 0, 1, 0]).await;
    // Others may have them, and it takes none before it has a handler for one.
    let other = post.queue().worker(&MAIL, Runs::default(), done).until_empty();
    tokio::time::sleep(secs(5)).await;
    assert_eq!(post.figures().await, [2, 0, 1, 0]);
    gate.turns.add_permits(9);
    assert!(other.await.unwrap().done <= 2);
    until(async || post.stats().await.done == 3).await;
    let ran = worker.stop().await;
    assert_eq!((ran.given_back, ran.lost), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_stop_gives_back_what_was_taken_ahead() {
    let (post, gate) = (Post::new(), Gate::new());
    adds(&post, &["a", "b", "c"]).await;
    let worker = post.queue().worker(&MAIL, gate.clone(), waits).prefetch(2).start().await.unwrap();
    until(async || post.figures().await == [0, 0, 3, 0]).await;
    gate.turns.add_permits(1);
    let ran = worker.stop().await;
    assert_eq!((ran.done, ran.given_back, ran.lost), (1, 2, 0));
    let ready = post.listed(JobState::Ready).await;
    let counts: Vec<_> = ready.iter().map(|job| (job.counts.losses, job.counts.given_back)).collect();
    assert_eq!(counts, [(0, 1), (0, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_cancelled_before_its_turn_does_not_run() {
    let (post, gate) = (Post::new(), Gate::new());
    let ids = adds(&post, &["a", "b"]).await;
    let job = hapax_core::queue::JobRef::Uid(ids[1].parse().unwrap());
    let worker = post.queue().worker(&MAIL, gate.clone(), waits).prefetch(1).claim_idle(secs(1));
    let worker = worker.start().await.unwrap();
    until(async || post.figures().await == [0, 0, 2, 0]).await;
    hapax_core::queue::QueueStore::cancel(&*post.store, post.raw().id(), &job).await.unwrap();
    let beats = || post.store.beats.load(Ordering::SeqCst);
    let before = beats();
    until(async || beats() > before + 1).await;
    gate.turns.add_permits(9);
    until(async || post.stats().await.cancelled == 1).await;
    assert_eq!(gate.ran(), ["a"]);
    let ran = worker.stop().await;
    assert_eq!((ran.done, ran.cancelled), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn no_more_is_taken_ahead_than_a_step_hands_out() {
    let post = Post::new();
    let error = post.queue().worker(&MAIL, Runs::default(), done).prefetch(257).start().await.unwrap_err();
    assert!(error.to_string().contains("256"), "{error}");
}
