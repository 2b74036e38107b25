//! How many transactions it takes, and what replays cost.

use crate::support::{
    SHORT, complete, file, folder, is_yours, locked, open, open_with, reserve, settle, until, with_receipt,
};
use hapax_core::{
    StoreErrorKind,
    idempotency::{Completed, IdempotencyStore, Reserve},
};
use hapax_sqlite::{SqliteOptions, Synchronous};
use std::{path::Path, process::Command, sync::Arc};

/// Polls every task of a runtime with one thread as far as it goes.
async fn settle_down() {
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn callers_that_wait_share_a_commit() {
    let folder = folder();
    let path = file(&folder);
    let store = Arc::new(open(&path).await);
    let other = locked(&path);
    let calls: Vec<_> = (0..64)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.reserve(&reserve(&format!("k{n}"))).await })
        })
        .collect();
    settle_down().await;
    assert_eq!(store.commits(), 0);
    drop(other);
    for call in calls {
        assert!(is_yours(&call.await.unwrap().unwrap()));
    }
    assert_eq!(store.commits(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_make_few_commits() {
    let folder = folder();
    let store = Arc::new(open(&file(&folder)).await);
    let calls: Vec<_> = (0..64)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for m in 0..4 {
                    settle(&store, &format!("k{n}-{m}")).await;
                }
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    // 512 steps. One by one they would be as many.
    assert!(store.commits() < 256, "{} commits", store.commits());
}

#[tokio::test]
async fn a_batch_is_as_few_commits_as_its_size_allows() {
    let folder = folder();
    let store = open(&file(&folder)).await;
    let mut expected = 0;
    for (count, bytes, commits) in
        [(64, 100, 1), (128, 100, 1), (129, 100, 2), (40, 10 * 1024, 2), (3, 20 * 1024, 3)]
    {
        let reqs: Vec<Reserve> = (0..count).map(|n| reserve(&format!("{count}-{bytes}-{n}"))).collect();
        for answer in store.reserve_many(&reqs).await {
            assert!(is_yours(&answer.unwrap()));
        }
        let before = store.commits();
        let results: Vec<_> = reqs.iter().map(|req| with_receipt(req, vec![7; bytes])).collect();
        for answer in store.complete_many(&results).await {
            assert_eq!(answer.unwrap(), Completed::Stored);
        }
        assert_eq!(store.commits() - before, commits, "{count} receipts of {bytes} bytes");
        expected += commits;
    }
    assert!(store.commits() > expected);
}

#[tokio::test]
async fn a_key_that_stands_twice_in_a_batch_ends_a_commit() {
    let folder = folder();
    let store = open(&file(&folder)).await;
    let answers = store.reserve_many(&[reserve("a"), reserve("b"), reserve("a"), reserve("c")]).await;
    let yours: Vec<_> = answers.into_iter().map(|answer| is_yours(&answer.unwrap())).collect();
    assert_eq!(yours, [true, true, false, true]);
    assert_eq!(store.commits(), 2);
}

#[tokio::test]
async fn with_normal_a_lone_call_commits_within_its_first_poll() {
    let folder = folder();
    let path = file(&folder);
    let store = open_with(SqliteOptions::new(&path).synchronous(Synchronous::Normal)).await;
    let req = reserve("k");
    let mut call = std::pin::pin!(store.reserve(&req));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let answer = call.as_mut().poll(&mut context);
    assert!(matches!(answer, std::task::Poll::Ready(Ok(answer)) if is_yours(&answer)));
    assert_eq!(store.commits(), 1);
}

#[tokio::test]
async fn with_normal_a_call_waits_its_turn_when_another_process_writes() {
    let folder = folder();
    let path = file(&folder);
    let store = open_with(SqliteOptions::new(&path).synchronous(Synchronous::Normal)).await;
    let other = locked(&path);
    let store = Arc::new(store);
    let call = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.reserve(&reserve("k")).await }
    });
    settle_down().await;
    assert!(!call.is_finished());
    drop(other);
    assert!(is_yours(&call.await.unwrap().unwrap()));
}

