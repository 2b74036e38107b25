//! Removing rows that are over, by hand and by the way.

use crate::support::{file, folder, is_yours, open_on, raw, reserve, span, with_receipt};
use hapax_core::{
    ManualClock,
    idempotency::{Complete, IdempotencyStore, Reserve},
};
use hapax_sqlite::{SqliteOptions, SqliteStore, Synchronous};
use std::{path::Path, sync::Arc, time::Duration};

const SHORT: Duration = Duration::from_secs(10);

fn rows(path: &Path) -> usize {
    let count = raw(path).query_row("SELECT count(*) FROM hapax_idempotency", [], |row| row.get::<_, i64>(0));
    usize::try_from(count.unwrap()).unwrap()
}

async fn add(store: &SqliteStore, prefix: &str, count: usize) {
    let reqs: Vec<Reserve> = (0..count).map(|n| reserve(&format!("{prefix}{n:05}"))).collect();
    for answer in store.reserve_many(&reqs).await {
        assert!(is_yours(&answer.unwrap()));
    }
    let results: Vec<_> =
        reqs.iter().map(|req| Complete { ttl: span(SHORT), ..with_receipt(req, vec![7; 200]) }).collect();
    for answer in store.complete_many(&results).await {
        let _ = answer.unwrap();
    }
}

#[tokio::test]
async fn pruning_goes_on_where_it_stopped() {
    let (folder, clock) = (folder(), ManualClock::new());
    let path = file(&folder);
    let store = open_on(&path, &clock).await;
    add(&store, "k", 2_500).await;
    clock.advance(SHORT);
    assert_eq!(store.prune(1_000).await.unwrap(), 1_000);
    // Another process goes on, beyond what came in before the place.
    drop(store);
    let store = open_on(&path, &clock).await;
    add(&store, "a-new", 10).await;
    assert_eq!(store.prune(1_000).await.unwrap(), 1_000);
    assert_eq!(store.prune(1_000).await.unwrap(), 500);
    assert_eq!(store.prune(1_000).await.unwrap(), 0);
    assert_eq!(rows(&path), 10);
    clock.advance(SHORT);
    assert_eq!(store.prune(1_000).await.unwrap(), 10);
}

#[tokio::test]
async fn a_store_that_nobody_prunes_stays_in_bounds() {
    let (folder, clock) = (folder(), ManualClock::new());
    let path = file(&folder);
    let options = SqliteOptions::new(&path).synchronous(Synchronous::Normal);
    let store = SqliteStore::open(options, Arc::new(clock.clone())).await.unwrap();
    // At any time 1,000 rows are live.
    for n in 0..300 {
        add(&store, &format!("{:03}-", (n * 7) % 300), 100).await;
        clock.advance(SHORT / 10);
    }
    let rows = rows(&path);
    assert!((1_000..8_000).contains(&rows), "{rows} rows of 30,000");
}

#[tokio::test]
async fn short_lived_processes_prune_too() {
    let (folder, clock) = (folder(), ManualClock::new());
    let path = file(&folder);
    add(&open_on(&path, &clock).await, "old", 6_000).await;
    clock.advance(SHORT);
    // 12,000 steps are some 190 looks at 128 rows.
    for n in 0..100 {
        add(&open_on(&path, &clock).await, &format!("new{n}-"), 60).await;
    }
    let rows = rows(&path);
    assert!(rows < 6_000 + 3_000, "{rows} rows");
}
