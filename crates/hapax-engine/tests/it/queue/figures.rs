//! What queues count.

use super::{MAIL, Mail, Post, Runs, done, faulty::Fault, mail};
use crate::support::secs;
use hapax_engine::queue::{Job, JobError};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit, set_default_local_recorder,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// Keeps everything, by name and labels.
#[derive(Clone, Debug, Default)]
struct Book(Arc<Mutex<BTreeMap<String, f64>>>);

/// One entry of it.
struct Entry(String, Book);

impl Entry {
    fn change(&self, change: impl FnOnce(&mut f64)) {
        change(self.1.0.lock().unwrap().entry(self.0.clone()).or_default());
    }
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
impl CounterFn for Entry {
    fn increment(&self, by: u64) {
        self.change(|value| *value += by as f64);
    }

    fn absolute(&self, to: u64) {
        self.change(|value| *value = to as f64);
    }
}

impl GaugeFn for Entry {
    fn increment(&self, by: f64) {
        self.change(|value| *value += by);
    }

    fn decrement(&self, by: f64) {
        self.change(|value| *value -= by);
    }

    fn set(&self, to: f64) {
        self.change(|value| *value = to);
    }
}

impl HistogramFn for Entry {
    fn record(&self, _: f64) {
        self.change(|count| *count += 1.0);
    }
}

impl Book {
    fn entry(&self, key: &Key) -> Arc<Entry> {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        Arc::new(Entry(format!("{} {}", key.name(), labels.join(" ")), self.clone()))
    }

    fn of(&self, entry: &str) -> f64 {
        self.0.lock().unwrap().get(entry).copied().unwrap_or(-1.0)
    }
}

impl Recorder for Book {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.entry(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.entry(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.entry(key))
    }
}

#[tokio::test(start_paused = true)]
async fn everything_that_becomes_of_a_job_is_counted() {
    let book = Book::default();
    let _recorded = set_default_local_recorder(&book);
    let post = Post::new();
    for (to, id) in [("done", "a"), ("done", "a"), ("retry", "b"), ("snooze", "c"), ("dead", "d")] {
        post.queue().add(&MAIL, &mail(to)).job_id(id).await.unwrap();
    }
    post.queue().add(&MAIL, &mail("other")).job_id("a").await.unwrap_err();
    let handler = async |runs: Runs, job: Job<Mail>| -> Result<(), JobError> {
        runs.next();
        match job.data.to.as_str() {
            "retry" => Err(JobError::retry_after("busy", secs(3600))),
            "snooze" => Err(JobError::snooze(secs(3600))),
            "dead" => Err(JobError::dead("no")),
            _ => Ok(()),
        }
    };
    let worker = post.queue().worker(&MAIL, Runs::default(), handler).concurrency(4);
    post.store.fail(&[Fault::Before]);
    let worker = worker.start().await.unwrap();
    while post.figures().await != [0, 2, 0, 1] {
        tokio::time::sleep(secs(1)).await;
    }
    worker.stop().await;
    for (entry, count) in [
        ("hapax_jobs_added_total queue=mail answer=new", 4.0),
        ("hapax_jobs_added_total queue=mail answer=duplicate", 1.0),
        ("hapax_jobs_added_total queue=mail answer=refused", 1.0),
        ("hapax_jobs_taken_total queue=mail", 4.0),
        ("hapax_jobs_ended_total queue=mail end=done", 1.0),
        ("hapax_jobs_ended_total queue=mail end=retried", 1.0),
        ("hapax_jobs_ended_total queue=mail end=snoozed", 1.0),
        ("hapax_jobs_ended_total queue=mail end=dead", 1.0),
        ("hapax_jobs_dead_total queue=mail reason=refused", 1.0),
        ("hapax_job_seconds queue=mail", 4.0),
        ("hapax_jobs_in_flight queue=mail", 0.0),
        ("hapax_queue_errors_total queue=mail op=step", 1.0),
    ] {
        assert!((book.of(entry) - count).abs() < 0.1, "{entry}: {}", book.of(entry));
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_publishes_what_the_store_knows_until_it_is_dropped() {
    let book = Book::default();
    let _recorded = set_default_local_recorder(&book);
    let post = Post::new();
    post.queue().add(&MAIL, &mail("ada")).await.unwrap();
    assert!(post.queue().watch([""], secs(5)).is_err());
    let watch = post.queue().watch(["mail"], secs(5)).unwrap();
    tokio::time::sleep(secs(1)).await;
    let ready = || book.of("hapax_queue_jobs queue=mail group= state=ready");
    assert!((ready() - 1.0).abs() < 0.1, "{}", ready());
    post.queue().worker(&MAIL, Runs::default(), done).run_once().await.unwrap();
    tokio::time::sleep(secs(6)).await;
    // The group has a name by now: what is there no more has no jobs.
    assert!(ready().abs() < 0.1, "{}", ready());
    let named = || book.of("hapax_queue_jobs queue=mail group=main state=ready");
    assert!(named().abs() < 0.1, "{}", named());
    drop(watch);
    post.queue().add(&MAIL, &mail("bob")).await.unwrap();
    tokio::time::sleep(secs(20)).await;
    assert!(named().abs() < 0.1, "{}", named());
    // All queues of the namespace where none is named.
    let _watch = post.queue().watch(std::iter::empty::<&str>(), secs(5)).unwrap();
    tokio::time::sleep(secs(1)).await;
    assert!((named() - 1.0).abs() < 0.1, "{}", named());
}
