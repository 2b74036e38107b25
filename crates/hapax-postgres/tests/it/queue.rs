//! Queues on many connections, connections that die, and jobs within a caller's transaction.
#![expect(clippy::indexing_slicing, reason = "tests")]

use crate::support::{Place, open};
use hapax_core::{
    Fingerprint, Key, Namespace, Span,
    doctor::Examination,
    idempotency::{Completed, IdempotencyStore, Write},
    queue::{
        Added, Consumer, Due, End, Finish, Group, Limits, NewJob, OnConflict, Priority, QueueId, QueueName,
        QueueStore, Step, Stepped, Uid, Wait,
    },
};
use hapax_postgres::PostgresStore;
use hapax_testkit::postgres::Pgbouncer;
use sqlx::Connection as _;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

crate::list!("queue", &[hapax_testkit::postgres::PGBOUNCER];
    no_job_is_handed_out_twice_over_many_connections,
    a_killed_session_leaves_no_half_step,
    workers_do_not_wait_for_a_step_that_does_not_end,
    who_waits_waits_until_there_is_a_job,
    a_worker_that_listens_is_called,
    a_worker_behind_a_pooler_is_called_past_it,
    a_job_commits_with_the_callers_rows,
    other_languages_can_add,
    a_fence_grows_when_the_clock_is_set_back,
    a_role_with_the_tables_can_use_queues,
    books_that_do_not_add_up_are_found,
);

const LEASE: Duration = Duration::from_mins(1);

fn span(duration: Duration) -> Span {
    Span::new(duration).unwrap()
}

pub(crate) fn jobs() -> QueueId {
    QueueId::new(&Namespace::default(), &QueueName::new("jobs").unwrap())
}

fn job(n: usize) -> NewJob {
    NewJob {
        uid: Uid::new(*b"producer-1", u64::try_from(n).unwrap()),
        job_id: None,
        fingerprint: Fingerprint::of_bytes(&n.to_be_bytes()),
        payload: n.to_string().into(),
        due: Due::Now,
        priority: Priority::Normal,
        settings: "".into(),
        remember: span(Duration::from_hours(1)),
        on_conflict: OnConflict::Refuse,
    }
}

pub(crate) fn step(who: &str, want: usize) -> Step {
    Step {
        queue: jobs(),
        group: Group::main(),
        consumer: Consumer::new(who).unwrap(),
        finishes: Vec::new(),
        want,
        lease: span(LEASE),
        max_losses: 3,
    }
}

pub(crate) fn done(stepped: &Stepped) -> Vec<Finish> {
    let finish = |job: &hapax_core::queue::Taken| Finish {
        uid: job.uid,
        delivery: job.delivery,
        end: End::Done { result: None },
        key: None,
    };
    stepped.jobs.iter().map(finish).collect()
}

pub(crate) async fn adds(store: &PostgresStore, range: std::ops::Range<usize>) {
    let all: Vec<_> = range.map(job).collect();
    for batch in all.chunks(100) {
        let answers = store.add(&jobs(), batch).await.unwrap();
        assert!(answers.iter().all(|answer| matches!(answer, Added::New { .. })), "{answers:?}");
    }
}

/// Works until so many jobs are done; answers how often each was handed out.
async fn work(store: PostgresStore, who: String, left: Arc<AtomicUsize>) -> HashMap<Uid, usize> {
    let (mut seen, mut finishes) = (HashMap::new(), Vec::new());
    while left.load(Ordering::SeqCst) > 0 {
        let ended = finishes.len();
        let stepped = store.step(&Step { finishes, ..step(&who, 16) }).await.unwrap();
        assert!(stepped.finished.iter().all(|finished| finished.job == Write::Applied));
        left.fetch_sub(ended, Ordering::SeqCst);
        for job in &stepped.jobs {
            *seen.entry(job.uid).or_default() += 1;
        }
        finishes = done(&stepped);
    }
    seen
}

