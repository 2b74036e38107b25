//! Workers add the jobs of schedules, whoever dies, and whatever the clock does.

use super::{MAIL, Mail, Post, Runs, done, life::until, mail};
use crate::support::{Logs, secs};
use hapax_core::{
    Namespace, Timestamp,
    queue::{JobInfo, JobState, Limits, ListJobs, Put, QueueStore, Schedule, ScheduleName},
};
use hapax_engine::queue::{Backoff, CatchUp, Job, JobError, QueueDef, Worker};
use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

/// Nobody works on this queue.
static REPORT: QueueDef<u32> = QueueDef::new("report");

/// The jobs of the queue of reports that wait, by their ids.
async fn reports(post: &Post) -> Vec<String> {
    waiting(post).await.iter().map(|job| job.job_id.as_ref().unwrap().as_str().to_owned()).collect()
}

async fn waiting(post: &Post) -> Vec<JobInfo> {
    let queue = post.queue().raw("report").unwrap().id().clone();
    let req = ListJobs { queue, group: None, state: JobState::Ready, after: None, limit: 100 };
    post.store.list(&req).await.unwrap().jobs
}

/// A worker of another process, on another queue than the reports'.
async fn worker(post: &Post) -> Worker {
    post.queue().worker(&MAIL, Runs::default(), done).start().await.unwrap()
}

async fn put(post: &Post, expression: &str, catch_up: CatchUp) -> Put {
    post.queue().schedule(&REPORT, "r", expression, &7).catch_up(catch_up).await.unwrap()
}

fn minutes(n: u64) -> Duration {
    Duration::from_mins(n)
}

