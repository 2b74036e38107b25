//! Queues on a Redis that hangs, is full, or holds what it should not.

use crate::{
    queues::{
        are_new, done, ended, finish, job, later, named, queue, queues, retry, step, uid, wait, waiting,
    },
    support::{raw, run, span, until},
};
use hapax_core::{
    Applied, Coded as _, Namespace,
    idempotency::Write,
    queue::{
        Beat, Consumer, DeadReason, End, GiveBack, Group, JobState, ListJobs, QueueStore, Redrive, Redriven,
        Step,
    },
};
use hapax_testkit::{Fault, Proxy, redis::Redis};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

crate::list!("queue_faults", &[];
    a_step_whose_answer_is_lost_is_not_sent_again_behind_the_workers_back,
    an_answer_that_comes_too_late_is_nobodys,
    a_server_that_stands_still_holds_up_nobody_for_longer_than_asked,
    a_full_server_hands_out_what_is_due_and_what_was_lost,
    workers_that_came_and_went_leave_nothing,
    one_bad_body_among_ten_thousand_stops_nothing,
    a_body_that_is_gone_counts_nowhere,
    scripts_that_are_forgotten_are_sent_again,
    a_wake_up_that_went_to_a_dead_worker_is_made_up_for,
);

fn beat(held: &[hapax_core::queue::Taken], since: Option<hapax_core::Timestamp>) -> Beat {
    Beat {
        queue: queue("q"),
        group: Group::main(),
        consumer: Consumer::new("w").unwrap(),
        held: held.iter().map(|job| (job.uid, job.delivery)).collect(),
        lease: span(Duration::from_mins(1)),
        since,
        progress: Vec::new(),
    }
}

/// Only who asked knows which of its jobs it has heard of: an answer that was made up for one that got lost would show
/// ended jobs as lost ones, and hide that others were handed out.
async fn a_step_whose_answer_is_lost_is_not_sent_again_behind_the_workers_back() {
    let server = Redis::start();
    let proxy = Proxy::before(server.port());
    let store = queues(&format!("redis://127.0.0.1:{}?timeout=5s", proxy.port())).await;
    assert!(are_new(&store.add(&queue("q"), &[job(1), job(2), job(3)]).await.unwrap()));
    let first = store.step(&step(1)).await.unwrap().jobs;
    for fault in [Fault::CutAfter, Fault::CutReply] {
        // On a connection that is there: else it is its greeting that is lost.
        assert_eq!(store.stats(&Namespace::default(), None).await.unwrap().len(), 1);
        proxy.arm(fault);
        let error = store.step(&Step { finishes: done(&first), ..step(1) }).await.unwrap_err();
        assert_eq!((error.code(), error.applied()), ("store.unavailable", Applied::Unknown), "{error}");
    }
    let stats = &store.stats(&Namespace::default(), None).await.unwrap()[0];
    assert_eq!((stats.done, stats.running), (1, 2), "each was done once");
}

async fn an_answer_that_comes_too_late_is_nobodys() {
    let server = Redis::start();
    let proxy = Proxy::before(server.port());
    let store = queues(&format!("redis://127.0.0.1:{}?timeout=300ms", proxy.port())).await;
    assert!(are_new(&store.add(&queue("q"), &[job(1), job(2)]).await.unwrap()));
    let known = store.step(&step(1)).await.unwrap().jobs;
    proxy.arm(Fault::Late);
    let before = Instant::now();
    let error = store.step(&step(1)).await.unwrap_err();
    assert_eq!((error.code(), error.applied()), ("store.timeout", Applied::Unknown), "{error}");
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    proxy.let_go();
    // The next answer is that to the next question, and the job comes back without a loss.
    let first = store.beat(&beat(&known, None)).await.unwrap();
    let second = store.beat(&beat(&known, Some(first.now.after(Duration::from_millis(1))))).await.unwrap();
    assert_eq!((first.lost.len(), second.freed), (0, 1));
    let again = store.step(&step(5)).await.unwrap().jobs;
    assert_eq!(again.iter().map(|job| (job.uid, job.counts.losses)).collect::<Vec<_>>(), [(uid(2), 0)]);
}

