//! Handlers that run once per job key.

use super::{MAIL, Mail, Post, Runs, done, faulty::Fault, mail};
use crate::support::secs;
use hapax_core::queue::{DeadReason, JobState, QueueStore, Redrive};
use hapax_engine::queue::{Job, JobError, OnError};

/// A job whose worker is lost after the effect and before the end, so that it runs again.
async fn crash_after_effect(post: &Post, runs: &Runs, on_error: OnError) {
    let handler = async |runs: Runs, _: Job<Mail>| {
        runs.next();
        Ok("sent")
    };
    let worker = post.queue().worker(&MAIL, runs.clone(), handler).idempotent(&post.idempotency(), on_error);
    worker.run_once().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_effect_runs_once_whose_end_is_lost() {
    let post = Post::new();
    post.queue().add(&MAIL, &mail("ada")).job_id("w").await.unwrap();
    let runs = Runs::default();
    // The step that takes the job, then the one that ends it: its answer is lost, and it is sent again.
    let handler = async |(post_fails, runs): (std::sync::Arc<super::Unsteady>, Runs), _: Job<Mail>| {
        runs.next();
        post_fails.fail(&[Fault::LostReply, Fault::Before]);
        Ok("sent")
    };
    let state = (std::sync::Arc::clone(&post.store), runs.clone());
    let worker = post.queue().worker(&MAIL, state, handler).idempotent(&post.idempotency(), OnError::Retry);
    let ran = worker.run_once().await.unwrap();
    assert_eq!((ran.done, ran.lost, runs.count()), (1, 0, 1));
    assert_eq!(post.figures().await, [0, 0, 0, 0]);
    // The same key again, under another job: the first receipt answers.
    let again = post.queue().add(&MAIL, &mail("ada")).job_id("w").await.unwrap();
    assert!(again.is_duplicate());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_done_ends_its_job_without_a_run() {
    let post = Post::new();
    let runs = Runs::default();
    for _ in 0..2 {
        post.queue().add(&MAIL, &mail("ada")).job_id("w").dedupe_for(secs(1)).await.unwrap();
        crash_after_effect(&post, &runs, OnError::Retry).await;
        tokio::time::sleep(secs(2)).await;
    }
    assert_eq!((runs.count(), post.stats().await.done), (1, 2), "the second job found its key done");
}

#[tokio::test(start_paused = true)]
async fn certain_failures_free_the_key() {
    let post = Post::new();
    post.queue().add(&MAIL, &mail("ada")).await.unwrap();
    let handler = async |runs: Runs, _: Job<Mail>| -> Result<(), JobError> {
        match runs.next() {
            1 => Err(JobError::retry_after("refused", secs(1))),
            2 => Err(JobError::snooze(secs(1))),
            _ => Ok(()),
        }
    };
    let runs = Runs::default();
    let worker = post.queue().worker(&MAIL, runs.clone(), handler);
    let worker = worker.idempotent(&post.idempotency(), OnError::Keep).start().await.unwrap();
    while post.stats().await.done == 0 {
        tokio::time::sleep(secs(1)).await;
    }
    worker.stop().await;
    assert_eq!(runs.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_plain_error_means_what_the_worker_was_told() {
    for (on_error, delayed, dead) in [(OnError::Retry, 1, 0), (OnError::Keep, 0, 1)] {
        let post = Post::new();
        post.queue().add(&MAIL, &mail("ada")).await.unwrap();
        let handler =
            async |(), _: Job<Mail>| -> Result<(), JobError> { Err(std::io::Error::other("reset").into()) };
        let worker = post.queue().worker(&MAIL, (), handler).idempotent(&post.idempotency(), on_error);
        worker.run_once().await.unwrap();
        let figures = post.figures().await;
        assert_eq!(figures, [0, delayed, 0, dead], "{on_error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_dead_at_once_and_stays_so() {
    let post = Post::new();
    post.queue().add(&MAIL, &mail("ada")).job_id("w").await.unwrap();
    let handler = async |runs: Runs, _: Job<Mail>| -> Result<(), JobError> {
        runs.next();
        panic!("in the middle")
    };
    let runs = Runs::default();
    let worker =
        || post.queue().worker(&MAIL, runs.clone(), handler).idempotent(&post.idempotency(), OnError::Retry);
    worker().run_once().await.unwrap();
    let dead = post.listed(JobState::Dead).await.remove(0);
    assert_eq!((dead.reason, runs.count()), (Some(DeadReason::Unknown), 1));
    // A redrive finds the key unknown: nothing runs until somebody has settled it.
    let req = Redrive { queue: post.raw().id().clone(), group: None, uids: vec![dead.uid], force: false };
    post.store.redrive(&req).await.unwrap();
    worker().run_once().await.unwrap();
    assert_eq!((runs.count(), post.figures().await), (1, [0, 0, 0, 1]));
}

#[tokio::test(start_paused = true)]
async fn a_key_in_flight_puts_the_job_off_without_an_attempt() {
    let post = Post::new();
    post.queue().add(&MAIL, &mail("ada")).job_id("w").await.unwrap();
    let idem = post.idempotency();
    let handler = async |idem: hapax_engine::Idempotency, _: Job<Mail>| {
        let never = async || std::future::pending::<Result<u8, std::convert::Infallible>>().await;
        let held = tokio::spawn(idem.run("same", &1, never));
        tokio::task::yield_now().await;
        let answer = idem.run("same", &1, async || Ok::<_, std::convert::Infallible>(1)).await;
        held.abort();
        let Ok(answer) = answer?;
        Ok(answer)
    };
    let ran = post.queue().worker(&MAIL, idem, handler).run_once().await.unwrap();
    assert_eq!((ran.snoozed, ran.retried), (1, 0));
    assert_eq!(post.listed(JobState::Delayed).await[0].counts.attempts, 0);
}

#[tokio::test(start_paused = true)]
async fn another_payload_under_the_key_is_dead() {
    let post = Post::new();
    let runs = Runs::default();
    for to in ["ada", "bob"] {
        post.queue().add(&MAIL, &mail(to)).job_id("w").dedupe_for(secs(1)).await.unwrap();
        let worker =
            post.queue().worker(&MAIL, runs.clone(), done).idempotent(&post.idempotency(), OnError::Retry);
        worker.run_once().await.unwrap();
        tokio::time::sleep(secs(2)).await;
    }
    assert_eq!(post.listed(JobState::Dead).await[0].reason, Some(DeadReason::KeyReused));
    assert_eq!(runs.count(), 1);
}