async fn no_job_is_handed_out_twice_over_many_connections() {
    let (place, count) = (Place::new(), 2_000);
    adds(&place.store().await, 0..count).await;
    let left = Arc::new(AtomicUsize::new(count));
    let mut workers = Vec::new();
    for n in 0..8 {
        // Each has connections of its own.
        let store = place.store().await;
        workers.push(tokio::spawn(work(store, format!("w{n}"), Arc::clone(&left))));
    }
    let mut seen: HashMap<Uid, usize> = HashMap::new();
    for worker in workers {
        worker.await.unwrap().into_iter().for_each(|(uid, times)| *seen.entry(uid).or_default() += times);
    }
    assert_eq!(seen.len(), count);
    assert!(seen.values().all(|times| *times == 1));
    let stats = place.store().await.stats(&jobs().namespace, None).await.unwrap().remove(0);
    let figures = (stats.added, stats.done, stats.ready, stats.running);
    assert_eq!(figures, (2_000, 2_000, 0, 0));
}

/// A session that is held up in the middle of its step, and then killed, has done nothing of it.
async fn a_killed_session_leaves_no_half_step() {
    let place = Place::new();
    let store = place.store().await;
    adds(&store, 0..3).await;
    let taken = store.step(&step("w", 2)).await.unwrap();
    assert_eq!(taken.jobs.len(), 2);
    // Somebody else has the record of the second job: the step ends the first, and waits there.
    let mut other = place.raw().await;
    let mut tx = other.begin().await.unwrap();
    let uid: String = taken.jobs[1].uid.to_string();
    place.run_on(&mut tx, &format!("UPDATE S.job SET priority = priority WHERE uid = '\\x{uid}'")).await;
    let finishes = done(&taken);
    let again = Step { finishes: finishes.clone(), ..step("w", 1) };
    let stepping = tokio::spawn({
        let (store, req) = (store.clone(), again.clone());
        async move { store.step(&req).await }
    });
    let kill = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
         WHERE wait_event_type = 'Lock' AND query LIKE '%\"{}\".queue_step%' AND pid <> pg_backend_pid()",
        place.schema
    );
    let deadline = Instant::now() + Duration::from_secs(10);
    while place.number(&kill).await == 0 && !stepping.is_finished() {
        assert!(Instant::now() < deadline, "the step never waited");
    }
    let error = stepping.await.unwrap().unwrap_err();
    assert_eq!(error.applied(), hapax_core::Applied::Unknown, "{error}");
    tx.rollback().await.unwrap();
    let ended = store.step(&again).await.unwrap();
    assert!(ended.finished.iter().all(|finished| finished.job == Write::Applied), "{ended:?}");
    assert_eq!(ended.jobs.len(), 1);
}

/// Rows that a step has locked are passed over.
async fn workers_do_not_wait_for_a_step_that_does_not_end() {
    let place = Place::new();
    let store = place.store().await;
    adds(&store, 0..4).await;
    store.subscribe(&jobs(), &Group::main()).await.unwrap();
    let mut other = place.raw().await;
    let mut tx = other.begin().await.unwrap();
    let none = "'{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'";
    place
        .run_on(
            &mut tx,
            &format!(
                "SELECT * FROM S.queue_step('default', 'jobs', 'main', 'slow', 2, 60000, 3, {none}, {none})"
            ),
        )
        .await;
    let taken = store.step(&step("w", 4)).await.unwrap();
    let payloads: Vec<_> = taken.jobs.iter().map(|job| job.payload.clone()).collect();
    assert_eq!(payloads, ["2", "3"]);
    let ended = store.step(&Step { finishes: done(&taken), ..step("w", 4) }).await.unwrap();
    assert!(ended.jobs.is_empty() && ended.finished.iter().all(|finished| finished.job == Write::Applied));
    tx.rollback().await.unwrap();
    assert_eq!(store.step(&step("w", 4)).await.unwrap().jobs.len(), 2);
}

