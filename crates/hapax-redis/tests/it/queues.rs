//! What is particular to queues on Redis. What all stores of queues promise is in the conformance suite.

use crate::support::{at, open, raw, run, span, until};
use hapax_core::{
    Applied, Coded as _, Key, Namespace,
    doctor::{Examination, Severity},
    idempotency::{Receipt, Write},
    queue::{
        Added, Beat, Consumer, DeadReason, Due, End, Finish, GiveBack, Group, JobRef, JobState, Limits,
        ListJobs, NewJob, OnConflict, PerRate, Priority, Progress, QueueId, QueueName, QueueStore,
        ReadEvents, Redrive, Schedule, ScheduleName, Schedules, Step, Stepped, Taken, Uid, Wait,
    },
};
use hapax_redis::RedisQueues;
use hapax_testkit::{
    Fault, Proxy,
    redis::{Redis, SharedCluster},
};
use redis::aio::MultiplexedConnection;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

crate::list!("queues", &[];
    a_step_of_a_hundred_jobs_is_one_command,
    adds_of_many_callers_share_commands,
    a_worker_that_waits_asks_once,
    a_wait_ends_when_a_delayed_job_is_due,
    a_wait_hears_of_a_job_that_is_due_earlier,
    one_new_job_ends_one_wait,
    a_wait_that_is_dropped_takes_no_mark,
    a_full_server_refuses_new_jobs_and_takes_what_ends_old_ones,
    a_server_that_lost_its_memory_is_worked_on,
    many_jobs_that_are_due_at_once_are_no_trouble,
    what_is_over_leaves_little_behind,
    a_body_that_makes_no_sense_stops_nothing,
    a_cluster_has_all_keys_of_a_queue_in_one_slot,
    the_listed_commands_are_enough_for_queues,
    what_is_sent_twice_is_done_once,
    jobs_in_an_answer_that_was_lost_come_back_without_a_loss,
    a_waiter_outlives_a_server_that_restarts,
    books_that_do_not_add_up_are_found,
    rights_that_queues_need_are_told,
);

pub(crate) async fn queues(url: &str) -> RedisQueues {
    RedisQueues::of(&Arc::new(open(url).await))
}

pub(crate) fn queue(name: &str) -> QueueId {
    QueueId::new(&Namespace::default(), &QueueName::new(name).unwrap())
}

pub(crate) fn uid(n: u64) -> Uid {
    Uid::new([7; 10], n)
}

pub(crate) fn job(n: u64) -> NewJob {
    NewJob {
        uid: uid(n),
        job_id: None,
        fingerprint: hapax_core::Fingerprint::of_bytes(&n.to_be_bytes()),
        payload: n.to_string().into(),
        due: Due::Now,
        priority: Priority::Normal,
        settings: "s".into(),
        remember: span(Duration::from_hours(1)),
        on_conflict: OnConflict::Refuse,
    }
}

pub(crate) fn later(n: u64, ms: u64) -> NewJob {
    NewJob { due: Due::After(span(Duration::from_millis(ms))), ..job(n) }
}

pub(crate) fn named(n: u64, id: &str) -> NewJob {
    NewJob { job_id: Some(Key::new(id).unwrap()), ..job(n) }
}

pub(crate) fn step(want: usize) -> Step {
    Step {
        queue: queue("q"),
        group: Group::main(),
        consumer: Consumer::new("w").unwrap(),
        finishes: Vec::new(),
        want,
        lease: span(Duration::from_mins(1)),
        max_losses: 3,
    }
}

pub(crate) fn finish(job: &Taken, end: End) -> Finish {
    Finish { uid: job.uid, delivery: job.delivery, end, key: None }
}

pub(crate) fn done(jobs: &[Taken]) -> Vec<Finish> {
    jobs.iter().map(|job| finish(job, End::Done { result: None })).collect()
}

pub(crate) fn retry() -> End {
    End::Retry { after: span(Duration::from_mins(1)), error: "no".into() }
}

pub(crate) fn wait(limit: Duration) -> Wait {
    Wait { queue: queue("q"), group: Group::main(), limit }
}

pub(crate) fn are_new(answers: &[Added]) -> bool {
    answers.iter().all(|answer| matches!(answer, Added::New { .. }))
}

