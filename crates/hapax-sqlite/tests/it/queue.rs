//! Queues in a file: many processes, processes that die, waking, and what becomes of the file.

use crate::{
    child::Process,
    support::{file, folder, open, open_on, raw, rounds, span, until},
};
use hapax_core::{
    Fingerprint, Key, ManualClock, Namespace,
    doctor::Examination,
    idempotency::Write,
    queue::{
        Added, Consumer, Due, End, Finish, Group, JobState, ListJobs, NewJob, OnConflict, Priority, QueueId,
        QueueName, QueueStats, QueueStore, Schedules, Step, Stepped, Taken, Uid, Wait,
    },
};
use hapax_sqlite::{SqliteOptions, SqliteStore, Synchronous};
use std::{
    collections::HashSet,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

/// Long enough that nothing is lost in a test that does not mean it.
const LEASE: Duration = Duration::from_mins(1);
const REMEMBER: Duration = Duration::from_hours(24);

pub(crate) fn queue() -> QueueId {
    QueueId::new(&Namespace::default(), &QueueName::new("mail").unwrap())
}

pub(crate) fn producer() -> impl FnMut() -> Uid {
    let (producer, mut count) = (Uid::producer().unwrap(), 0);
    move || {
        count += 1;
        Uid::new(producer, count)
    }
}

pub(crate) fn job(uid: Uid, id: Option<&str>) -> NewJob {
    NewJob {
        uid,
        job_id: id.map(|id| Key::new(id).unwrap()),
        fingerprint: Fingerprint::of_bytes(b"payload"),
        payload: vec![7; 200].into(),
        due: Due::Now,
        priority: Priority::Normal,
        settings: Vec::new().into(),
        remember: span(REMEMBER),
        on_conflict: OnConflict::Refuse,
    }
}

pub(crate) fn jobs(count: usize, mut uid: impl FnMut() -> Uid) -> Vec<NewJob> {
    (0..count).map(|_| job(uid(), None)).collect()
}

pub(crate) fn worker(name: &str, lease: Duration) -> Step {
    Step {
        queue: queue(),
        group: Group::main(),
        consumer: Consumer::start(name).unwrap(),
        finishes: Vec::new(),
        want: 8,
        lease: span(lease),
        max_losses: u32::MAX,
    }
}

fn done(taken: &Taken) -> Finish {
    Finish { uid: taken.uid, delivery: taken.delivery, end: End::Done { result: None }, key: None }
}

pub(crate) async fn add(store: &SqliteStore, jobs: &[NewJob]) {
    for part in jobs.chunks(256) {
        let added = store.add(&queue(), part).await.unwrap();
        assert!(added.iter().all(|added| matches!(added, Added::New { .. })));
    }
}

async fn stats(store: &SqliteStore) -> QueueStats {
    store.stats(&Namespace::default(), None).await.unwrap().pop().unwrap()
}

/// Takes and ends jobs until none is left; answers their ids in order.
pub(crate) async fn drain(store: &SqliteStore, mut step: Step) -> Vec<Uid> {
    let mut taken = Vec::new();
    loop {
        let Stepped { jobs, finished, .. } = store.step(&step).await.unwrap();
        assert!(finished.iter().all(|finished| finished.job == Write::Applied));
        if jobs.is_empty() {
            return taken;
        }
        taken.extend(jobs.iter().map(|job| job.uid));
        step.finishes = jobs.iter().map(done).collect();
    }
}

/// What a process of a worker does: says each job that it has ended.
pub(crate) async fn work(store: &SqliteStore, lease: Duration, say: impl Fn(&str)) {
    let mut step = worker("child", lease);
    loop {
        let stepped = store.step(&step).await.unwrap();
        for (finish, finished) in step.finishes.iter().zip(&stepped.finished) {
            if finished.job == Write::Applied {
                say(&finish.uid.to_string());
            }
        }
        step.finishes = stepped.jobs.iter().map(done).collect();
        if stepped.jobs.is_empty() {
            say("idle");
            let wait = Wait { queue: queue(), group: Group::main(), limit: Duration::from_secs(30) };
            store.wait(&wait).await.unwrap();
        }
    }
}

#[tokio::test]
async fn of_several_processes_none_ends_a_job_of_another() {
    let folder = folder();
    let path = file(&folder);
    let store = open(&path).await;
    let all = jobs(rounds(2_000, 20_000), producer());
    add(&store, &all).await;
    let mut workers: Vec<_> = (0..4).map(|_| Process::new("work", &path)).collect();
    workers.iter_mut().for_each(Process::begin);
    until("all jobs are done", async || stats(&store).await.done == u64::try_from(all.len()).unwrap()).await;
    let ended: Vec<_> = workers.into_iter().flat_map(Process::kill).filter(|said| said != "idle").collect();
    assert_eq!(ended.iter().collect::<HashSet<_>>().len(), ended.len(), "ended twice");
    let after = stats(&store).await;
    assert_eq!((after.ready, after.running, after.dead), (0, 0, 0));
}

#[tokio::test]
async fn every_accepted_job_ends_once_whoever_is_killed() {
    let folder = folder();
    let path = file(&folder);
    let store = open(&path).await;
    let mut uid = producer();
    let (mut ended, mut added) = (Vec::new(), 0);
    for round in 0..rounds(12, 100) {
        add(&store, &jobs(100, &mut uid)).await;
        added += 100;
        let mut process = Process::new("work briefly", &path);
        process.begin();
        // Each round dies at another place.
        ended.extend((0..=round % 25 * 3).filter_map(|_| process.hear()));
        ended.extend(process.kill());
    }
    let mut last = Process::new("work briefly", &path);
    last.begin();
    until("all jobs are done", async || stats(&store).await.done == added).await;
    ended.extend(last.kill());
    ended.retain(|said| said != "idle");
    assert_eq!(ended.iter().collect::<HashSet<_>>().len(), ended.len(), "ended twice");
    let after = stats(&store).await;
    assert_eq!((after.added, after.ready, after.delayed, after.running, after.dead), (added, 0, 0, 0, 0));
}

#[tokio::test]
async fn a_process_that_waits_is_woken_by_another() {
    let folder = folder();
    let path = file(&folder);
    let store = open(&path).await;
    let mut process = Process::new("work", &path);
    process.begin();
    let mut uid = producer();
    for _ in 0..5 {
        assert_eq!(process.hear().as_deref(), Some("idle"));
        let uid = uid();
        add(&store, &[job(uid, None)]).await;
        // Its wait has a limit of 30 s; the test one of less.
        let heard = tokio::task::spawn_blocking(move || (process.hear(), process));
        let (said, back) = tokio::time::timeout(Duration::from_secs(10), heard).await.unwrap().unwrap();
        assert_eq!(said, Some(uid.to_string()));
        process = back;
    }
}

#[tokio::test]
async fn who_waits_in_the_process_is_woken_by_what_it_waits_for() {
    let folder = folder();
    let store = Arc::new(open(&file(&folder)).await);
    let mut step = worker("one", LEASE);
    assert!(store.step(&step).await.unwrap().jobs.is_empty());
    let waits = |store: &Arc<SqliteStore>| {
        let store = Arc::clone(store);
        let wait = Wait { queue: queue(), group: Group::main(), limit: Duration::from_mins(1) };
        tokio::spawn(async move { tokio::time::timeout(Duration::from_secs(10), store.wait(&wait)).await })
    };
    let mut uid = producer();
    let waiting = waits(&store);
    add(&store, &[job(uid(), None)]).await;
    waiting.await.unwrap().unwrap().unwrap();
    // What is ready already ends it at once, what is paused does not.
    waits(&store).await.unwrap().unwrap().unwrap();
    store.pause(&queue(), None, true).await.unwrap();
    let waiting = waits(&store);
    store.pause(&queue(), None, false).await.unwrap();
    waiting.await.unwrap().unwrap().unwrap();
    step.finishes = store.step(&step).await.unwrap().jobs.iter().map(done).collect();
    store.step(&step).await.unwrap();
    // The next due time.
    let later = NewJob { due: Due::After(span(Duration::from_millis(30))), ..job(uid(), None) };
    add(&store, &[later]).await;
    waits(&store).await.unwrap().unwrap().unwrap();
    step.finishes.clear();
    step.lease = span(Duration::from_millis(30));
    assert_eq!(store.step(&step).await.unwrap().jobs.len(), 1);
    // And the end of another's lease.
    waits(&store).await.unwrap().unwrap().unwrap();
    let taken = store.step(&Step { lease: span(LEASE), ..step }).await.unwrap();
    assert_eq!(taken.jobs.len(), 1);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn who_waits_long_leaves_the_processor_alone() {
    // The processor time of this thread, which is the runtime's only one, in nanoseconds.
    let cpu = || -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        stat.split(' ').next().unwrap().parse().unwrap()
    };
    let folder = folder();
    let store = open(&file(&folder)).await;
    store.step(&worker("one", LEASE)).await.unwrap();
    let (before, limit) = (cpu(), Duration::from_secs(2));
    store.wait(&Wait { queue: queue(), group: Group::main(), limit }).await.unwrap();
    let used = Duration::from_nanos(cpu() - before);
    assert!(used < limit / 50, "{used:?}");
}

#[tokio::test]
async fn twenty_thousand_jobs_due_at_once_come_in_order() {
    let (folder, clock) = (folder(), ManualClock::new());
    let options = SqliteOptions::new(file(&folder)).synchronous(Synchronous::Normal);
    let store = SqliteStore::open(options, Arc::new(clock.clone())).await.unwrap();
    let delay = Duration::from_mins(10);
    let mut uid = producer();
    let all: Vec<_> =
        (0..20_000).map(|_| NewJob { due: Due::After(span(delay)), ..job(uid(), None) }).collect();
    add(&store, &all).await;
    let step = Step { want: 256, ..worker("one", LEASE) };
    let early = store.step(&step).await.unwrap();
    assert!(early.jobs.is_empty() && early.next_due.is_some());
    clock.advance(delay);
    assert_eq!(stats(&store).await.ready, 20_000);
    let taken = drain(&store, step).await;
    assert!(taken.iter().eq(all.iter().map(|job| &job.uid)));
}

#[tokio::test]
async fn a_file_stays_as_large_as_its_live_jobs_ask_for() {
    let (folder, clock) = (folder(), ManualClock::new());
    let path = file(&folder);
    let options = SqliteOptions::new(&path).synchronous(Synchronous::Normal);
    let store = SqliteStore::open(options, Arc::new(clock.clone())).await.unwrap();
    let mut uid = producer();
    let mut sizes = Vec::new();
    for round in 0..rounds(40, 400) {
        let all: Vec<_> = (0..500)
            .map(|n| NewJob {
                remember: span(Duration::from_mins(1)),
                ..job(uid(), (n % 2 == 0).then_some(&format!("{round}-{n}")))
            })
            .collect();
        add(&store, &all).await;
        assert_eq!(drain(&store, Step { want: 256, ..worker("one", LEASE) }).await.len(), 500);
        // Jobs of the last ten minutes are remembered: five rounds.
        clock.advance(Duration::from_mins(2));
        sizes.push(pages(&path));
    }
    let (early, last) = (sizes[sizes.len() / 4], sizes[sizes.len() - 1]);
    assert!(last <= early + early / 4, "{sizes:?}");
}

fn pages(path: &Path) -> i64 {
    raw(path).query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn callers_of_a_queue_share_commits() {
    let folder = folder();
    let path = file(&folder);
    let store = Arc::new(open(&path).await);
    let uid = Arc::new(Mutex::new(producer()));
    store.step(&worker("first", LEASE)).await.unwrap();
    let before = store.commits();
    let other = crate::support::locked(&path);
    let calls: Vec<_> = (0..64)
        .map(|n| {
            let (store, uid) = (Arc::clone(&store), Arc::clone(&uid));
            tokio::spawn(async move {
                let uid = (uid.lock().unwrap())();
                store.add(&queue(), &[job(uid, Some(&format!("job {n}")))]).await.unwrap()
            })
        })
        .collect();
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
    drop(other);
    for call in calls {
        assert!(matches!(call.await.unwrap()[..], [Added::New { .. }]));
    }
    assert_eq!(store.commits() - before, 1);
}

#[tokio::test]
async fn a_purge_of_many_jobs_takes_all_and_no_more() {
    let (folder, clock) = (folder(), ManualClock::new());
    let store = open_on(&file(&folder), &clock).await;
    let mut uid = producer();
    add(&store, &jobs(1_300, &mut uid)).await;
    assert_eq!(store.purge(&queue()).await.unwrap(), 1_300);
    assert_eq!(store.purge(&queue()).await.unwrap(), 0);
    store.subscribe(&queue(), &Group::main()).await.unwrap();
    add(&store, &jobs(700, &mut uid)).await;
    assert_eq!(store.unsubscribe(&queue(), &Group::main()).await.unwrap(), Some(700));
    assert_eq!(store.unsubscribe(&queue(), &Group::main()).await.unwrap(), None);
    assert_eq!(stats(&store).await.added, 0);
}

#[tokio::test]
async fn long_lists_come_page_by_page() {
    let (folder, clock) = (folder(), ManualClock::new());
    let store = open_on(&file(&folder), &clock).await;
    let mut uid = producer();
    let classes = [Priority::Low, Priority::Urgent, Priority::Normal];
    let mut all: Vec<_> = (0..90).map(|n| NewJob { priority: classes[n % 3], ..job(uid(), None) }).collect();
    add(&store, &all).await;
    all.sort_by_key(|job| job.priority);
    store.subscribe(&queue(), &Group::new("first").unwrap()).await.unwrap();
    store.subscribe(&queue(), &Group::new("second").unwrap()).await.unwrap();
    let late: Vec<_> = (0..20).map(|_| NewJob { priority: Priority::Bulk, ..job(uid(), None) }).collect();
    add(&store, &late).await;
    let expected = all.iter().chain(&late).chain(&late).map(|job| job.uid);
    let mut req = ListJobs { queue: queue(), group: None, state: JobState::Ready, after: None, limit: 7 };
    let mut found = Vec::new();
    loop {
        let page = store.list(&req).await.unwrap();
        found.extend(page.jobs.iter().map(|job| job.uid));
        req.after = page.next;
        if req.after.is_none() {
            break;
        }
        assert_eq!(page.jobs.len(), 7);
    }
    assert!(found.into_iter().eq(expected));
    let none = Schedules { namespace: Namespace::default(), by: None };
    assert!(store.schedules(&none).await.unwrap().is_empty());
}

#[tokio::test]
async fn books_that_do_not_add_up_are_found() {
    let folder = folder();
    let path = file(&folder);
    let store = open(&path).await;
    let mut uid = producer();
    let named = |uid, id: &str| job(uid, Some(id));
    add(&store, &[named(uid(), "a"), named(uid(), "b"), named(uid(), "c"), named(uid(), "d")]).await;
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
    let conn = raw(&path);
    conn.execute_batch("UPDATE hapax_job SET payload = NULL WHERE job_id = 'a'").unwrap();
    let seen = found().await;
    says(&seen, "queue_records", "1 jobs have a place in the queue and no body");
    assert_eq!(seen.len(), 1);
    conn.execute_batch(
        "DELETE FROM hapax_job_copy WHERE job = (SELECT id FROM hapax_job WHERE job_id = 'b')",
    )
    .unwrap();
    let seen = found().await;
    says(&seen, "queue_records", "1 bodies of jobs have no place");
    says(&seen, "queue_books", "figures say 4 waiting, 0 running, 0 dead, and its records are 3 waiting");
    conn.execute_batch("UPDATE hapax_queue_group SET waiting = 3").unwrap();
    says(&found().await, "queue_books", "of 4 jobs that were added, 3 are ready");
    conn.execute_batch("UPDATE hapax_job SET alive = 0 WHERE job_id = 'b'").unwrap();
    says(&found().await, "queue_records", "1 job ids belong to jobs that are gone");
    let taken = store.step(&worker("w", LEASE)).await.unwrap();
    assert!(!taken.jobs.is_empty());
    conn.execute_batch("UPDATE hapax_job_copy SET boot_id = 'another' WHERE state = 1").unwrap();
    says(&found().await, "queue_workers", "3 jobs run with workers that have not been heard of");
}
