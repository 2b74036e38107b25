//! tower layers around handlers.

use super::{MAIL, Mail, Post, Runs, done, life::until, mail};
use crate::support::secs;
use hapax_core::queue::JobState;
use hapax_engine::queue::{
    Job, JobError, JobService, OnError,
    raw::{Outcome, RawJob},
};
use std::{
    sync::{Arc, Mutex},
    task::{Context, Poll},
};
use tower::{
    BoxError, Service, ServiceBuilder,
    layer::layer_fn,
    limit::{ConcurrencyLimitLayer, RateLimitLayer},
    load_shed::LoadShedLayer,
    timeout::TimeoutLayer,
    util::BoxService,
};

type Trace = Arc<Mutex<Vec<String>>>;

/// Writes down what goes through it.
fn tracing<S>(
    name: &'static str,
    trace: Trace,
) -> impl tower::Layer<S, Service = BoxService<RawJob, Outcome, BoxError>>
where
    S: Service<RawJob, Response = Outcome> + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    layer_fn(move |inner: S| {
        let trace = Arc::clone(&trace);
        let service = ServiceBuilder::new()
            .map_request(move |job: RawJob| {
                trace.lock().unwrap().push(format!("{name} {}", job.attempt()));
                job
            })
            .map_err(Into::into)
            .service(inner);
        BoxService::new(service)
    })
}

/// Never ready.
struct Busy;

impl Service<RawJob> for Busy {
    type Response = Outcome;
    type Error = BoxError;
    type Future = std::future::Ready<Result<Outcome, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Pending
    }

    fn call(&mut self, _: RawJob) -> Self::Future {
        std::future::ready(Err("it was never ready".into()))
    }
}

async fn slow(runs: Runs, _: Job<Mail>) -> Result<(), JobError> {
    runs.next();
    tokio::time::sleep(secs(20)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn layers_see_each_run_the_last_one_first() {
    let post = Post::new();
    post.queue().add(&MAIL, &mail("ada")).await.unwrap();
    let handler = async |(): (), job: Job<Mail>| match job.attempt() {
        1 => Err(JobError::retry("not yet")),
        _ => Ok(()),
    };
    let trace = Trace::default();
    let worker = post.queue().worker(&MAIL, (), handler);
    let worker =
        worker.layer(tracing("inner", Arc::clone(&trace))).layer(tracing("outer", Arc::clone(&trace)));
    let worker = worker.start().await.unwrap();
    until(async || post.stats().await.done == 1).await;
    worker.stop().await;
    assert_eq!(*trace.lock().unwrap(), ["outer 1", "inner 1", "outer 2", "inner 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_time_out_of_a_layer_is_a_failure_and_for_a_key_an_unknown_outcome() {
    let post = Post::new();
    post.queue().add(&MAIL, &mail("ada")).max_attempts(1).await.unwrap();
    let worker = || post.queue().worker(&MAIL, Runs::default(), slow).layer(TimeoutLayer::new(secs(5)));
    worker().run_once().await.unwrap();
    let dead = post.listed(JobState::Dead).await;
    assert!(dead[0].error.as_ref().unwrap().contains("timed out"), "{dead:?}");
    post.queue().add(&MAIL, &mail("bob")).await.unwrap();
    worker().idempotent(&post.idempotency(), OnError::Retry).run_once().await.unwrap();
    let reasons: Vec<_> =
        post.listed(JobState::Dead).await.iter().map(|job| job.reason.unwrap().as_str()).collect();
    assert_eq!(reasons, ["exhausted", "unknown"]);
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_a_layer_keeps_jobs_waiting_with_their_lease_renewed() {
    let post = Post::new();
    for to in ["a", "b", "c"] {
        post.queue().add(&MAIL, &mail(to)).await.unwrap();
    }
    let runs = Runs::default();
    let worker = post.queue().worker(&MAIL, runs.clone(), slow).concurrency(3).claim_idle(secs(30));
    let worker = worker.layer(ConcurrencyLimitLayer::new(1)).start().await.unwrap();
    tokio::time::sleep(secs(5)).await;
    assert_eq!((runs.count(), post.figures().await), (1, [0, 0, 3, 0]));
    until(async || post.stats().await.done == 3).await;
    // The third waited for longer than a lease; it was put off, which is no attempt, and no loss.
    assert_eq!((runs.count(), post.stats().await.lost), (3, 0));
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_need_not_be_clone() {
    let post = Post::new();
    for to in ["a", "b", "c"] {
        post.queue().add(&MAIL, &mail(to)).await.unwrap();
    }
    let worker = post.queue().worker(&MAIL, Runs::default(), done).concurrency(3);
    let worker = worker.layer(RateLimitLayer::new(1, secs(10))).start().await.unwrap();
    tokio::time::sleep(secs(15)).await;
    assert_eq!(post.stats().await.done, 2);
    until(async || post.stats().await.done == 3).await;
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_never_ready_holds_no_job_for_ever() {
    let post = Post::new();
    post.queue().add(&MAIL, &mail("ada")).await.unwrap();
    let worker = post.queue().worker(&MAIL, Runs::default(), done).claim_idle(secs(30)).drain(secs(5));
    let worker = worker.layer(layer_fn(|_: JobService| Busy)).start().await.unwrap();
    tokio::time::sleep(secs(25)).await;
    assert_eq!(post.figures().await, [0, 0, 1, 0]);
    until(async || post.figures().await == [0, 1, 0, 0]).await;
    let job = post.listed(JobState::Delayed).await.remove(0);
    assert_eq!((job.counts.attempts, job.counts.snoozes, job.counts.losses), (0, 1, 0));
    // One that waits when its worker stops is given back.
    until(async || post.figures().await == [0, 0, 1, 0]).await;
    let ran = worker.stop().await;
    assert_eq!((ran.given_back, post.figures().await), (1, [1, 0, 0, 0]));
}

#[tokio::test(start_paused = true)]
async fn a_layer_that_refuses_a_job_costs_no_attempt() {
    let post = Post::new();
    post.queue().add(&MAIL, &mail("ada")).await.unwrap();
    let layers = ServiceBuilder::new().layer(LoadShedLayer::new()).layer(layer_fn(|_: JobService| Busy));
    let ran = post.queue().worker(&MAIL, Runs::default(), done).layer(layers).run_once().await.unwrap();
    let job = post.listed(JobState::Delayed).await.remove(0);
    assert_eq!((ran.snoozed, job.counts.attempts), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_job_waits_for_no_layer() {
    let post = Post::new();
    let id = post.queue().add(&MAIL, &mail("ada")).await.unwrap().id().to_owned();
    let worker = post.queue().worker(&MAIL, Runs::default(), done).claim_idle(secs(300));
    let worker = worker.layer(layer_fn(|_: JobService| Busy)).start().await.unwrap();
    until(async || post.figures().await == [0, 0, 1, 0]).await;
    let job = hapax_core::queue::JobRef::Uid(id.parse().unwrap());
    hapax_core::queue::QueueStore::cancel(&*post.store, post.raw().id(), &job).await.unwrap();
    until(async || post.stats().await.cancelled == 1).await;
    worker.stop().await;
}