pub(crate) fn ended(stepped: &Stepped) -> bool {
    stepped.finished.iter().all(|finished| finished.job == Write::Applied)
}

/// How often a command came over the wire since the last count.
async fn calls(probe: &mut MultiplexedConnection, command: &str) -> u64 {
    let stats: String = run(probe, "INFO commandstats").await;
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

async fn a_step_of_a_hundred_jobs_is_one_command() {
    let server = Redis::start();
    let store = queues(&server.url()).await;
    let jobs: Vec<_> = (0..300).map(job).collect();
    assert!(are_new(&store.add(&queue("q"), &jobs).await.unwrap()));
    let first = store.step(&step(100)).await.unwrap();
    let mut probe = raw(&server.url()).await;
    let () = run(&mut probe, "CONFIG RESETSTAT").await;
    let second = store.step(&Step { finishes: done(&first.jobs), ..step(100) }).await.unwrap();
    assert_eq!((first.jobs.len(), second.jobs.len(), ended(&second)), (100, 100, true));
    assert_eq!(calls(&mut probe, "evalsha").await, 1);
    let all: String = run(&mut probe, "INFO commandstats").await;
    // However many jobs: each kind of change is one command within the script.
    let within: u64 = ["zadd", "zrem", "hset", "hdel", "hmget", "zmscore", "zrangebyscore"]
        .iter()
        .filter_map(|command| {
            all.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")))
        })
        .map(|line| line.split(',').next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert!(within < 20, "{all}");
}

async fn adds_of_many_callers_share_commands() {
    let server = Redis::start();
    let store = Arc::new(queues(&server.url()).await);
    assert!(are_new(&store.add(&queue("q"), &[job(0)]).await.unwrap()));
    let mut probe = raw(&server.url()).await;
    let () = run(&mut probe, "CONFIG RESETSTAT").await;
    let callers = (0..64_u64).map(|caller| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for n in 0..20 {
                let n = 1 + caller * 20 + n;
                let answers = store.add(&queue("q"), &[named(n, &format!("id {n}"))]).await.unwrap();
                assert!(are_new(&answers));
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    let sent = calls(&mut probe, "evalsha").await;
    assert!(sent < 1280 / 2, "{sent} commands for 1280 adds");
    assert_eq!(store.stats(&Namespace::default(), None).await.unwrap()[0].ready, 1281);
}

async fn a_worker_that_waits_asks_once() {
    let server = Redis::start();
    let store = queues(&server.url()).await;
    assert!(store.step(&step(1)).await.unwrap().jobs.is_empty());
    let mut probe = raw(&server.url()).await;
    let () = run(&mut probe, "CONFIG RESETSTAT").await;
    let start = Instant::now();
    store.wait(&wait(Duration::from_millis(800))).await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(795), "{:?}", start.elapsed());
    assert_eq!(calls(&mut probe, "bzpopmin").await, 1);
    assert!(calls(&mut probe, "evalsha").await + calls(&mut probe, "eval").await <= 3);
}

async fn a_wait_ends_when_a_delayed_job_is_due() {
    let server = Redis::start();
    let store = queues(&server.url()).await;
    assert!(store.step(&step(1)).await.unwrap().jobs.is_empty());
    assert!(are_new(&store.add(&queue("q"), &[later(1, 400)]).await.unwrap()));
    let start = Instant::now();
    store.wait(&wait(Duration::from_mins(1))).await.unwrap();
    assert!(
        (Duration::from_millis(300)..Duration::from_secs(4)).contains(&start.elapsed()),
        "{:?}",
        start.elapsed()
    );
    until("it is ready", async || store.step(&step(1)).await.unwrap().jobs.len() == 1).await;
}

/// How many clients wait for a mark.
pub(crate) async fn waiting(probe: &mut MultiplexedConnection) -> usize {
    let clients: String = run(probe, "CLIENT LIST").await;
    clients.lines().filter(|client| client.contains("cmd=bzpopmin") && client.contains("flags=b")).count()
}

async fn a_wait_hears_of_a_job_that_is_due_earlier() {
    let server = Redis::start();
    let (store, other) = (Arc::new(queues(&server.url()).await), queues(&server.url()).await);
    assert!(are_new(&store.add(&queue("q"), &[later(1, 3_600_000)]).await.unwrap()));
    assert!(store.step(&step(1)).await.unwrap().jobs.is_empty());
    let waits = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.wait(&wait(Duration::from_mins(1))).await }
    });
    let mut probe = raw(&server.url()).await;
    until("it waits", async || waiting(&mut probe).await == 1).await;
    let start = Instant::now();
    assert!(are_new(&other.add(&queue("q"), &[later(2, 300)]).await.unwrap()));
    waits.await.unwrap().unwrap();
    assert!(
        (Duration::from_millis(200)..Duration::from_secs(4)).contains(&start.elapsed()),
        "{:?}",
        start.elapsed()
    );
}