#[tokio::test(start_paused = true)]
async fn each_time_is_one_job_whoever_works() {
    let post = Post::new();
    let workers = [worker(&post).await, worker(&post).await, worker(&post).await];
    let put = post.queue().schedule(&REPORT, "r", "* * * * *", &7).max_attempts(2).await.unwrap();
    assert_eq!(put, Put::Stored);
    tokio::time::sleep(minutes(3) + secs(1)).await;
    let ids: Vec<_> = (1..=3).map(|minute| format!("cron:r:2026-01-01T00:0{minute}:00Z")).collect();
    assert_eq!(reports(&post).await, ids);
    // None of them waited for the next look.
    for (job, minute) in waiting(&post).await.iter().zip(1_i64..) {
        let late = job.added_at.as_millis() - (1_767_225_600_000 + minute * 60_000);
        assert!((0..100).contains(&late), "{late} ms late");
        assert_eq!(&job.payload[..], b"7");
    }
    for worker in workers {
        worker.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_knows_which_time_it_is_of() {
    let post = Post::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let handler = async |seen: Arc<Mutex<Vec<String>>>, job: Job<Mail>| -> Result<(), JobError> {
        let of = |name| job.context(name).unwrap_or_default().to_owned();
        seen.lock().unwrap().push(format!(
            "{} {} {} {}",
            job.data.to,
            of("schedule"),
            of("scheduled_for"),
            of("own")
        ));
        Ok(())
    };
    let put = post.queue().schedule(&MAIL, "often", "* 9 * * *", &mail(" ada "));
    put.time_zone("Asia/Tokyo").context("own", "x").backoff(Backoff::fixed(secs(1))).await.unwrap();
    let worker = post.queue().worker(&MAIL, Arc::clone(&seen), handler).start().await.unwrap();
    until(async || seen.lock().unwrap().len() == 2).await;
    worker.stop().await;
    let times = ["2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"];
    assert_eq!(*seen.lock().unwrap(), times.map(|time| format!("ada often {time} x")));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_between_the_job_and_the_move_adds_no_second_one() {
    let post = Post::new();
    put(&post, "* * * * *", CatchUp::One).await;
    post.store.stuck.store(true, Ordering::SeqCst);
    let first = worker(&post).await;
    until(async || reports(&post).await.len() == 1).await;
    // Dropped as a process that dies: the job is there, and the schedule is where it was.
    drop(first);
    post.store.stuck.store(false, Ordering::SeqCst);
    let second = worker(&post).await;
    until(async || reports(&post).await.len() == 2).await;
    assert_eq!(reports(&post).await, ["cron:r:2026-01-01T00:01:00Z", "cron:r:2026-01-01T00:02:00Z"]);
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_downtime_one_job_stands_for_all_missed_times() {
    let post = Post::new();
    put(&post, "*/10 * * * *", CatchUp::One).await;
    tokio::time::sleep(minutes(65)).await;
    let worker = worker(&post).await;
    until(async || !reports(&post).await.is_empty()).await;
    assert_eq!(reports(&post).await, ["cron:r:2026-01-01T01:00:00Z"]);
    until(async || reports(&post).await.len() == 2).await;
    assert_eq!(reports(&post).await[1], "cron:r:2026-01-01T01:10:00Z");
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn missed_times_are_skipped_where_that_is_asked_for() {
    let post = Post::new();
    put(&post, "*/10 * * * *", CatchUp::Skip).await;
    tokio::time::sleep(minutes(65)).await;
    let worker = worker(&post).await;
    until(async || !reports(&post).await.is_empty()).await;
    assert_eq!(reports(&post).await, ["cron:r:2026-01-01T01:10:00Z"]);
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_fires_nothing_again() {
    let post = Post::new();
    let worker = worker(&post).await;
    put(&post, "* * * * *", CatchUp::One).await;
    tokio::time::sleep(minutes(5) + secs(1)).await;
    assert_eq!(reports(&post).await.len(), 5);
    post.clock.set_back(minutes(3));
    tokio::time::sleep(secs(175)).await;
    assert_eq!(reports(&post).await.len(), 5);
    tokio::time::sleep(minutes(1) + secs(10)).await;
    assert_eq!(reports(&post).await.len(), 6);
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_removed_schedule_fires_no_more() {
    let post = Post::new();
    let worker = worker(&post).await;
    put(&post, "* * * * *", CatchUp::One).await;
    tokio::time::sleep(minutes(1) + secs(59)).await;
    assert!(post.queue().remove_schedule("r").await.unwrap());
    assert!(!post.queue().remove_schedule("r").await.unwrap());
    tokio::time::sleep(minutes(5)).await;
    assert_eq!(reports(&post).await, ["cron:r:2026-01-01T00:01:00Z"]);
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_is_told_and_tried_again() {
    let post = Post::new();
    let (logs, _guard) = Logs::capture();
    let queue = post.queue().raw("report").unwrap().id().clone();
    let limit = |max_len| Limits { max_len, ..Limits::default() };
    post.store.set_limits(&queue, &limit(Some(1))).await.unwrap();
    put(&post, "* * * * *", CatchUp::One).await;
    let worker = worker(&post).await;
    tokio::time::sleep(minutes(2) + secs(30)).await;
    assert_eq!(reports(&post).await, ["cron:r:2026-01-01T00:01:00Z"]);
    assert!(logs.levels("queue.full").len() > 1, "{}", logs.text());
    post.store.set_limits(&queue, &limit(None)).await.unwrap();
    tokio::time::sleep(secs(6)).await;
    assert_eq!(reports(&post).await, ["cron:r:2026-01-01T00:01:00Z", "cron:r:2026-01-01T00:02:00Z"]);
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_queue_gets_its_jobs() {
    let post = Post::new();
    post.queue().add(&REPORT, &1).await.unwrap();
    post.queue().pause(&REPORT).await.unwrap();
    put(&post, "* * * * *", CatchUp::One).await;
    let worker = worker(&post).await;
    until(async || waiting(&post).await.len() == 2).await;
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_holds_up_nothing_else() {
    let post = Post::new();
    let (logs, _guard) = Logs::capture();
    let newer = Schedule {
        name: ScheduleName::new("a").unwrap(),
        queue: post.queue().raw("report").unwrap().id().name.clone(),
        owner: None,
        revision: 0,
        what: r#"{"v":2}"#.into(),
        next: Timestamp::default(),
    };
    post.store.put_schedule(&Namespace::default(), &newer).await.unwrap();
    put(&post, "* * * * *", CatchUp::One).await;
    let worker = worker(&post).await;
    until(async || reports(&post).await.len() == 2).await;
    assert!(logs.text().contains("version 2"), "{}", logs.text());
    worker.stop().await;
    let listed = post.queue().list_schedules().await.unwrap();
    let shown: Vec<_> = listed.iter().map(|info| (info.name.as_str(), info.rule.is_ok())).collect();
    assert_eq!(shown, [("a", false), ("r", true)]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_a_while_costs_no_time() {
    let post = Post::new();
    put(&post, "* * * * *", CatchUp::Skip).await;
    post.store.blind.store(true, Ordering::SeqCst);
    let worker = worker(&post).await;
    tokio::time::sleep(minutes(1) + secs(30)).await;
    post.store.blind.store(false, Ordering::SeqCst);
    until(async || reports(&post).await.len() == 1).await;
    assert_eq!(reports(&post).await, ["cron:r:2026-01-01T00:01:00Z"]);
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn workers_that_end_by_themselves_fire_what_is_due_once() {
    let post = Post::new();
    post.queue().schedule(&MAIL, "m", "*/10 * * * *", &mail("ada")).await.unwrap();
    let worker = || post.queue().worker(&MAIL, Runs::default(), done);
    assert_eq!(worker().until_empty().await.unwrap().done, 0);
    tokio::time::sleep(minutes(10)).await;
    assert_eq!(worker().until_empty().await.unwrap().done, 1);
    assert_eq!(worker().until_empty().await.unwrap().done, 0);
    tokio::time::sleep(minutes(10)).await;
    post.queue().add(&MAIL, &mail("bob")).await.unwrap();
    // It takes one job; that of the schedule is left to the next.
    assert_eq!(worker().run_once().await.unwrap().done, 1);
    assert_eq!(worker().run_once().await.unwrap().done, 1);
    assert_eq!(worker().run_once().await.unwrap().done, 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_schedule_is_told_when_it_is_put() {
    let post = Post::new();
    let queue = post.queue();
    let put = |name: &str, expression: &str| queue.schedule(&REPORT, name, expression, &7);
    for (schedule, words) in [
        (put("r", "0 25 * * *"), "`25` is no hour"),
        (put("r", "0 0 30 2 *"), "never"),
        (put("r", "@daily").time_zone("Europe/Berln"), "Europe/Berlin"),
        (put("", "@daily"), "1 to 200 bytes"),
        (put("r", "@daily").max_attempts(0), "at least one attempt"),
        (put("r", "@daily").options(hapax_engine::queue::JobOptions::default().job_id("mine")), "no id"),
        (put("r", "@daily").options(hapax_engine::queue::JobOptions::default().delay(secs(1))), "no time"),
        (queue.schedule(&MAIL, "r", "@daily", &mail("")), "not valid"),
    ] {
        let error = schedule.await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(queue.list_schedules().await.unwrap().is_empty());
}
