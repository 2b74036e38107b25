//! A backlog of a million jobs: what it costs the server while it is there, and what is left of it.

use crate::{
    load::{report, scaled},
    queues::{are_new, done, ended, job, named, queue, queues, step, uid},
    support::{raw, run, span, until},
};
use hapax_core::queue::{NewJob, QueueStore, Step};
use hapax_testkit::redis::Redis;
use redis::aio::MultiplexedConnection;
use std::time::Duration;
use tokio::time::Instant;

crate::list!("many", &[];
    a_million_jobs_leave_little_behind,
);

/// The server counts scripts above it.
const SLOW_US: usize = 5_000;
/// What is kept of jobs that are over, however many those were: the last few thousand, and a bit for each id of an hour.
const REST: u64 = 4 * 1024 * 1024;

async fn used(probe: &mut MultiplexedConnection) -> u64 {
    let info: String = run(probe, "INFO memory").await;
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    line.trim().parse().unwrap()
}

async fn a_million_jobs_leave_little_behind() {
    let count = u64::try_from(scaled(5_000, 1_000_000)).unwrap();
    let server = Redis::start();
    let store = queues(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    let () = run(&mut probe, &format!("CONFIG SET slowlog-log-slower-than {SLOW_US} slowlog-max-len 100000"))
        .await;
    assert!(are_new(&store.add(&queue("q"), &[job(count)]).await.unwrap()));
    let before = used(&mut probe).await;
    let padded = |new: NewJob| NewJob { payload: vec![b'p'; 200].into(), ..new };
    let short = span(Duration::from_millis(1));
    let begun = Instant::now();
    for from in (0..count).step_by(250) {
        // Every other job has an id that is remembered for a moment.
        let jobs = (from..from + 250).map(|n| match n % 2 {
            0 => padded(job(n)),
            _ => NewJob { remember: short, ..padded(named(n, &format!("id-{n}"))) },
        });
        assert!(are_new(&store.add(&queue("q"), &jobs.collect::<Vec<_>>()).await.unwrap()));
    }
    let (added, peak) = (begun.elapsed(), used(&mut probe).await);
    let begun = Instant::now();
    let (mut finishes, mut seen) = (Vec::new(), 0);
    loop {
        let stepped = store.step(&Step { finishes, ..step(256) }).await.unwrap();
        assert!(ended(&stepped));
        if let Some(first) = stepped.jobs.first() {
            assert_eq!(first.uid, uid(if seen == 0 { count } else { seen - 1 }), "the order of coming");
        } else {
            break;
        }
        seen += u64::try_from(stepped.jobs.len()).unwrap();
        finishes = done(&stepped.jobs);
    }
    assert_eq!(seen, count + 1);
    let drained = begun.elapsed();
    until("what is over is forgotten", async || store.prune(10_000).await.unwrap() == 0).await;
    // A server makes its tables smaller step by step, as it finds the time.
    until("the memory is free", async || used(&mut probe).await <= before + REST).await;
    let after = used(&mut probe).await;
    let slow: u64 = run(&mut probe, "SLOWLOG LEN").await;
    let steps = count / 250 + count / 256;
    let rate = |took: Duration| f64::from(u32::try_from(count).unwrap()) / took.as_secs_f64();
    report(&format!(
        "{count} jobs: added at {:.0}/s, drained at {:.0}/s; memory {before} bytes before, {peak} at the most ({} a job), \
         {after} at the end; {slow} of some {steps} scripts took more than {SLOW_US} us",
        rate(added),
        rate(drained),
        (peak - before) / count,
    ));
    assert!((peak - before) / count < 1_000, "{peak} bytes for {count} jobs");
    // A busy machine stops the server now and then, and a short run shows no more than that; a script that grows with the
    // backlog is slow each time.
    assert!(
        count < 100_000 || slow <= 2 + steps / 100,
        "{slow} of {steps} scripts took more than {SLOW_US} us"
    );
}
