//! A million jobs through one file: neither it nor the process grows with what is over.

use crate::{
    queue::{add, drain, jobs, producer, worker},
    support::{file, folder, rounds},
};
use hapax_core::{
    ManualClock,
    queue::{QueueStore, Step},
};
use hapax_sqlite::{SqliteOptions, SqliteStore, Synchronous};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::time::Instant;

/// So many times a backlog is added and worked off.
const ROUNDS: usize = 5;
/// What a process may keep of what is over: caches of pages, statements.
const REST_KIB: u64 = 48 * 1024;

/// The memory of this process that is in use.
fn resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

fn bytes(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

#[tokio::test]
async fn a_million_jobs_leave_the_file_as_large_as_the_first_of_them() {
    let each = rounds(1_000, 1_000_000 / ROUNDS);
    let (folder, clock) = (folder(), ManualClock::new());
    let path = file(&folder);
    let options = SqliteOptions::new(&path).synchronous(Synchronous::Normal);
    let store = SqliteStore::open(options, Arc::new(clock.clone())).await.unwrap();
    let mut uid = producer();
    let (mut sizes, mut memory) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        let mut left = each;
        while left > 0 {
            // In parts, so that the test itself holds no million of jobs.
            let part = left.min(10_000);
            add(&store, &jobs(part, &mut uid)).await;
            left -= part;
        }
        let step = Step { want: 256, ..worker("w", Duration::from_mins(1)) };
        assert_eq!(drain(&store, step).await.len(), each);
        // What ended without an id is remembered for ten minutes.
        clock.advance(Duration::from_mins(11));
        while store.prune(1_000).await.unwrap() > 0 {}
        sizes.push(bytes(&path));
        memory.push(resident_kib());
    }
    let took = begun.elapsed();
    println!(
        "{ROUNDS} times {each} jobs in {took:?}: the file had {sizes:?} bytes, the process {memory:?} KiB"
    );
    let (first, last) = (sizes.first().unwrap(), sizes.last().unwrap());
    assert!(*last <= first + first / 10, "the file grows: {sizes:?}");
    if let (Some(Some(first)), Some(Some(last))) = (memory.first(), memory.last()) {
        assert!(*last <= first + REST_KIB, "the process grows: {memory:?} KiB");
    }
}