async fn who_waits_waits_until_there_is_a_job() {
    let place = Place::new();
    let store = place.store().await;
    store.subscribe(&jobs(), &Group::main()).await.unwrap();
    let wait = |ms| Wait { queue: jobs(), group: Group::main(), limit: Duration::from_millis(ms) };
    let begun = Instant::now();
    store.wait(&wait(100)).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(100), "it returned after {:?}", begun.elapsed());
    adds(&store, 0..1).await;
    let long = wait(60_000);
    tokio::time::timeout(Duration::from_secs(20), store.wait(&long)).await.unwrap().unwrap();
    let taken = store.step(&step("w", 1)).await.unwrap();
    let begun = Instant::now();
    store.wait(&wait(100)).await.unwrap();
    assert!(
        begun.elapsed() >= Duration::from_millis(100),
        "{taken:?}: it returned after {:?}",
        begun.elapsed()
    );
}

async fn is_called(store: &PostgresStore, place: &Place) {
    store.subscribe(&jobs(), &Group::main()).await.unwrap();
    let wait = Wait { queue: jobs(), group: Group::main(), limit: Duration::from_secs(30) };
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.wait(&wait).await }
    });
    // It listens, and the server knows.
    let listens = "SELECT count(*) FROM S.queue_group WHERE listened_until > S.now_ms()";
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
    let deadline = Instant::now() + Duration::from_secs(10);
    while place.number(listens).await == 0 || place.number(sessions).await == 0 {
        assert!(Instant::now() < deadline, "nobody listens");
    }
    adds(&place.store().await, 0..1).await;
    tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap().unwrap().unwrap();
}

async fn a_worker_that_listens_is_called() {
    let place = Place::new();
    is_called(&place.with("&prepared=on").await, &place).await;
}

async fn a_worker_behind_a_pooler_is_called_past_it() {
    let place = Place::new();
    drop(place.store().await);
    let pooler = Pgbouncer::before(place.port(), 2);
    let direct = format!("postgres://postgres@127.0.0.1:{}/postgres", place.port());
    let url = format!("{}?schema={}&listen_url={direct}", pooler.url(), place.schema);
    is_called(&open(&url).await.unwrap(), &place).await;
}

async fn a_job_commits_with_the_callers_rows() {
    for more in ["", "&prepared=on"] {
        let place = Place::new();
        let store = place.with(more).await;
        place.run("CREATE TABLE S.orders (id int)").await;
        let mut conn = place.raw().await;
        let mut tx = conn.begin().await.unwrap();
        let answers = store.add_in(&mut tx, &jobs(), &[job(0)]).await.unwrap();
        assert!(matches!(answers[..], [Added::New { .. }]), "{answers:?}");
        tx.rollback().await.unwrap();
        assert!(store.step(&step("w", 1)).await.unwrap().jobs.is_empty());
        let mut tx = conn.begin().await.unwrap();
        place.run_on(&mut tx, "INSERT INTO S.orders VALUES (7)").await;
        let named = NewJob { job_id: Some(Key::new("id").unwrap()), ..job(0) };
        store.add_in(&mut tx, &jobs(), std::slice::from_ref(&named)).await.unwrap();
        assert!(store.step(&step("w", 1)).await.unwrap().jobs.is_empty());
        tx.commit().await.unwrap();
        assert_eq!(store.step(&step("w", 1)).await.unwrap().jobs.len(), 1);
        let again = NewJob { uid: job(1).uid, ..named };
        let mut tx = conn.begin().await.unwrap();
        let answers = store.add_in(&mut tx, &jobs(), &[again]).await.unwrap();
        assert!(matches!(answers[..], [Added::Duplicate { .. }]), "{answers:?}");
    }
}

async fn other_languages_can_add() {
    let place = Place::new();
    let store = place.store().await;
    let sql = "SELECT (said = 'new')::int::bigint FROM S.add('default', 'jobs', '\\x000102030405060708090a0b0c0d0e0f', \
               'order-7', 0, NULL, '{\"order\": 7}', 0, NULL, 1::smallint, '', 86400000, 0::smallint)";
    assert_eq!(place.number(sql).await, 1);
    assert_eq!(place.number(sql).await, 1);
    let stepped = store.step(&step("w", 9)).await.unwrap();
    assert_eq!(stepped.jobs.len(), 1);
    assert_eq!(stepped.jobs[0].payload, "{\"order\": 7}");
    assert_eq!(stepped.jobs[0].job_id.as_ref().map(Key::as_str), Some("order-7"));
}