/// The bytes of the files, read by another process: to open and close them here would drop SQLite's locks.
fn bytes(path: &Path) -> Vec<u8> {
    let log = format!("{}-wal", path.display());
    let out = Command::new("cat").arg(path).arg(log).output().unwrap();
    assert!(out.status.success());
    out.stdout
}

#[tokio::test]
async fn replays_write_nothing() {
    for synchronous in [Synchronous::Full, Synchronous::Normal] {
        let folder = folder();
        let path = file(&folder);
        let store = open_with(SqliteOptions::new(&path).synchronous(synchronous)).await;
        for key in ["a", "b"] {
            settle(&store, key).await;
        }
        let (before, commits) = (bytes(&path), store.commits());
        for _ in 0..20 {
            assert!(!is_yours(&store.reserve(&reserve("a")).await.unwrap()));
        }
        for answer in store.reserve_many(&[reserve("a"), reserve("b")]).await {
            assert!(!is_yours(&answer.unwrap()));
        }
        assert!(store.read(&reserve("a").name).await.unwrap().is_some());
        assert_eq!(store.commits(), commits);
        assert!(bytes(&path) == before, "the files have changed");
    }
}

#[tokio::test]
async fn replays_wait_for_no_writer() {
    for synchronous in [Synchronous::Full, Synchronous::Normal] {
        let folder = folder();
        let path = file(&folder);
        let options = SqliteOptions::new(&path).synchronous(synchronous);
        settle(&open_with(options.clone()).await, "k").await;
        let store = open_with(options.timeout(SHORT)).await;
        let other = locked(&path);
        assert!(!is_yours(&store.reserve(&reserve("k")).await.unwrap()));
        assert_eq!(store.reserve(&reserve("new")).await.unwrap_err().kind(), StoreErrorKind::Timeout);
        drop(other);
    }
}

#[tokio::test]
async fn the_log_is_written_back_before_it_grows_large() {
    let folder = folder();
    let path = file(&folder);
    let store = open_with(SqliteOptions::new(&path).synchronous(Synchronous::Normal)).await;
    let mut written = 0;
    while written < 128 * 1024 * 1024 {
        let req = reserve(&format!("k{written}"));
        assert!(is_yours(&store.reserve(&req).await.unwrap()));
        let _ = store.complete(&with_receipt(&req, vec![7; 1024 * 1024])).await.unwrap();
        written += 1024 * 1024;
    }
    let log = std::fs::metadata(format!("{}-wal", path.display())).unwrap().len();
    assert!(log < 64 * 1024 * 1024, "the log has {log} bytes");
    drop(store);
    // The last checkpoint may still be under way, and closes the files when it ends.
    let log = format!("{}-wal", path.display());
    until("the log is gone", async || !Path::new(&log).exists()).await;
}

#[tokio::test]
async fn a_short_log_stays_for_the_next_process() {
    let folder = folder();
    let path = file(&folder);
    let store = open(&path).await;
    let req = reserve("k");
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    let _ = store.complete(&complete(&req)).await.unwrap();
    drop(store);
    assert!(Path::new(&format!("{}-wal", path.display())).exists());
    assert!(open(&path).await.read(&req.name).await.unwrap().is_some());
}

/// Each process that opens the store first reads the log that the one before has left. Here they commit on the caller's
/// thread, so that each has closed its files before the next opens them.
#[tokio::test]
async fn the_log_that_short_processes_leave_to_each_other_stays_short() {
    let folder = folder();
    let path = file(&folder);
    let log = format!("{}-wal", path.display());
    let (mut longest, mut written_back) = (0, 0);
    for n in 0..100 {
        let store = open_with(SqliteOptions::new(&path).inline(true)).await;
        let req = reserve(&format!("k{n}"));
        assert!(is_yours(&store.reserve(&req).await.unwrap()));
        let _ = store.complete(&complete(&req)).await.unwrap();
        drop(store);
        match std::fs::metadata(&log) {
            Ok(log) => longest = longest.max(log.len()),
            Err(_) => written_back += 1,
        }
    }
    assert!(longest < 512 * 1024, "{longest} bytes");
    assert!((1..=20).contains(&written_back), "{written_back} of 100");
}
