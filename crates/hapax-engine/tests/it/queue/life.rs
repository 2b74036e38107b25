//! Workers that start, lose jobs, meet a store that fails, and stop.

use super::{MAIL, Mail, Post, Runs, done, faulty::Fault, mail};
use crate::support::secs;
use hapax_core::queue::{JobRef, JobState, QueueStore};
use hapax_engine::queue::{Halt, Job, JobError};
use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

pub(super) async fn until(condition: impl AsyncFn() -> bool) {
    let waited = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(secs(3600), waited).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_new_job_wakes_an_idle_worker() {
    let post = Post::new();
    let worker = post.queue().worker(&MAIL, Runs::default(), done).start().await.unwrap();
    tokio::time::sleep(secs(1)).await;
    let before = tokio::time::Instant::now();
    post.queue().add(&MAIL, &mail("ada")).await.unwrap();
    until(async || post.stats().await.done == 1).await;
    assert!(before.elapsed() < secs(1), "{:?}", before.elapsed());
    assert_eq!(worker.stop().await.done, 1);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_job_starts_when_it_is_due() {
    let post = Post::new();
    let worker = post.queue().worker(&MAIL, Runs::default(), done).start().await.unwrap();
    post.queue().add(&MAIL, &mail("ada")).delay(secs(3)).await.unwrap();
    let before = tokio::time::Instant::now();
    until(async || post.stats().await.done == 1).await;
    let late = before.elapsed().checked_sub(secs(3)).unwrap();
    assert!(late < Duration::from_millis(200), "{late:?} late");
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_asks_seldom() {
    let post = Post::new();
    let worker = post.queue().worker(&MAIL, Runs::default(), done).start().await.unwrap();
    tokio::time::sleep(secs(5)).await;
    let calls = || {
        let store = &post.store;
        [&store.steps, &store.waits, &store.beats, &store.looks]
            .map(|calls| calls.load(Ordering::SeqCst))
            .iter()
            .sum::<u32>()
    };
    let before = calls();
    tokio::time::sleep(secs(100)).await;
    let after = calls() - before;
    assert!(after <= 30, "{after} calls in 100 s");
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_is_renewed_while_its_handler_runs() {
    let post = Post::new();
    post.queue().add(&MAIL, &mail("ada")).await.unwrap();
    let handler = async |runs: Runs, _: Job<Mail>| {
        runs.next();
        tokio::time::sleep(secs(300)).await;
        Ok(())
    };
    let runs = Runs::default();
    let one = post.queue().worker(&MAIL, runs.clone(), handler).start().await.unwrap();
    until(async || runs.count() == 1).await;
    let two = post.queue().worker(&MAIL, runs.clone(), handler).start().await.unwrap();
    until(async || post.stats().await.done == 1).await;
    assert_eq!((runs.count(), post.stats().await.lost), (1, 0));
    one.stop().await;
    two.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_waits_for_its_turn_is_renewed_too() {
    // A worker takes no more than it has room for, so nothing waits behind a slow job.
    let post = Post::new();
    for to in ["a", "b", "c"] {
        post.queue().add(&MAIL, &mail(to)).await.unwrap();
    }
    let handler = async |runs: Runs, _: Job<Mail>| {
        runs.next();
        tokio::time::sleep(secs(100)).await;
        Ok(())
    };
    let runs = Runs::default();
    let worker = post.queue().worker(&MAIL, runs.clone(), handler).start().await.unwrap();
    until(async || runs.count() == 1).await;
    assert_eq!(post.figures().await, [2, 0, 1, 0]);
    until(async || post.stats().await.done == 3).await;
    assert_eq!((runs.count(), post.stats().await.lost), (3, 0));
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_who_is_not_heard_loses_its_jobs_in_time() {
    let post = Post::new();
    post.queue().add(&MAIL, &mail("ada")).await.unwrap();
    let handler = async |seen: Arc<Mutex<Vec<Halt>>>, job: Job<Mail>| -> Result<(), JobError> {
        let why = job.cancelled().await;
        seen.lock().unwrap().push(why);
        Err(JobError::retry("lost"))
    };
    let seen = Arc::new(Mutex::new(Vec::new()));
    post.store.deaf.store(true, Ordering::SeqCst);
    let started = tokio::time::Instant::now();
    let worker = post.queue().worker(&MAIL, Arc::clone(&seen), handler).start().await.unwrap();
    until(async || !seen.lock().unwrap().is_empty()).await;
    assert_eq!(*seen.lock().unwrap(), [Halt::Lost]);
    let after = started.elapsed();
    assert!(after > secs(20) && after < secs(30), "told after {after:?} of a lease of 30 s");
    // What the handler made of it is no failure of the job: the lease ends, and that is a loss.
    post.store.deaf.store(false, Ordering::SeqCst);
    until(async || post.stats().await.lost == 1).await;
    let job = post.listed(JobState::Running).await.remove(0);
    assert_eq!((job.counts.losses, job.counts.attempts), (1, 0));
    assert!(worker.ran().lost >= 1);
    drop(worker);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_job_tells_its_handler() {
    let post = Post::new();
    let added = post.queue().add(&MAIL, &mail("ada")).await.unwrap();
    let handler = async |seen: Arc<Mutex<Vec<Halt>>>, job: Job<Mail>| -> Result<(), JobError> {
        let why = job.cancelled().await;
        seen.lock().unwrap().push(why);
        Err(JobError::retry("stopped"))
    };
    let seen = Arc::new(Mutex::new(Vec::new()));
    let worker = post.queue().worker(&MAIL, Arc::clone(&seen), handler).start().await.unwrap();
    until(async || post.stats().await.running == 1).await;
    let job = JobRef::Uid(added.id().parse().unwrap());
    assert_eq!(post.store.cancel(post.raw().id(), &job).await.unwrap().told, 1);
    until(async || post.stats().await.cancelled == 1).await;
    assert_eq!(*seen.lock().unwrap(), [Halt::Cancelled]);
    let ran = worker.stop().await;
    assert_eq!((ran.cancelled, ran.retried), (1, 0));
    assert_eq!(post.figures().await, [0, 0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_is_waited_out() {
    let post = Post::new();
    for n in 0..20 {
        post.queue().add(&MAIL, &mail(&n.to_string())).await.unwrap();
    }
    post.store.fail(&[Fault::Before, Fault::LostReply, Fault::Before, Fault::LostReply, Fault::Before]);
    let runs = Runs::default();
    let worker = post.queue().worker(&MAIL, runs.clone(), done).concurrency(4).start().await.unwrap();
    until(async || post.stats().await.done == 20).await;
    assert_eq!((runs.count(), post.stats().await.lost), (20, 0), "what came in a lost answer is given back");
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_what_runs() {
    let post = Post::new();
    for to in ["a", "b", "c"] {
        post.queue().add(&MAIL, &mail(to)).await.unwrap();
    }
    let handler = async |runs: Runs, _: Job<Mail>| {
        runs.next();
        tokio::time::sleep(secs(10)).await;
        Ok(())
    };
    let runs = Runs::default();
    let worker = post.queue().worker(&MAIL, runs.clone(), handler).concurrency(2).start().await.unwrap();
    until(async || runs.count() == 2).await;
    let before = tokio::time::Instant::now();
    let ran = worker.stop().await;
    assert!(before.elapsed() < secs(15), "and no longer");
    assert_eq!((ran.done, ran.given_back, runs.count()), (2, 0, 2));
    assert_eq!(worker.stop().await, ran, "a second stop answers the same");
    assert_eq!(post.figures().await, [1, 0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_gives_back_what_takes_too_long() {
    let post = Post::new();
    post.queue().add(&MAIL, &mail("ada")).await.unwrap();
    let handler = async |runs: Runs, _: Job<Mail>| {
        runs.next();
        tokio::time::sleep(secs(10_000)).await;
        Ok(())
    };
    let runs = Runs::default();
    let worker = post.queue().worker(&MAIL, runs.clone(), handler).drain(secs(5)).start().await.unwrap();
    until(async || runs.count() == 1).await;
    let before = tokio::time::Instant::now();
    let ran = worker.stop().await;
    assert!(before.elapsed() < secs(8), "{:?}", before.elapsed());
    assert_eq!(ran.given_back, 1);
    let job = post.listed(JobState::Ready).await.remove(0);
    assert_eq!((job.counts.losses, job.counts.attempts, job.counts.given_back), (0, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_dropped_stops() {
    let post = Post::new();
    let worker = post.queue().worker(&MAIL, Runs::default(), done).start().await.unwrap();
    drop(worker);
    tokio::time::sleep(secs(1)).await;
    post.queue().add(&MAIL, &mail("ada")).await.unwrap();
    tokio::time::sleep(secs(60)).await;
    assert_eq!(post.figures().await, [1, 0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn wrong_settings_are_told_at_the_start() {
    let post = Post::new();
    let worker = || post.queue().worker(&MAIL, Runs::default(), done);
    for (builder, word) in [
        (worker().concurrency(0), "handlers"),
        (worker().concurrency(1000), "handlers"),
        (worker().claim_idle(Duration::ZERO), "duration"),
        (worker().claim_idle(Duration::from_millis(10)), "1 s"),
        (worker().group(""), "group"),
    ] {
        let error = builder.start().await.unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}

/// The one test on the machine's own clock: a handler blocks the only thread of its runtime for three leases.
#[test]
fn a_handler_that_blocks_its_thread_keeps_its_job() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let queue = hapax_engine::queue::Queue::of(
            &hapax_core::memory::backend(Arc::new(hapax_core::SystemClock)),
            secs(5),
        );
        queue.add(&MAIL, &mail("ada")).await.unwrap();
        let handler = async |runs: Runs, _: Job<Mail>| {
            runs.next();
            let (sender, receiver) = std::sync::mpsc::channel::<()>();
            // Blocks as a computation would; nobody sends.
            let _ = receiver.recv_timeout(secs(3));
            drop(sender);
            Ok(())
        };
        let runs = Runs::default();
        let worker = || queue.worker(&MAIL, runs.clone(), handler).claim_idle(secs(1));
        let elsewhere = {
            let queue = queue.clone();
            let runs = runs.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async move {
                    while runs.count() == 0 {
                        tokio::task::yield_now().await;
                    }
                    let other = queue.worker(&MAIL, Runs::default(), done).claim_idle(secs(1));
                    other.until_empty().await.unwrap()
                })
            })
        };
        let ran = worker().run_once().await.unwrap();
        assert_eq!((ran.done, ran.lost, runs.count()), (1, 0, 1));
        assert_eq!(elsewhere.join().unwrap().done, 0);
    });
}
