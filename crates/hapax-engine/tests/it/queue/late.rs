//! What comes late: beats of a process that stood still, pauses without end, stops of several workers.

use super::{MAIL, Mail, Post, Runs, faulty::Fault, mail};
use crate::support::secs;
use hapax_core::{Clock as _, Span, queue::JobState};
use hapax_engine::queue::{Backoff, Job, JobError, QueueDef};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::sync::Semaphore;

async fn until(condition: impl AsyncFn() -> bool) {
    let waited = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(secs(3600), waited).await.unwrap();
}

/// How a run goes on: one permit for each.
#[derive(Clone)]
struct Gate {
    runs: Runs,
    go: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Self {
        Self { runs: Runs::default(), go: Arc::new(Semaphore::new(0)) }
    }
}

async fn waits(gate: Gate, job: Job<Mail>) -> Result<(), JobError> {
    gate.runs.next();
    tokio::select! {
        permit = gate.go.acquire() => permit.unwrap().forget(),
        why = job.cancelled() => return Err(JobError::retry(format!("told: {why:?}"))),
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_beat_that_was_held_up_leaves_alone_what_came_meanwhile() {
    let (post, gate) = (Post::new(), Gate::new());
    post.queue().add(&MAIL, &mail("a")).await.unwrap();
    let worker = post.queue().worker(&MAIL, gate.clone(), waits).start().await.unwrap();
    until(async || post.store.beats.load(Ordering::SeqCst) == 2).await;
    // The process stands still after it has written down what it holds, and before that is sent.
    post.store.hold.send_replace(true);
    until(async || post.store.beats.load(Ordering::SeqCst) == 3).await;
    post.queue().add(&MAIL, &mail("b")).await.unwrap();
    gate.go.add_permits(1);
    until(async || gate.runs.count() == 2).await;
    post.store.hold.send_replace(false);
    until(async || post.store.beats.load(Ordering::SeqCst) >= 5).await;
    let running = post.listed(JobState::Running).await;
    let counts = running.iter().map(|job| (job.counts.given_back, job.counts.losses)).collect::<Vec<_>>();
    assert_eq!((counts, post.stats().await.lost), (vec![(0, 0)], 0));
    gate.go.add_permits(1);
    until(async || post.stats().await.done == 2).await;
    let ran = worker.stop().await;
    assert_eq!((ran.done, ran.lost, gate.runs.count()), (2, 0, 2));
}

#[tokio::test(start_paused = true)]
async fn a_beat_of_a_process_that_stood_still_for_a_lease_takes_nothing_back() {
    let (post, gate, theirs) = (Post::new(), Gate::new(), Gate::new());
    post.queue().add(&MAIL, &mail("a")).await.unwrap();
    let frozen = post.queue().worker(&MAIL, gate.clone(), waits).start().await.unwrap();
    until(async || post.store.beats.load(Ordering::SeqCst) == 1).await;
    post.store.hold.send_replace(true);
    until(async || post.store.beats.load(Ordering::SeqCst) == 2).await;
    post.clock.suspend(secs(40));
    let other = post.queue().worker(&MAIL, theirs.clone(), waits).start().await.unwrap();
    until(async || theirs.runs.count() == 1).await;
    post.store.hold.send_replace(false);
    until(async || frozen.ran().lost == 1).await;
    theirs.go.add_permits(1);
    until(async || post.stats().await.done == 1).await;
    assert_eq!((frozen.stop().await.lost, other.stop().await.done), (1, 1));
    assert_eq!((post.figures().await, post.stats().await.lost), ([0, 0, 0, 0], 1));
}

#[tokio::test(start_paused = true)]
async fn what_came_in_a_lost_answer_comes_back_however_long_the_worker_has_been_heard() {
    let (post, gate) = (Post::new(), Gate::new());
    post.queue().add(&MAIL, &mail("a")).await.unwrap();
    let worker = post.queue().worker(&MAIL, gate.clone(), waits).start().await.unwrap();
    until(async || post.store.beats.load(Ordering::SeqCst) == 6).await;
    post.queue().add(&MAIL, &mail("b")).delay(secs(5)).await.unwrap();
    gate.go.add_permits(2);
    until(async || post.stats().await.done == 1).await;
    // The worker has nothing but a job that it does not know of.
    post.store.fail(&[Fault::LostReply]);
    until(async || post.stats().await.running == 1).await;
    until(async || post.stats().await.done == 2).await;
    assert_eq!((post.stats().await.lost, gate.runs.count()), (0, 2));
    assert_eq!(worker.stop().await.done, 2);
}

#[tokio::test(start_paused = true)]
async fn workers_of_one_name_do_not_disturb_each_other() {
    let (post, gate) = (Post::new(), Gate::new());
    for to in ["a", "b"] {
        post.queue().add(&MAIL, &mail(to)).await.unwrap();
    }
    let worker = || post.queue().worker(&MAIL, gate.clone(), waits).consumer("host-1");
    let (one, two) = (worker().start().await.unwrap(), worker().start().await.unwrap());
    until(async || gate.runs.count() == 2).await;
    let running = post.listed(JobState::Running).await;
    let [a, b] = &running[..] else { panic!("{running:?}") };
    assert!(a.consumer != b.consumer && a.consumer.is_some() && b.consumer.is_some(), "{running:?}");
    // Each renews its own, for several leases.
    tokio::time::sleep(secs(100)).await;
    gate.go.add_permits(2);
    until(async || post.stats().await.done == 2).await;
    assert_eq!((gate.runs.count(), post.stats().await.lost), (2, 0));
    assert_eq!((one.stop().await.done, two.stop().await.done), (1, 1));
}

static QUEUES: [QueueDef<Mail>; 3] = [QueueDef::new("mail"), QueueDef::new("calls"), QueueDef::new("bills")];

#[tokio::test(start_paused = true)]
async fn workers_that_are_stopped_together_share_one_drain_time() {
    let (post, gate) = (Post::new(), Gate::new());
    let mut workers = Vec::new();
    for def in &QUEUES {
        post.queue().add(def, &mail("ada")).await.unwrap();
        let stuck = async |gate: Gate, _: Job<Mail>| {
            gate.runs.next();
            tokio::time::sleep(secs(10_000)).await;
            Ok(())
        };
        let worker = post.queue().worker(def, gate.clone(), stuck).drain(secs(5));
        workers.push(worker.start().await.unwrap());
    }
    until(async || gate.runs.count() == 3).await;
    let before = tokio::time::Instant::now();
    let (a, b, c) = tokio::join!(workers[0].stop(), workers[1].stop(), workers[2].stop());
    assert!(before.elapsed() < secs(8), "{:?}", before.elapsed());
    assert_eq!([a.given_back, b.given_back, c.given_back], [1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_pause_without_end_is_the_longest_there_is() {
    let post = Post::new();
    let add = |to| post.queue().add(&MAIL, &mail(to)).max_attempts(u32::MAX);
    let refused = add("ada").backoff(Backoff::exponential(Duration::MAX, Duration::MAX)).await.unwrap_err();
    assert!(refused.to_string().contains("the backoff"), "{refused}");
    let longest = Span::MAX.get();
    for to in ["retry", "snooze", "backoff"] {
        add(to).backoff(Backoff::exponential(longest, longest)).await.unwrap();
    }
    let handler = async |(), job: Job<Mail>| -> Result<(), JobError> {
        match job.data.to.as_str() {
            "retry" => Err(JobError::retry_after("no", Duration::MAX)),
            "snooze" => Err(JobError::snooze(Duration::MAX)),
            _ => Err(JobError::retry("no")),
        }
    };
    let worker = post.queue().worker(&MAIL, (), handler).max_snooze(Duration::MAX).concurrency(3);
    let worker = worker.start().await.unwrap();
    until(async || post.stats().await.delayed == 3).await;
    worker.stop().await;
    let now = post.clock.read().wall;
    for job in post.listed(JobState::Delayed).await {
        // Half of a backoff is drawn at random.
        assert!(job.at.since(now) > longest / 3 && job.at.since(now) <= longest, "{job:?}");
    }
}
