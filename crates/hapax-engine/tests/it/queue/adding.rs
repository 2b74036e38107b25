//! Adding jobs.

use super::{MAIL, Post, Runs, done, faulty::Fault, mail};
use hapax_core::{
    Coded,
    queue::{JobState, Limits, OnConflict, QueueStore},
};
use hapax_engine::queue::{Added, QueueDef, QueueError};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_job_id_makes_a_repeated_add_safe() {
    let post = Post::new();
    let queue = post.queue();
    let first = queue.add(&MAIL, &mail("ada")).job_id(["welcome", "ada"]).await.unwrap();
    assert!(matches!(first, Added::New { .. }));
    let again = queue.add(&MAIL, &mail("ada")).job_id(["welcome", "ada"]).await.unwrap();
    assert_eq!(again, Added::Duplicate { id: first.id().into(), state: JobState::Ready, result: None });
    let other = queue.add(&MAIL, &mail("bob")).job_id(["welcome", "ada"]).await.unwrap_err();
    assert_eq!(other.code(), "queue.job_id_reused");
    assert_eq!(post.figures().await, [1, 0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn an_add_whose_reply_is_lost_adds_one_job() {
    let post = Post::new();
    post.store.fail(&[Fault::LostReply, Fault::LostReply]);
    let added = post.queue().add(&MAIL, &mail("ada")).await.unwrap();
    assert!(matches!(added, Added::New { .. }));
    assert_eq!(post.figures().await, [1, 0, 0, 0]);
    // What certainly did not arrive is the caller's to repeat.
    post.store.fail(&[Fault::Before]);
    let error = post.queue().add(&MAIL, &mail("ada")).await.unwrap_err();
    assert_eq!(error.code(), "queue.store_failed");
    assert_eq!(post.figures().await, [1, 0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn what_the_schema_refuses_is_not_added() {
    let post = Post::new();
    let error = post.queue().add(&MAIL, &mail(" ")).await.unwrap_err();
    assert_eq!(error.code(), "queue.payload_invalid");
    let added = post.queue().add(&MAIL, &mail(" ada ")).job_id("a").await.unwrap();
    let again = post.queue().add(&MAIL, &mail("ada")).job_id("a").await.unwrap();
    assert_eq!((again.id(), again.is_duplicate()), (added.id(), true), "normalised before they are compared");
}

static NUMBERS: QueueDef<f64> = QueueDef::new("numbers");

#[tokio::test(start_paused = true)]
async fn what_has_no_form_is_not_added() {
    let post = Post::new();
    let error = post.queue().add(&NUMBERS, &f64::NAN).await.unwrap_err();
    assert_eq!(error.code(), "queue.payload_invalid");
}

#[tokio::test(start_paused = true)]
async fn bounds_of_payloads_and_options_are_told() {
    let post = Post::new();
    let raw = post.raw();
    assert!(raw.add(vec![b'x'; 1024 * 1024]).await.is_ok());
    let error = raw.add(vec![b'x'; 1024 * 1024 + 1]).await.unwrap_err();
    assert!(matches!(error, QueueError::PayloadTooLarge { size: 1_048_577, limit: 1_048_576, .. }));
    for (add, word) in [
        (raw.add("{}").delay(Duration::MAX), "delay"),
        (raw.add("{}").max_attempts(0), "attempt"),
        (raw.add("{}").job_id(""), "job id"),
        (raw.add("{}").unique_by("a"), "pointer"),
        (raw.add("{}").unique_by("/a").unique_for(Duration::from_secs(1)), "/a"),
        (raw.add("{}").unique_for(Duration::from_secs(1)).job_id("x"), "both"),
    ] {
        let error = add.await.unwrap_err();
        assert_eq!(error.code(), "queue.invalid");
        assert!(error.to_string().contains(word), "{error}");
    }
    assert_eq!(post.queue().raw("").unwrap_err().code(), "queue.invalid");
    assert_eq!(post.figures().await, [1, 0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn many_are_answered_each_for_itself() {
    let post = Post::new();
    let mails: Vec<_> = (0..600).map(|n| mail(if n == 7 { " " } else { "ada" })).collect();
    let mut n = 0;
    let answers = post.queue().add_many(&MAIL, &mails, |_, options| options).await.unwrap();
    for answer in answers {
        assert_eq!(answer.is_err(), n == 7);
        n += 1;
    }
    assert_eq!((n, post.figures().await), (600, [599, 0, 0, 0]));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_is_waited_for_where_that_is_asked() {
    let post = Post::new();
    let limits = Limits { max_len: Some(1), ..Limits::default() };
    post.store.set_limits(post.raw().id(), &limits).await.unwrap();
    post.queue().add(&MAIL, &mail("ada")).await.unwrap();
    let full = post.queue().add(&MAIL, &mail("bob")).wait_for_room(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(full.code(), "queue.full");
    let waiting = tokio::spawn(
        post.queue().add(&MAIL, &mail("bob")).wait_for_room(Duration::from_mins(1)).into_future(),
    );
    let ran = post.queue().worker(&MAIL, Runs::default(), done).run_once().await.unwrap();
    assert_eq!(ran.done, 1);
    assert!(matches!(waiting.await.unwrap(), Ok(Added::New { .. })));
}

#[tokio::test(start_paused = true)]
async fn what_is_unique_by_a_part_is_one_job_whatever_the_rest() {
    let post = Post::new();
    let raw = post.raw();
    let add = |payload: &'static str| raw.add(payload).unique_for(Duration::from_hours(1)).unique_by("/a");
    let first = add(r#"{"a":1,"b":1}"#).await.unwrap();
    let second = add(r#"{"a":1,"b":2}"#).await.unwrap();
    assert_eq!((second.is_duplicate(), second.id()), (true, first.id()));
    assert!(!add(r#"{"a":2,"b":1}"#).await.unwrap().is_duplicate());
    let refused = add(r#"{"a":1,"b":3}"#).on_conflict(OnConflict::Refuse).await.unwrap_err();
    assert_eq!(refused.code(), "queue.job_id_reused");
}