async fn one_new_job_ends_one_wait() {
    let server = Redis::start();
    let store = Arc::new(queues(&server.url()).await);
    assert!(store.step(&step(1)).await.unwrap().jobs.is_empty());
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    for n in 0..3 {
        let (store, tell) = (Arc::clone(&store), tell.clone());
        tokio::spawn(async move {
            store.wait(&wait(Duration::from_mins(1))).await.unwrap();
            let _ = tell.send(n);
        });
    }
    let mut probe = raw(&server.url()).await;
    until("all wait", async || waiting(&mut probe).await == 3).await;
    assert!(are_new(&store.add(&queue("q"), &[job(1), job(2)]).await.unwrap()));
    assert!(told.recv().await.is_some());
    // Whoever was woken takes one, sees that there may be more, and wakes the next.
    assert_eq!(store.step(&step(1)).await.unwrap().jobs.len(), 1);
    assert!(told.recv().await.is_some());
    assert_eq!(store.step(&step(1)).await.unwrap().jobs.len(), 1);
}

async fn a_wait_that_is_dropped_takes_no_mark() {
    let server = Redis::start();
    let (store, other) = (Arc::new(queues(&server.url()).await), Arc::new(queues(&server.url()).await));
    assert!(store.step(&step(1)).await.unwrap().jobs.is_empty());
    let begin = |store: &Arc<RedisQueues>| {
        let store = Arc::clone(store);
        tokio::spawn(async move { store.wait(&wait(Duration::from_mins(1))).await })
    };
    let mut probe = raw(&server.url()).await;
    let dropped = begin(&store);
    until("it waits", async || waiting(&mut probe).await == 1).await;
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    // The question is still there, and the next wait takes it up.
    let again = begin(&store);
    assert!(are_new(&other.add(&queue("q"), &[job(1)]).await.unwrap()));
    again.await.unwrap().unwrap();
    let taken = store.step(&step(1)).await.unwrap().jobs;
    let dropped = begin(&store);
    until("it waits", async || waiting(&mut probe).await == 1).await;
    dropped.abort();
    let theirs = begin(&other);
    until("both wait", async || waiting(&mut probe).await == 2).await;
    // The mark goes to the one who waits longer, and from there to the one who is there.
    let start = Instant::now();
    assert!(are_new(&store.add(&queue("q"), &[job(2)]).await.unwrap()));
    theirs.await.unwrap().unwrap();
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    assert!(ended(&store.step(&Step { finishes: done(&taken), ..step(1) }).await.unwrap()));
    let () = run(&mut probe, "CONFIG RESETSTAT").await;
    let connections = async |probe: &mut MultiplexedConnection| -> String {
        let stats: String = run(probe, "INFO stats").await;
        stats.lines().find(|line| line.starts_with("total_connections_received")).unwrap().to_owned()
    };
    let before = connections(&mut probe).await;
    for _ in 0..20 {
        let _ =
            tokio::time::timeout(Duration::from_millis(1), store.wait(&wait(Duration::from_mins(1)))).await;
    }
    assert_eq!(connections(&mut probe).await, before, "waiting again needs no new connection");
}