async fn a_fence_grows_when_the_clock_is_set_back() {
    let place = Place::new();
    let store = place.store().await;
    adds(&store, 0..3).await;
    let first = store.step(&step("w", 1)).await.unwrap();
    assert!(first.jobs[0].fence >= u64::try_from(first.now.as_millis()).unwrap() * 1000);
    place
        .run(&format!(
            "CREATE OR REPLACE FUNCTION S.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT {}::bigint'",
            first.now.as_millis() - 2
        ))
        .await;
    place.run("UPDATE S.job_copy SET due = due - 10000").await;
    let second = store.step(&step("v", 1)).await.unwrap();
    let third = store.step(&step("w", 1)).await.unwrap();
    assert!(first.jobs[0].fence < second.jobs[0].fence, "{first:?}, {second:?}");
    assert!(second.jobs[0].fence < third.jobs[0].fence, "{second:?}, {third:?}");
}

async fn a_role_with_the_tables_can_use_queues() {
    let place = Place::new();
    drop(place.store().await);
    let schema = &place.schema;
    let role = place
        .role(&format!(
            "GRANT USAGE ON SCHEMA {schema} TO $role; GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO $role"
        ))
        .await;
    let store = open(&place.url(&role, "")).await.unwrap();
    adds(&store, 0..1).await;
    let limits =
        Limits { concurrency: Some(1), rate: Some((1, span(LEASE))), max_len: Some(5), ..Limits::default() };
    store.set_limits(&jobs(), &limits).await.unwrap();
    let taken = store.step(&step("w", 1)).await.unwrap();
    let req = crate::support::reserve("k");
    assert!(crate::support::is_yours(&store.reserve(&req).await.unwrap()));
    let mut finishes = done(&taken);
    finishes[0].key = Some(Box::new(crate::support::complete(&req)));
    let ended = store.step(&Step { finishes, ..step("w", 1) }).await.unwrap();
    assert_eq!(ended.finished[0].key, Some(Completed::Stored));
    assert_eq!(store.purge(&jobs()).await.unwrap(), 0);
}

async fn books_that_do_not_add_up_are_found() {
    let place = Place::new();
    let store = place.store().await;
    let all: Vec<_> = ["a", "b", "c", "d"]
        .iter()
        .zip(0..)
        .map(|(id, n)| NewJob { job_id: Key::new(id).ok(), ..job(n) })
        .collect();
    store.add(&jobs(), &all).await.unwrap();
    let found = async || {
        let mut found = Examination::default();
        store.books(None).await.unwrap().judge(&mut found);
        found.findings.into_iter().map(|finding| (finding.check, finding.reason)).collect::<Vec<_>>()
    };
    let says = |found: &[(&str, String)], check: &str, word: &str| {
        assert!(found.iter().any(|(c, reason)| *c == check && reason.contains(word)), "no {word}: {found:?}");
    };
    assert_eq!(found().await, []);
    // One after the other, so that each is seen by itself.
    place.run("UPDATE S.job SET payload = NULL WHERE job_id = 'a'").await;
    let seen = found().await;
    says(&seen, "queue_records", "1 jobs have a place in the queue and no body");
    assert_eq!(seen.len(), 1);
    place.run("DELETE FROM S.job_copy WHERE uid = (SELECT uid FROM S.job WHERE job_id = 'b')").await;
    let seen = found().await;
    says(&seen, "queue_records", "1 bodies of jobs have no place");
    says(&seen, "queue_books", "figures say 4 waiting, 0 running, 0 dead, and its records are 3 waiting");
    place.run("UPDATE S.queue_count SET waiting = 3 WHERE waiting = 4").await;
    says(&found().await, "queue_books", "of 4 jobs that were added, 3 are ready");
    place.run("UPDATE S.job SET alive = 0 WHERE job_id = 'b'").await;
    says(&found().await, "queue_records", "1 job ids belong to jobs that are gone");
    assert_eq!(store.step(&step("w", 4)).await.unwrap().jobs.len(), 3);
    place.run("UPDATE S.job_copy SET lease = lease - 3600000 WHERE state = 1").await;
    says(&found().await, "queue_workers", "3 jobs run with workers that have not been heard of");
}
