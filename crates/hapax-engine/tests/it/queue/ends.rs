//! What the end of a handler means.

use super::{MAIL, Mail, Post, Runs, done, mail};
use crate::support::{ms, secs};
use hapax_core::{
    ManualClock, memory,
    queue::{DeadReason, JobState},
};
use hapax_engine::queue::{Backoff, Job, JobError, Queue, Ran};
use std::{sync::Arc, time::Duration};

pub(super) fn ran(change: impl FnOnce(&mut Ran)) -> Ran {
    let mut ran = Ran::default();
    change(&mut ran);
    ran
}

#[tokio::test(start_paused = true)]
async fn a_handler_gets_its_job_and_ends_it() {
    let post = Post::new();
    post.queue().add(&MAIL, &mail("ada")).job_id("w").context("trace", "t1").await.unwrap();
    let handler = async |(), job: Job<Mail>| {
        assert_eq!((job.data.to.as_str(), job.job_id(), job.key().as_str()), ("ada", Some("w"), "w"));
        assert_eq!((job.attempt(), job.max_attempts(), job.losses()), (1, 5, 0));
        assert_eq!((job.context("trace"), job.context("other")), (Some("t1"), None));
        assert!(job.fence() > 0 && job.id().len() == 32);
        Ok(())
    };
    let worker = post.queue().worker(&MAIL, (), handler);
    assert_eq!(worker.until_empty().await.unwrap(), ran(|ran| ran.done = 1));
    assert_eq!(post.figures().await, [0, 0, 0, 0]);
}

#[tokio::test]
async fn failures_are_tried_again_until_they_are_too_many() {
    let clock = ManualClock::new();
    let queue = Queue::of(&memory::backend(Arc::new(clock.clone())), secs(5));
    let backoff = Backoff::fixed(Duration::from_hours(1));
    queue.add(&MAIL, &mail("ada")).max_attempts(3).backoff(backoff).await.unwrap();
    let handler = async |runs: Runs, job: Job<Mail>| -> Result<(), JobError> {
        assert_eq!(job.attempt(), runs.next());
        Err(std::io::Error::other("no route").into())
    };
    let runs = Runs::default();
    let all = queue.worker(&MAIL, runs.clone(), handler).until_empty().await.unwrap();
    assert_eq!(all, ran(|ran| (ran.retried, ran.dead) = (2, 1)));
    assert_eq!(runs.count(), 3);
    assert_eq!(queue.stats(&MAIL).await.unwrap()[0].dead, 1);
    assert_eq!(queue.dead_letters(&MAIL).redrive_all().await.unwrap(), 1);
    let again = queue.worker(&MAIL, Runs::default(), done).until_empty().await.unwrap();
    assert_eq!(again, ran(|ran| ran.done = 1));
}