async fn a_full_server_refuses_new_jobs_and_takes_what_ends_old_ones() {
    for more in ["", "?commands=6.2"] {
        let server = Redis::with(&["--maxmemory", "100mb", "--maxmemory-policy", "noeviction"]);
        let store = queues(&format!("{}{more}", server.url())).await;
        let jobs: Vec<_> = (0..8).map(|n| named(n, &n.to_string())).collect();
        assert!(are_new(&store.add(&queue("q"), &jobs).await.unwrap()));
        let taken = store.step(&step(7)).await.unwrap().jobs;
        let mut probe = raw(&server.url()).await;
        let () = run(&mut probe, "CONFIG SET maxmemory 1mb").await;
        let error = store.add(&queue("q"), &[job(100)]).await.unwrap_err();
        assert_eq!((error.code(), error.applied()), ("store.full", Applied::No), "{error}");
        let [done, with_result, failed, put_off, dead, given_back, held] = &taken[..] else {
            panic!("{taken:?}")
        };
        let result = Receipt::new("test", &b"sent"[..]);
        let ends = [
            (done, End::Done { result: None }),
            (with_result, End::Done { result: Some((result, span(Duration::from_mins(1)))) }),
            (failed, retry()),
            (put_off, End::Snooze { after: span(Duration::from_mins(1)) }),
            (dead, End::Dead { reason: DeadReason::Refused, error: "no".into() }),
        ];
        let finishes = ends.into_iter().map(|(job, end)| finish(job, end)).collect();
        let beat = Beat {
            queue: queue("q"),
            group: Group::main(),
            consumer: Consumer::new("w").unwrap(),
            held: taken.iter().map(|job| (job.uid, job.delivery)).collect(),
            lease: span(Duration::from_mins(2)),
            since: None,
            progress: Vec::new(),
        };
        assert!(store.beat(&beat).await.unwrap().lost.is_empty());
        let stepped = store.step(&Step { finishes, ..step(1) }).await.unwrap();
        assert!(ended(&stepped) && stepped.jobs.len() == 1);
        let back = GiveBack {
            queue: queue("q"),
            group: Group::main(),
            consumer: Consumer::new("w").unwrap(),
            jobs: vec![(given_back.uid, given_back.delivery)],
            leave: false,
        };
        assert_eq!(store.give_back(&back).await.unwrap(), [Write::Applied]);
        assert!(store.step(&step(0)).await.unwrap().jobs.is_empty());
        assert_eq!(store.cancel(&queue("q"), &JobRef::Uid(held.uid)).await.unwrap().told, 1);
        let stats = &store.stats(&Namespace::default(), None).await.unwrap()[0];
        let figures = [stats.ready, stats.delayed, stats.running, stats.dead, stats.done];
        assert_eq!(figures, [1, 2, 2, 1, 2]);
    }
}

async fn a_server_that_lost_its_memory_is_worked_on() {
    let server = Redis::start();
    let (store, other) = (queues(&server.url()).await, queues(&server.url()).await);
    assert!(are_new(&store.add(&queue("q"), &[job(1), job(2)]).await.unwrap()));
    let before = store.step(&step(1)).await.unwrap().jobs;
    assert!(server.ask("FLUSHALL").starts_with("+OK"));
    let stepped = store.step(&Step { finishes: done(&before), ..step(1) }).await.unwrap();
    assert_eq!((stepped.finished[0].job, stepped.jobs.len()), (Write::Fenced, 0));
    assert!(are_new(&other.add(&queue("q"), &[job(3)]).await.unwrap()));
    store.wait(&wait(Duration::from_mins(1))).await.unwrap();
    let after = store.step(&step(1)).await.unwrap().jobs;
    assert_eq!(after[0].uid, uid(3));
    assert!(after[0].fence > before[0].fence && after[0].delivery > before[0].delivery);
    assert_eq!(other.stats(&Namespace::default(), None).await.unwrap().len(), 1);
}

async fn many_jobs_that_are_due_at_once_are_no_trouble() {
    const JOBS: u64 = 20_000;
    let server = Redis::start();
    let store = queues(&server.url()).await;
    for from in (0..JOBS).step_by(250) {
        let jobs: Vec<_> = (from..from + 250).map(|n| later(n, 1)).collect();
        assert!(are_new(&store.add(&queue("q"), &jobs).await.unwrap()));
    }
    until("the first is due", async || {
        store.stats(&Namespace::default(), None).await.unwrap()[0].ready == JOBS
    })
    .await;
    let (mut finishes, mut seen) = (Vec::new(), 0);
    loop {
        let stepped = store.step(&Step { finishes, ..step(256) }).await.unwrap();
        assert!(ended(&stepped));
        if stepped.jobs.is_empty() {
            break;
        }
        assert_eq!(stepped.jobs[0].uid, uid(seen), "the order in which they became due");
        seen += u64::try_from(stepped.jobs.len()).unwrap();
        finishes = done(&stepped.jobs);
    }
    assert_eq!(seen, JOBS);
}

