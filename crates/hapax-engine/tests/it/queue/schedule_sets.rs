//! A program declares its schedules.

use super::{MAIL, Post, mail};
use crate::support::secs;
use hapax_core::queue::Put;
use hapax_engine::queue::{Declared, ScheduleSet};

fn set(post: &Post, revision: u64, names: &[&str]) -> ScheduleSet {
    let queue = post.queue();
    let one = |name: &&str| queue.schedule(&MAIL, name, "0 * * * *", &mail("ada"));
    names.iter().map(one).fold(queue.schedules("app").revision(revision), ScheduleSet::put)
}

async fn names(post: &Post) -> String {
    let listed = post.queue().list_schedules().await.unwrap();
    listed.iter().map(|info| format!("{}@{}", info.name, info.revision)).collect::<Vec<_>>().join(" ")
}

#[tokio::test(start_paused = true)]
async fn what_a_set_no_longer_has_is_removed() {
    let post = Post::new();
    let first = set(&post, 1, &["a", "b"]).declare().await.unwrap();
    assert_eq!((first.put, first.removed), (vec!["a".to_owned(), "b".to_owned()], vec![]));
    let second = set(&post, 1, &["b", "c"]).declare().await.unwrap();
    assert_eq!((second.put, second.removed), (vec!["b".to_owned(), "c".to_owned()], vec!["a".to_owned()]));
    assert_eq!(names(&post).await, "b@1 c@1");
    // What others have put stays.
    assert_eq!(post.queue().schedule(&MAIL, "hand", "@daily", &mail("ada")).await.unwrap(), Put::Stored);
    set(&post, 2, &[]).declare().await.unwrap();
    assert_eq!(names(&post).await, "hand@0");
}

#[tokio::test(start_paused = true)]
async fn the_newest_revision_of_a_set_wins() {
    let post = Post::new();
    set(&post, 2, &["a", "b"]).declare().await.unwrap();
    let older = set(&post, 1, &["a", "old"]).declare().await.unwrap();
    let refused = vec!["a".to_owned(), "old".to_owned()];
    assert_eq!((older.put, older.refused, older.removed), (vec![], refused, vec![]));
    assert_eq!(names(&post).await, "a@2 b@2");
    set(&post, 3, &["b"]).declare().await.unwrap();
    assert_eq!(names(&post).await, "b@3");
}

#[tokio::test(start_paused = true)]
async fn an_older_revision_that_comes_in_between_leaves_nothing_behind() {
    let post = Post::new();
    set(&post, 1, &["a", "old"]).declare().await.unwrap();
    // The newer one has put its schedules, and has not looked yet for what to remove.
    post.queue()
        .schedules("app")
        .revision(2)
        .put(post.queue().schedule(&MAIL, "b", "@daily", &mail("ada")))
        .declare()
        .await
        .unwrap();
    assert_eq!(names(&post).await, "b@2");
}

#[tokio::test(start_paused = true)]
async fn names_of_others_are_refused() {
    let post = Post::new();
    post.queue().schedule(&MAIL, "a", "@daily", &mail("ada")).await.unwrap();
    let declared = set(&post, 1, &["a", "b"]).declare().await.unwrap();
    assert_eq!((declared.put, declared.refused), (vec!["b".to_owned()], vec!["a".to_owned()]));
    let by_hand = post.queue().schedule(&MAIL, "b", "@daily", &mail("ada")).await.unwrap();
    assert_eq!((by_hand, names(&post).await.as_str()), (Put::Refused, "a@0 b@1"));
}

#[tokio::test(start_paused = true)]
async fn a_start_misses_no_time() {
    let post = Post::new();
    set(&post, 1, &["a"]).declare().await.unwrap();
    let due = post.queue().list_schedules().await.unwrap()[0].next;
    tokio::time::sleep(secs(3 * 3600)).await;
    // Unchanged, and with another payload: it is still due when it was.
    set(&post, 1, &["a"]).declare().await.unwrap();
    assert_eq!(post.queue().list_schedules().await.unwrap()[0].next, due);
    let other = post.queue().schedule(&MAIL, "a", "0 * * * *", &mail("bob"));
    post.queue().schedules("app").revision(1).put(other).declare().await.unwrap();
    let kept = post.queue().list_schedules().await.unwrap();
    assert_eq!(kept[0].next, due);
    assert!(kept[0].rule.as_ref().unwrap().payload().ends_with(b"\"bob\"}"));
    // Another time is another schedule.
    let other = post.queue().schedule(&MAIL, "a", "30 * * * *", &mail("bob"));
    post.queue().schedules("app").revision(1).put(other).declare().await.unwrap();
    let moved = post.queue().list_schedules().await.unwrap()[0].next;
    assert_eq!(moved.since(due), secs(2 * 3600 + 1800));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_set_puts_nothing() {
    let post = Post::new();
    let twice = set(&post, 1, &["a", "b", "a"]).declare().await.unwrap_err();
    assert!(twice.to_string().contains("`a` stands twice"), "{twice}");
    let wrong = set(&post, 1, &["a"]).put(post.queue().schedule(&MAIL, "b", "* * *", &mail("ada")));
    assert!(wrong.declare().await.unwrap_err().to_string().contains("3 fields"));
    assert!(post.queue().schedules("").declare().await.is_err());
    assert_eq!(names(&post).await, "");
    assert_eq!(set(&post, 1, &[]).declare().await.unwrap(), Declared::default());
}