async fn a_server_that_stands_still_holds_up_nobody_for_longer_than_asked() {
    let server = Redis::start();
    let store = Arc::new(queues(&format!("{}?timeout=300ms", server.url())).await);
    assert!(are_new(&store.add(&queue("q"), &[job(1)]).await.unwrap()));
    let held = store.step(&step(2)).await.unwrap().jobs;
    let mut probe = raw(&server.url()).await;
    let waits = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.wait(&wait(Duration::from_millis(600))).await }
    });
    until("it waits", async || waiting(&mut probe).await == 1).await;
    server.signal("STOP");
    let before = Instant::now();
    let (asks, lives) = (step(1), beat(&held, None));
    let (waited, stepped, beaten) = tokio::join!(waits, store.step(&asks), store.beat(&lives));
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    let codes = [stepped.map(drop).unwrap_err().code(), beaten.map(drop).unwrap_err().code()];
    assert_eq!(codes, ["store.timeout"; 2]);
    // That the server says nothing is no news of a job.
    waited.unwrap().unwrap();
    server.signal("CONT");
    until("it is there again", async || store.add(&queue("q"), &[job(2)]).await.is_ok()).await;
    store.wait(&wait(Duration::from_mins(1))).await.unwrap();
    until("it is handed out", async || !store.step(&step(1)).await.unwrap().jobs.is_empty()).await;
}

async fn a_full_server_hands_out_what_is_due_and_what_was_lost() {
    for more in ["", "?commands=6.2"] {
        let server = Redis::with(&["--maxmemory", "100mb", "--maxmemory-policy", "noeviction"]);
        let store = queues(&format!("{}{more}", server.url())).await;
        assert!(are_new(
            &store.add(&queue("q"), &[named(1, "a"), named(2, "b"), later(3, 300)]).await.unwrap()
        ));
        let brief = Step { lease: span(Duration::from_millis(200)), ..step(2) };
        let lost = store.step(&brief).await.unwrap().jobs;
        assert_eq!(lost.len(), 2);
        let mut probe = raw(&server.url()).await;
        let () = run(&mut probe, "CONFIG SET maxmemory 1mb").await;
        assert_eq!(store.add(&queue("q"), &[job(100)]).await.unwrap_err().code(), "store.full");
        // The delayed one becomes due, and the two of the lost worker are taken over.
        let other = || Step { consumer: Consumer::new("v").unwrap(), ..step(8) };
        let mut taken = Vec::new();
        until("all are handed out", async || {
            taken.extend(store.step(&other()).await.unwrap().jobs);
            taken.len() == 3
        })
        .await;
        taken.sort_by_key(|job| job.uid);
        assert_eq!(taken.iter().map(|job| job.counts.losses).collect::<Vec<_>>(), [1, 1, 0]);
        // One fails and comes again, one dies and is redriven; both are done in the end.
        let brief_retry = End::Retry { after: span(Duration::from_millis(1)), error: "no".into() };
        let ends = [
            brief_retry,
            End::Dead { reason: DeadReason::Exhausted, error: "no".into() },
            End::Done { result: None },
        ];
        let finishes = taken.iter().zip(ends).map(|(job, end)| finish(job, end)).collect();
        assert!(ended(&store.step(&Step { finishes, want: 0, ..other() }).await.unwrap()));
        let dead = ListJobs { queue: queue("q"), group: None, state: JobState::Dead, after: None, limit: 9 };
        assert_eq!(store.list(&dead).await.unwrap().jobs[0].uid, uid(2));
        // What goes back into the queue was there before.
        let redrive = Redrive { queue: queue("q"), group: None, uids: vec![uid(2)], force: false };
        assert_eq!(store.redrive(&redrive).await.unwrap(), [Redriven::Ready]);
        let mut finishes = Vec::new();
        until("all are done", async || {
            let finishes_now = std::mem::take(&mut finishes);
            let stepped = store.step(&Step { finishes: finishes_now, ..other() }).await.unwrap();
            assert!(ended(&stepped));
            finishes = done(&stepped.jobs);
            store.stats(&Namespace::default(), None).await.unwrap()[0].done == 3
        })
        .await;
    }
}