async fn what_is_over_leaves_little_behind() {
    let server = Redis::start();
    let store = queues(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    let mut finishes = Vec::new();
    for from in (0..30_000).step_by(250) {
        let jobs: Vec<_> = (from..from + 250).map(job).collect();
        assert!(are_new(&store.add(&queue("q"), &jobs).await.unwrap()));
        let stepped = store.step(&Step { finishes, ..step(250) }).await.unwrap();
        finishes = done(&stepped.jobs);
    }
    assert!(ended(&store.step(&Step { finishes, ..step(0) }).await.unwrap()));
    let tag = "hapax{q7:defaultq}";
    for what in ["m", "e", "f"] {
        let held: u64 = run(&mut probe, &format!("HLEN {tag}:{what}")).await;
        assert!(held < 4096 + 256, "{held} in {what}");
    }
    let keys: Vec<String> = run(&mut probe, &format!("KEYS {tag}:*")).await;
    // Of workers and jobs nothing; of 30,000 ids four short strings.
    let lasting: Vec<_> = keys.iter().filter(|key| !key.contains("}:p")).collect();
    assert_eq!((lasting.len(), keys.len() - lasting.len()), (4, 4), "{keys:?}");
    for key in keys.iter().filter(|key| key.contains("}:p")) {
        let bytes: u64 = run(&mut probe, &format!("STRLEN {key}")).await;
        let ttl: i64 = run(&mut probe, &format!("TTL {key}")).await;
        assert!(bytes <= 1024 && ttl > 0, "{key}: {bytes} bytes for {ttl} s");
    }
}

async fn a_body_that_makes_no_sense_stops_nothing() {
    let server = Redis::start();
    let store = queues(&server.url()).await;
    assert!(are_new(&store.add(&queue("q"), &[job(1), job(2), job(3)]).await.unwrap()));
    let mut probe = raw(&server.url()).await;
    let place = "hapax{q7:defaultq}:0:b";
    let mut spoil = redis::cmd("HSET");
    spoil.arg(place).arg(uid(1).as_bytes()).arg(&[9_u8; 80][..]);
    let _: u64 = spoil.query_async(&mut probe).await.unwrap();
    let mut lose = redis::cmd("HDEL");
    lose.arg(place).arg(uid(2).as_bytes());
    let _: u64 = lose.query_async(&mut probe).await.unwrap();
    let taken = store.step(&step(3)).await.unwrap().jobs;
    assert_eq!(taken.iter().map(|job| job.uid).collect::<Vec<_>>(), [uid(3)]);
    assert!(ended(&store.step(&Step { finishes: done(&taken), ..step(3) }).await.unwrap()));
}

async fn a_cluster_has_all_keys_of_a_queue_in_one_slot() {
    let cluster = SharedCluster::join();
    let store = queues(&format!("{}?prefix=q{}", cluster.url(), std::process::id())).await;
    for name in ["a", "{b}", "}{", "ü:{x}"] {
        let req = Step { queue: queue(name), ..step(9) };
        assert!(are_new(&store.add(&queue(name), &[named(1, "x"), later(2, 1)]).await.unwrap()));
        store.wait(&Wait { queue: queue(name), ..wait(Duration::from_mins(1)) }).await.unwrap();
        let mut taken = store.step(&req).await.unwrap().jobs;
        until("the second is due", async || {
            taken.extend(store.step(&req).await.unwrap().jobs);
            taken.len() == 2
        })
        .await;
        store.wait(&Wait { queue: queue(name), ..wait(Duration::from_millis(50)) }).await.unwrap();
        assert!(ended(&store.step(&Step { finishes: done(&taken), ..req }).await.unwrap()));
    }
    assert_eq!(store.stats(&Namespace::default(), None).await.unwrap().len(), 4);
}

/// As the documentation of the crate lists them.
const COMMANDS: &str = "+get +set +del +time +pttl +evalsha +eval +scan +zadd +zscan +zremrangebyscore +pexpire +hget \
                        +hset +hdel +hlen +hmget +hexists +hincrby +hgetall +zrem +zrange +zrangebyscore +zrangebylex \
                        +zremrangebyrank +zmscore +zscore +zcard +zcount +bitfield +exists +unlink +rename +bzpopmin +hscan \
                        +rpush +ltrim +lrange +llen";

async fn the_listed_commands_are_enough_for_queues() {
    let server = Redis::start();
    let keys = "~hapax{}* ~hapax{q*";
    let user = format!("ACL SETUSER ada on >pw resetkeys {keys} resetchannels -@all {COMMANDS}");
    assert!(server.ask(&user).starts_with("+OK"));
    let store = queues(&at(&server, "ada:pw")).await;
    let q = queue("q");
    let limits = Limits {
        concurrency: Some(900),
        rate: Some((900, span(Duration::from_secs(1)))),
        max_len: Some(900),
        events: 100,
        per: PerRate::new("/a", 900, span(Duration::from_secs(1))).ok(),
    };
    store.set_limits(&q, &limits).await.unwrap();
    assert_eq!(store.limits(&q).await.unwrap(), limits);
    let jobs: Vec<_> = (0..20).map(|n| named(n, &n.to_string())).collect();
    assert!(are_new(&store.add(&q, &jobs).await.unwrap()));
    let _ = store.add(&q, &[named(99, "3"), job(3)]).await.unwrap();
    let taken = store.step(&step(10)).await.unwrap().jobs;
    let other = Group::new("other").unwrap();
    store.subscribe(&q, &other).await.unwrap();
    let ends =
        [End::Done { result: None }, retry(), End::Dead { reason: DeadReason::Refused, error: "no".into() }];
    let finishes = taken.iter().zip(ends).map(|(job, end)| finish(job, end)).collect();
    assert!(ended(&store.step(&Step { finishes, ..step(1) }).await.unwrap()));
    let consumer = Consumer::new("w").unwrap();
    let held = taken[3..].iter().map(|job| (job.uid, job.delivery)).collect::<Vec<_>>();
    let beat = Beat {
        queue: q.clone(),
        group: Group::main(),
        consumer: consumer.clone(),
        held: held[..3].to_vec(),
        lease: span(Duration::from_mins(1)),
        since: Some(hapax_core::Timestamp::from_millis(1)),
        progress: vec![(held[0].0, Progress::percent(50))],
    };
    store.beat(&beat).await.unwrap();
    let read = ReadEvents { queue: q.clone(), after: 0, limit: 100 };
    assert!(!store.events(&read).await.unwrap().events.is_empty());
    store.cancel(&q, &JobRef::Uid(taken[4].uid)).await.unwrap();
    store.cancel(&q, &JobRef::Uid(uid(15))).await.unwrap();
    store.reschedule(&q, &JobRef::Uid(uid(16)), Due::After(span(Duration::from_mins(1)))).await.unwrap();
    store.pause(&q, None, true).await.unwrap();
    store.wait(&wait(Duration::from_millis(20))).await.unwrap();
    store.pause(&q, None, false).await.unwrap();
    for state in JobState::LISTED {
        let req = ListJobs { queue: q.clone(), group: None, state, after: None, limit: 5 };
        assert!(!store.list(&req).await.unwrap().jobs.is_empty(), "{state:?}");
    }
    assert_eq!(store.find(&q, &JobRef::Uid(taken[5].uid)).await.unwrap()[0].consumer, Some(consumer.clone()));
    let back = GiveBack { queue: q.clone(), group: Group::main(), consumer, jobs: held, leave: true };
    store.give_back(&back).await.unwrap();
    let dead = taken[2].uid;
    let redrive = Redrive { queue: q.clone(), group: Some(Group::main()), uids: vec![dead], force: false };
    store.redrive(&redrive).await.unwrap();
    store.drop_dead(&q, None, &[dead]).await.unwrap();
    store.unsubscribe(&q, &other).await.unwrap();
    store.purge(&q).await.unwrap();
    store.prune(9).await.unwrap();
    let schedule = Schedule {
        name: ScheduleName::new("s").unwrap(),
        queue: q.name.clone(),
        owner: None,
        revision: 1,
        what: "w".into(),
        next: hapax_core::Timestamp::from_millis(5),
    };
    let namespace = Namespace::default();
    store.put_schedule(&namespace, &schedule).await.unwrap();
    let to = hapax_core::Timestamp::from_millis(9);
    assert!(store.advance_schedule(&namespace, &schedule.name, schedule.next, to).await.unwrap());
    assert_eq!(
        store.schedules(&Schedules { namespace: namespace.clone(), by: None }).await.unwrap().len(),
        1
    );
    assert!(store.remove_schedule(&namespace, &schedule.name, None).await.unwrap());
}

async fn what_is_sent_twice_is_done_once() {
    let server = Redis::start();
    let proxy = Proxy::before(server.port());
    let store = queues(&format!("redis://127.0.0.1:{}?timeout=5s", proxy.port())).await;
    // The server knows the scripts by then: else the first answer is that it does not.
    assert!(are_new(&store.add(&queue("q"), &[job(1)]).await.unwrap()));
    let first = store.step(&step(1)).await.unwrap().jobs;
    for fault in [Fault::CutAfter, Fault::Twice] {
        proxy.arm(fault);
        assert!(are_new(&store.add(&queue("q"), &[job(2), named(3, "id")]).await.unwrap()));
        proxy.arm(fault);
        let ends = Step { finishes: done(&first), ..step(0) };
        let stepped = store.step(&ends).await;
        // Where nobody knows, the worker says so again; it was done the first time.
        assert_eq!(stepped.is_err(), fault == Fault::CutAfter);
        assert_eq!(store.step(&ends).await.unwrap().finished[0].job, Write::Fenced);
    }
    assert_eq!(proxy.happened(), 4);
    let stats = &store.stats(&Namespace::default(), None).await.unwrap()[0];
    assert_eq!((stats.added, stats.ready, stats.done), (3, 2, 1));
}

async fn jobs_in_an_answer_that_was_lost_come_back_without_a_loss() {
    let server = Redis::start();
    let proxy = Proxy::before(server.port());
    let store = queues(&format!("redis://127.0.0.1:{}?timeout=5s", proxy.port())).await;
    assert!(are_new(&store.add(&queue("q"), &[job(1), job(2), job(3)]).await.unwrap()));
    let known = store.step(&step(1)).await.unwrap().jobs;
    proxy.arm(Fault::CutAfter);
    let error = store.step(&step(2)).await.unwrap_err();
    assert_eq!(error.applied(), Applied::Unknown, "the two are handed out, and nobody knows");
    let beat = |since| Beat {
        queue: queue("q"),
        group: Group::main(),
        consumer: Consumer::new("w").unwrap(),
        held: known.iter().map(|job| (job.uid, job.delivery)).collect(),
        lease: span(Duration::from_mins(1)),
        since,
        progress: Vec::new(),
    };
    let first = store.beat(&beat(None)).await.unwrap();
    let second = store.beat(&beat(Some(first.now.after(Duration::from_millis(1))))).await.unwrap();
    assert_eq!((first.freed, second.freed), (0, 2));
    let again = store.step(&step(5)).await.unwrap().jobs;
    assert_eq!(again.iter().map(|job| job.uid).collect::<Vec<_>>(), [uid(2), uid(3)]);
    assert!(again.iter().all(|job| (job.counts.losses, job.counts.given_back) == (0, 1)));
}

async fn a_waiter_outlives_a_server_that_restarts() {
    let mut server = Redis::start();
    let store = Arc::new(queues(&format!("{}?timeout=10s", server.url())).await);
    assert!(store.step(&step(1)).await.unwrap().jobs.is_empty());
    let waits = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.wait(&wait(Duration::from_mins(1))).await }
    });
    let mut probe = raw(&server.url()).await;
    until("it waits", async || waiting(&mut probe).await == 1).await;
    server.restart();
    // Whoever waited hears of it at once, and may wait again.
    assert_eq!(waits.await.unwrap().unwrap_err().code(), "store.unavailable");
    assert!(are_new(&store.add(&queue("q"), &[job(1)]).await.unwrap()));
    store.wait(&wait(Duration::from_mins(1))).await.unwrap();
    assert_eq!(store.step(&step(1)).await.unwrap().jobs.len(), 1);
}

