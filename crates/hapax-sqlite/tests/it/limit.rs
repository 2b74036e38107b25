//! Rate limits: what they cost, what outlives what, and the largest ones.

use crate::support::{Restarted, file, folder, locked, open, open_on, raw};
use hapax_core::{
    ManualClock, Namespace, StoreErrorKind,
    limit::{Algorithm, Answer, Check, Decide, LimitKey, LimitStore, Quota},
};
use hapax_sqlite::{SqliteOptions, SqliteStore, Synchronous};
use std::{path::Path, sync::Arc, time::Duration};

const MINUTE: Duration = Duration::from_mins(1);
const DAY: Duration = Duration::from_hours(24);

fn check(key: &str, quota: Quota) -> Check {
    Check::new(LimitKey::new(key).unwrap(), quota)
}

fn request(checks: Vec<Check>) -> Decide {
    Decide { namespace: Namespace::default(), checks, dry_run: false }
}

async fn ask(store: &SqliteStore, check: Check) -> Answer {
    let decided = store.decide(&request(vec![check])).await.unwrap();
    assert!(!decided.best_effort);
    decided.answers.first().copied().unwrap()
}

fn rows(path: &Path) -> usize {
    let count = raw(path).query_row("SELECT count(*) FROM hapax_limit", [], |row| row.get::<_, i64>(0));
    usize::try_from(count.unwrap()).unwrap()
}

#[tokio::test]
async fn a_restart_of_the_machine_forgets_no_request() {
    let (folder, clock) = (folder(), ManualClock::new());
    let path = file(&folder);
    let store = open_on(&path, &clock).await;
    for algorithm in Algorithm::ALL {
        let check = check("k", Quota::new(algorithm, 1, MINUTE).unwrap());
        assert!(ask(&store, check).await.allowed, "{algorithm}");
    }
    drop(store);
    let store = Restarted::open(&path, &clock).await;
    for algorithm in Algorithm::ALL {
        let check = check("k", Quota::new(algorithm, 1, MINUTE).unwrap());
        let answer = ask(&store, check).await;
        assert!(!answer.allowed && answer.retry_after_ms > 0, "{algorithm}: {answer:?}");
    }
}

#[tokio::test]
async fn who_is_refused_and_who_only_asks_waits_for_no_writer() {
    let folder = folder();
    let path = file(&folder);
    let store = open(&path).await;
    let one = check("k", Quota::fixed_window(1, MINUTE));
    assert!(ask(&store, one.clone()).await.allowed);
    let commits = store.commits();
    let other = locked(&path);
    assert!(!ask(&store, one.clone()).await.allowed);
    let dry = Decide { dry_run: true, ..request(vec![check("l", Quota::token_bucket(3, MINUTE)), one]) };
    let answers = store.decide(&dry).await.unwrap().answers;
    assert_eq!(answers.iter().map(|answer| answer.allowed).collect::<Vec<_>>(), [true, false]);
    drop(other);
    assert_eq!((store.commits(), rows(&path)), (commits, 1));
}

#[tokio::test]
async fn requests_of_one_limit_share_commits() {
    let folder = folder();
    let path = file(&folder);
    let store = Arc::new(open(&path).await);
    let before = store.commits();
    let other = locked(&path);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let store = Arc::clone(&store);
        calls.spawn(async move { ask(&store, check("k", Quota::sliding_window(40, DAY))).await.allowed });
    }
    // All are under way before the first can be written.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    drop(other);
    let allowed = calls.join_all().await.into_iter().filter(|allowed| *allowed).count();
    assert_eq!(allowed, 40);
    assert!(store.commits() - before <= 4, "{} commits", store.commits() - before);
}