#[tokio::test(start_paused = true)]
async fn each_way_to_end_is_told_apart() {
    let post = Post::new();
    for to in ["retry", "retry_after", "snooze", "discard", "dead", "unknown", "panic", "done"] {
        post.queue().add(&MAIL, &mail(to)).await.unwrap();
    }
    let handler = async |(), job: Job<Mail>| -> Result<(), JobError> {
        match job.data.to.as_str() {
            "retry" => Err(JobError::retry("no")),
            "retry_after" => Err(JobError::retry_after("no", secs(60))),
            "snooze" => Err(JobError::snooze(secs(60))),
            "discard" => Err(JobError::discard("nothing to do")),
            "dead" => Err(JobError::dead("never")),
            "unknown" => Err(JobError::unknown("who knows")),
            "panic" => panic!("oh"),
            _ => Ok(()),
        }
    };
    let worker = post.queue().worker(&MAIL, (), handler).concurrency(8);
    let all = worker.until_empty().await.unwrap();
    let expected = ran(|ran| {
        (ran.done, ran.discarded, ran.retried, ran.snoozed, ran.dead) = (2, 1, 3, 1, 2);
    });
    assert_eq!(all, expected);
    let mut dead: Vec<_> = post.listed(JobState::Dead).await;
    dead.sort_by_key(|job| job.reason.map(DeadReason::as_str));
    let reasons: Vec<_> = dead.iter().map(|job| (job.reason.unwrap(), job.error.clone().unwrap())).collect();
    assert_eq!(reasons, [(DeadReason::Refused, "never".into()), (DeadReason::Unknown, "who knows".into())]);
    let delayed = post.listed(JobState::Delayed).await;
    assert_eq!(delayed.len(), 4);
    let panicked = delayed.iter().find(|job| job.payload.as_ref() == br#"{"to":"panic"}"#).unwrap();
    assert_eq!(panicked.error.as_deref(), Some("the handler panicked: oh"));
    let snoozed = delayed.iter().find(|job| job.payload.as_ref() == br#"{"to":"snooze"}"#).unwrap();
    assert_eq!((snoozed.counts.attempts, snoozed.counts.snoozes), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_dead_and_the_loop_goes_on() {
    let post = Post::new();
    let raw = post.raw();
    for payload in ["no json", r#"{"to":7}"#, r#"{"to":" "}"#, r#"{"to":"ada"}"#] {
        raw.add(payload).await.unwrap();
    }
    let all = post.queue().worker(&MAIL, Runs::default(), done).until_empty().await.unwrap();
    assert_eq!(all, ran(|ran| (ran.done, ran.dead) = (1, 3)));
    let dead = post.listed(JobState::Dead).await;
    let reasons: Vec<_> = dead.iter().map(|job| (job.reason.unwrap(), job.payload.len())).collect();
    assert_eq!(
        reasons,
        [(DeadReason::Undecodable, 7), (DeadReason::Undecodable, 8), (DeadReason::Invalid, 10)]
    );
    assert_eq!(dead[0].counts.attempts, 0, "no handler saw it");
}

#[tokio::test(start_paused = true)]
async fn what_takes_too_long_has_failed() {
    let post = Post::new();
    post.queue().add(&MAIL, &mail("ada")).timeout(secs(3)).await.unwrap();
    let handler = async |(), _: Job<Mail>| {
        tokio::time::sleep(secs(600)).await;
        Ok(())
    };
    let all = post.queue().worker(&MAIL, (), handler).max_runtime(secs(5)).run_once().await.unwrap();
    assert_eq!(all, ran(|ran| ran.retried = 1));
    let error = post.listed(JobState::Delayed).await[0].error.clone();
    assert_eq!(error.as_deref(), Some("it took longer than 3s"));
}

#[tokio::test(start_paused = true)]
async fn what_is_put_off_for_too_long_is_dead() {
    let post = Post::new();
    post.queue().add(&MAIL, &mail("ada")).await.unwrap();
    let handler = async |runs: Runs, _: Job<Mail>| -> Result<(), JobError> {
        runs.next();
        Err(JobError::snooze(secs(30)))
    };
    let runs = Runs::default();
    let worker =
        post.queue().worker(&MAIL, runs.clone(), handler).max_snooze(secs(100)).start().await.unwrap();
    while post.stats().await.dead == 0 {
        tokio::time::sleep(ms(500)).await;
    }
    worker.stop().await;
    let dead = &post.listed(JobState::Dead).await[0];
    assert_eq!((dead.reason, dead.counts.attempts), (Some(DeadReason::SnoozedOut), 0));
    assert!((3..=4).contains(&runs.count()), "{} runs", runs.count());
}

#[tokio::test(start_paused = true)]
async fn a_result_is_kept_where_it_is_asked_for() {
    let post = Post::new();
    let add = || post.queue().add(&MAIL, &mail("ada")).job_id("w").keep_result(secs(60)).into_future();
    let first = add().await.unwrap();
    post.queue().worker(&MAIL, Runs::default(), done).run_once().await.unwrap();
    let hapax_engine::queue::Added::Duplicate { id, state, result } = add().await.unwrap() else { panic!() };
    assert_eq!((id.as_str(), state), (first.id(), JobState::Done));
    assert_eq!(&result.unwrap().bytes[..], br#""to ada""#);
    assert_eq!(post.find(first.id()).await.unwrap().state, JobState::Done);
}

#[tokio::test]
async fn a_queue_for_tests_runs_each_job_inside_add() {
    let queue = Queue::inline();
    let runs = Runs::default();
    let before = queue.add(&MAIL, &mail("early")).await.unwrap();
    let worker = queue.worker(&MAIL, runs.clone(), done).start().await.unwrap();
    queue.add(&MAIL, &mail("ada")).await.unwrap();
    assert_eq!(runs.count(), 2, "the one from before the worker, too");
    queue.add(&MAIL, &mail("bob")).delay(secs(3600)).await.unwrap();
    assert_eq!((runs.count(), before.is_duplicate()), (3, false));
    worker.stop().await;
    queue.add(&MAIL, &mail("eve")).await.unwrap();
    assert_eq!(runs.count(), 3);
    let ran = queue.worker(&MAIL, runs.clone(), done).until_empty().await.unwrap();
    assert_eq!((ran.done, runs.count()), (1, 4));
}