/// What the doctor says of the queues of a store.
async fn found(store: &RedisQueues) -> Vec<(&'static str, Severity, String)> {
    let mut found = Examination::default();
    store.books(None).await.unwrap().judge(&mut found);
    let of = |finding: hapax_core::doctor::Finding| {
        (finding.check, finding.severity, format!("{}: {}", finding.reason, finding.remedy))
    };
    found.findings.into_iter().map(of).collect()
}

#[track_caller]
fn says(found: &[(&str, Severity, String)], check: &str, word: &str) {
    assert!(found.iter().any(|(c, _, said)| *c == check && said.contains(word)), "no {word}: {found:?}");
}

async fn books_that_do_not_add_up_are_found() {
    let server = Redis::start();
    let store = queues(&server.url()).await;
    let jobs = [named(1, "a"), named(2, "b"), named(3, "c"), named(4, "d")];
    assert!(are_new(&store.add(&queue("q"), &jobs).await.unwrap()));
    let mut probe = raw(&server.url()).await;
    let mut run = async |words: &[&[u8]]| {
        let mut cmd = redis::Cmd::new();
        for word in words {
            cmd.arg(*word);
        }
        let _: redis::Value = cmd.query_async(&mut probe).await.unwrap();
    };
    let key = |what: &str| format!("hapax{{q7:defaultq}}:{what}").into_bytes();
    assert_eq!(found(&store).await, []);
    // One after the other, so that each is seen by itself.
    run(&[b"HDEL", &key("0:b"), uid(1).as_bytes()]).await;
    let seen = found(&store).await;
    says(&seen, "queue_records", "1 jobs have a place in the queue and no body");
    says(&seen, "queue_records", "1 job ids belong to jobs that are gone");
    assert_eq!(seen.len(), 2);
    run(&[b"ZREMRANGEBYRANK", &key("0:q1"), b"1", b"1"]).await;
    let seen = found(&store).await;
    says(&seen, "queue_records", "1 bodies of jobs have no place");
    says(&seen, "queue_books", "of 4 jobs that were added, 3 are ready");
    let taken = store.step(&step(4)).await.unwrap();
    assert_eq!(taken.jobs.len(), 2);
    let late = (taken.now.as_millis() - 3_600_000).to_string();
    let last = taken.jobs.last().unwrap();
    let name = [&last.uid.as_bytes()[..], &last.delivery.to_be_bytes(), b"w", &[0xFF; 40]].concat();
    run(&[b"ZADD", &key("0:r"), b"XX", late.as_bytes(), &name]).await;
    says(&found(&store).await, "queue_workers", "1 jobs run with workers that have not been heard of");
    says(&found(&store).await, "queue_workers", "one with `w`");
}

async fn rights_that_queues_need_are_told() {
    let server = Redis::start();
    let user = format!("ACL SETUSER ada on >pw allkeys -@all {COMMANDS}");
    assert!(server.ask(&user).starts_with("+OK"));
    let store = queues(&at(&server, "ada:pw")).await;
    let before = server.ask("DBSIZE");
    assert_eq!(found(&store).await, []);
    // Looking left nothing behind.
    assert_eq!(server.ask("DBSIZE"), before);
    assert!(are_new(&store.add(&queue("q"), &[job(1)]).await.unwrap()));
    assert!(server.ask("ACL SETUSER ada -hset -bzpopmin -rename").starts_with("+OK"));
    let seen = found(&store).await;
    let told = "`HSET`, `RENAME`, `BZPOPMIN`: it cannot use queues, and none was looked at: ACL SETUSER <user> +hset +rename +bzpopmin";
    says(&seen, "queue_rights", told);
    assert_eq!(seen.iter().map(|(_, severity, _)| *severity).collect::<Vec<_>>(), [Severity::Error]);
    assert!(server.ask("ACL SETUSER ada -zrangebylex").starts_with("+OK"));
    assert_eq!(found(&store).await.first().map(|(_, severity, _)| *severity), Some(Severity::Info));
}