#[tokio::test]
async fn the_largest_limits_count_to_the_last_request() {
    let (folder, clock) = (folder(), ManualClock::new());
    let path = file(&folder);
    let store = open_on(&path, &clock).await;
    let most = 1 << 31;
    let quotas = [
        Quota::fixed_window(most, 400 * DAY),
        Quota::sliding_counter(most, Duration::from_secs(4194)),
        Quota::token_bucket(most, Duration::from_secs(4194)),
        Quota::token_bucket(104_000_000, DAY),
    ];
    for quota in quotas {
        let (key, limit) = (quota.to_string(), quota.limit());
        let rest = Check { cost: limit - 1, ..check(&key, quota) };
        let answer = ask(&store, rest).await;
        assert!(answer.allowed && answer.remaining == 1, "{quota}: {answer:?}");
        let last = ask(&store, check(&key, quota)).await;
        assert!(last.allowed && last.remaining == 0, "{quota}: {last:?}");
        let answer = ask(&store, check(&key, quota)).await;
        assert!(!answer.allowed && answer.retry_after_ms > 0, "{quota}: {answer:?}");
        clock.advance(Duration::from_millis(answer.retry_after_ms));
        assert!(ask(&store, check(&key, quota)).await.allowed, "{quota}");
    }
    clock.advance(800 * DAY);
    assert_eq!(LimitStore::prune(&store, 100).await.unwrap(), quotas.len());
    assert_eq!(rows(&path), 0);
}

#[tokio::test]
async fn a_window_remembers_thousands_of_requests_in_a_few_bytes_each() {
    let (folder, clock) = (folder(), ManualClock::new());
    let path = file(&folder);
    let options = SqliteOptions::new(&path).synchronous(Synchronous::Normal);
    let store = SqliteStore::open(options, Arc::new(clock.clone())).await.unwrap();
    let quota = Quota::sliding_window(2_000, MINUTE);
    for n in 0..2_000 {
        let answer = ask(&store, check("k", quota)).await;
        assert!(answer.allowed && answer.remaining == 1_999 - n, "{n}: {answer:?}");
        clock.advance(Duration::from_millis(1));
    }
    let answer = ask(&store, check("k", quota)).await;
    assert_eq!((answer.allowed, answer.retry_after_ms), (false, 58_000));
    let bytes: i64 =
        raw(&path).query_row("SELECT length(log) FROM hapax_limit", [], |row| row.get(0)).unwrap();
    assert!(bytes < 2_000 * 3, "{bytes}");
}

#[tokio::test]
async fn limits_that_nobody_prunes_stay_in_bounds() {
    let (folder, clock) = (folder(), ManualClock::new());
    let path = file(&folder);
    let options = SqliteOptions::new(&path).synchronous(Synchronous::Normal);
    let store = SqliteStore::open(options, Arc::new(clock.clone())).await.unwrap();
    let quota = Quota::token_bucket(1, Duration::from_secs(10));
    // The file is tidied from 1 MiB on: about 2,300 of these. At any time 160 are live.
    for n in 0..500 {
        let checks =
            (0..16).map(|m| check(&format!("{:03}-{m:02}-{}", (n * 7) % 500, "k".repeat(400)), quota));
        let _ = store.decide(&request(checks.collect())).await.unwrap();
        clock.advance(Duration::from_secs(1));
    }
    assert!(rows(&path) < 4_000, "{}", rows(&path));
}

#[tokio::test]
async fn what_hapax_did_not_write_is_an_error_and_harms_no_other() {
    let folder = folder();
    let path = file(&folder);
    let store = open(&path).await;
    let quota = Quota::sliding_window(9, DAY);
    for key in ["k", "l"] {
        assert!(ask(&store, check(key, quota)).await.allowed);
    }
    raw(&path).execute("UPDATE hapax_limit SET log = x'ffff' WHERE key = 'k'", []).unwrap();
    let error = store.decide(&request(vec![check("k", quota)])).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Internal);
    assert!(ask(&store, check("l", quota)).await.allowed);
    // A reset is the way out.
    store.reset(&Namespace::default(), &LimitKey::new("k").unwrap()).await.unwrap();
    assert!(ask(&store, check("k", quota)).await.allowed);
}