async fn workers_that_came_and_went_leave_nothing() {
    let server = Redis::start();
    let store = queues(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    let consumer = |n: u64| Consumer::new(&format!("host-{n}")).unwrap();
    for n in 0..50 {
        let req = Step { consumer: consumer(n), lease: span(Duration::from_millis(50)), ..step(1) };
        assert!(are_new(&store.add(&queue("q"), &[job(n)]).await.unwrap()));
        let taken = store.step(&req).await.unwrap().jobs;
        assert_eq!(taken.len(), 1);
        // Some end their jobs and say good-bye, some end them and do not, some die in the middle.
        if n % 3 < 2 {
            assert!(ended(
                &store.step(&Step { finishes: done(&taken), want: 0, ..req.clone() }).await.unwrap()
            ));
        }
        if n % 3 == 0 {
            let (queue, group, consumer) = (req.queue.clone(), req.group.clone(), req.consumer.clone());
            store
                .give_back(&GiveBack { queue, group, consumer, jobs: Vec::new(), leave: true })
                .await
                .unwrap();
        }
    }
    let last = |finishes| Step { consumer: consumer(50), finishes, max_losses: 99, ..step(99) };
    let mut finishes = Vec::new();
    until("all are done", async || {
        let stepped = store.step(&last(std::mem::take(&mut finishes))).await.unwrap();
        assert!(ended(&stepped));
        finishes = done(&stepped.jobs);
        store.stats(&Namespace::default(), None).await.unwrap()[0].done == 50
    })
    .await;
    let keys: Vec<String> = run(&mut probe, "KEYS *").await;
    for key in &keys {
        let kind: String = run(&mut probe, &format!("TYPE {key}")).await;
        let fields = match kind.as_str() {
            "hash" => run::<Vec<Vec<u8>>>(&mut probe, &format!("HKEYS {key}")).await,
            "zset" => run::<Vec<Vec<u8>>>(&mut probe, &format!("ZRANGE {key} 0 -1")).await,
            _ => Vec::new(),
        };
        let left = fields.iter().filter(|field| field.windows(5).any(|part| part == b"host-")).count();
        assert!(left <= 1, "{left} of 51 workers are left in {key}");
    }
}

/// Where the bodies of the first group lie.
const BODIES: &str = "hapax{q7:defaultq}:0:b";

async fn one_bad_body_among_ten_thousand_stops_nothing() {
    const JOBS: u64 = 10_000;
    let server = Redis::start();
    let store = queues(&server.url()).await;
    for from in (0..JOBS).step_by(250) {
        let jobs: Vec<_> = (from..from + 250).map(job).collect();
        assert!(are_new(&store.add(&queue("q"), &jobs).await.unwrap()));
    }
    let mut probe = raw(&server.url()).await;
    for (n, bytes) in
        [(0_u64, &[][..]), (5_000, &[9; 80][..]), (5_001, &[1; 3][..]), (9_999, b"{}".as_slice())]
    {
        let _: u64 = redis::cmd("HSET")
            .arg(BODIES)
            .arg(uid(n).as_bytes())
            .arg(bytes)
            .query_async(&mut probe)
            .await
            .unwrap();
    }
    let (mut finishes, mut seen) = (Vec::new(), 0);
    // A batch of nothing but bad ones would be no end.
    until("all others are done", async || {
        let stepped =
            store.step(&Step { finishes: std::mem::take(&mut finishes), ..step(256) }).await.unwrap();
        assert!(ended(&stepped));
        seen += stepped.jobs.len();
        finishes = done(&stepped.jobs);
        seen == 9_996 && finishes.is_empty()
    })
    .await;
    let stats = &store.stats(&Namespace::default(), None).await.unwrap()[0];
    assert_eq!((stats.done, stats.ready), (JOBS - 4, 0));
}

async fn a_body_that_is_gone_counts_nowhere() {
    let server = Redis::start();
    let store = queues(&server.url()).await;
    assert!(are_new(&store.add(&queue("q"), &[job(1), job(2), job(3), job(4)]).await.unwrap()));
    let mut probe = raw(&server.url()).await;
    let taken = store.step(&step(2)).await.unwrap().jobs;
    // Of one that runs, and of one that waits.
    for n in [1, 3] {
        let gone: u64 =
            redis::cmd("HDEL").arg(BODIES).arg(uid(n).as_bytes()).query_async(&mut probe).await.unwrap();
        assert_eq!(gone, 1);
    }
    let finishes = vec![finish(&taken[0], retry()), finish(&taken[1], End::Done { result: None })];
    let stepped = store.step(&Step { finishes, ..step(9) }).await.unwrap();
    assert_eq!(stepped.finished[1].job, Write::Applied);
    assert_eq!(stepped.jobs.iter().map(|job| job.uid).collect::<Vec<_>>(), [uid(4)]);
    assert!(ended(&store.step(&Step { finishes: done(&stepped.jobs), ..step(9) }).await.unwrap()));
    // Nothing is handed out again and again, and whoever looks is not disturbed.
    for _ in 0..3 {
        assert!(store.step(&step(9)).await.unwrap().jobs.is_empty());
    }
    for state in JobState::LISTED {
        let req = ListJobs { queue: queue("q"), group: None, state, after: None, limit: 9 };
        let listed = store.list(&req).await.unwrap().jobs;
        assert!(listed.iter().all(|job| [1, 3].map(uid).contains(&job.uid)), "{state:?}: {listed:?}");
    }
}

async fn scripts_that_are_forgotten_are_sent_again() {
    let server = Redis::start();
    let store = queues(&server.url()).await;
    assert!(are_new(&store.add(&queue("q"), &[job(1)]).await.unwrap()));
    let mut probe = raw(&server.url()).await;
    let mut finishes = Vec::new();
    for n in 2..6 {
        let () = run(&mut probe, "SCRIPT FLUSH").await;
        let stepped = store.step(&Step { finishes: std::mem::take(&mut finishes), ..step(9) }).await.unwrap();
        assert!(ended(&stepped));
        assert_eq!(stepped.jobs.len(), 1);
        let () = run(&mut probe, "SCRIPT FLUSH").await;
        assert!(store.beat(&beat(&stepped.jobs, None)).await.unwrap().lost.is_empty());
        let () = run(&mut probe, "SCRIPT FLUSH").await;
        assert!(are_new(&store.add(&queue("q"), &[job(n)]).await.unwrap()));
        finishes = done(&stepped.jobs);
    }
}

async fn a_wake_up_that_went_to_a_dead_worker_is_made_up_for() {
    let server = Redis::start();
    let store = Arc::new(queues(&server.url()).await);
    assert!(store.step(&step(1)).await.unwrap().jobs.is_empty());
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..2 {
        let (store, tell) = (Arc::clone(&store), tell.clone());
        tokio::spawn(async move { tell.send(store.wait(&wait(Duration::from_mins(1))).await.is_ok()) });
    }
    let mut probe = raw(&server.url()).await;
    until("both wait", async || waiting(&mut probe).await == 2).await;
    let before = Instant::now();
    assert!(are_new(&store.add(&queue("q"), &[job(1)]).await.unwrap()));
    // The one who is woken takes no step; the other looks for itself, before a minute is over.
    assert_eq!((told.recv().await, told.recv().await), (Some(true), Some(true)));
    assert!(before.elapsed() < Duration::from_secs(15), "{:?}", before.elapsed());
    assert_eq!(store.step(&step(1)).await.unwrap().jobs.len(), 1);
}
