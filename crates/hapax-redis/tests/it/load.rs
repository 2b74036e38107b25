//! Callers who go on while servers end, change places, and hand slots over.

use crate::support::{complete, is_held_done, is_yours, open, place, raw, reserve, until};
use hapax_core::{
    StoreResult,
    idempotency::{Completed, IdempotencyStore},
};
use hapax_redis::RedisStore;
use hapax_testkit::redis::{Redis, RedisCluster, RedisSentinel};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    task::{JoinSet, block_in_place},
    time::Instant,
};

crate::list!("load", &[];
    a_server_that_crashes_again_and_again,
    a_primary_that_fails_over_to_its_replica,
    slots_that_move_to_another_node,
    a_done_key_costs_one_string,
);

const CALLERS: usize = 64;
/// Of the store.
const TIMEOUT: Duration = Duration::from_secs(5);
/// What a busy machine may add to it.
const SLACK: Duration = Duration::from_secs(5);

/// `HAPAX_TEST_LONG=1` asks for the full counts.
pub(crate) fn scaled(short: usize, long: usize) -> usize {
    if std::env::var_os("HAPAX_TEST_LONG").is_some_and(|value| value == "1") { long } else { short }
}

/// For `docs/reliability.md`.
#[expect(clippy::print_stdout, reason = "the counts are what a long run is for")]
pub(crate) fn report(counts: &str) {
    println!("{counts}");
}

/// Sixty-four callers: each takes key after key, and asks for one that it has done before in between.
struct Load {
    store: Arc<RedisStore>,
    over: AtomicBool,
    /// Keys that each has done.
    turns: Vec<AtomicU64>,
    /// Keys whose result was acknowledged, and when.
    done: Mutex<Vec<(String, Instant)>>,
    /// Keys that were done, and were granted again: until when they were known to be done.
    forgotten: Mutex<Vec<(String, Instant)>>,
    /// Calls without an answer.
    refused: AtomicU64,
    longest: Mutex<Duration>,
}

impl Load {
    async fn start(url: &str) -> (Arc<Self>, JoinSet<()>) {
        let load = Arc::new(Self {
            store: Arc::new(open(url).await),
            over: AtomicBool::new(false),
            turns: (0..CALLERS).map(|_| AtomicU64::new(0)).collect(),
            done: Mutex::default(),
            forgotten: Mutex::default(),
            refused: AtomicU64::new(0),
            longest: Mutex::default(),
        });
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let load = Arc::clone(&load);
            callers.spawn(async move { load.calls(caller).await });
        }
        load.goes_on().await;
        (load, callers)
    }

    async fn timed<T>(&self, call: impl Future<Output = StoreResult<T>>) -> Option<T> {
        let begun = Instant::now();
        let answer = call.await;
        {
            let mut longest = self.longest.lock().unwrap();
            *longest = begun.elapsed().max(*longest);
        }
        if answer.is_err() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        answer.ok()
    }

    async fn calls(&self, caller: usize) {
        let mut own: Vec<(String, Instant)> = Vec::new();
        for n in 0_usize.. {
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            let key = format!("c{caller}n{n}");
            let req = reserve(&key);
            // Where there is no answer the key may be held: another one is next.
            let Some(granted) = self.timed(self.store.reserve(&req)).await else { continue };
            assert!(is_yours(&granted), "{key}: {granted:?}");
            // An effect has happened now: its result is offered until it is taken.
            while self.timed(self.store.complete(&complete(&req))).await.is_none() {}
            own.push((key, Instant::now()));
            self.turns.get(caller).unwrap().fetch_add(1, Ordering::Relaxed);
            let (earlier, since) = own.get(n * 7 % own.len()).unwrap().clone();
            if let Some(answer) = self.timed(self.store.reserve(&reserve(&earlier))).await
                && !is_held_done(&answer)
            {
                self.forgotten.lock().unwrap().push((earlier, since));
            }
            self.done.lock().unwrap().push(own.last().unwrap().clone());
        }
    }

    /// Each of them has done another key since.
    async fn goes_on(&self) {
        let before: Vec<_> = self.turns.iter().map(|turns| turns.load(Ordering::Relaxed)).collect();
        until("all callers go on", async || {
            self.turns.iter().zip(&before).all(|(turns, before)| turns.load(Ordering::Relaxed) > *before)
        })
        .await;
    }

    /// Ends it, and answers which keys were done, which of those are not any more, and since when they were done.
    async fn end(&self, mut callers: JoinSet<()>) -> (usize, Vec<Instant>) {
        self.over.store(true, Ordering::Relaxed);
        while let Some(ended) = callers.join_next().await {
            ended.unwrap();
        }
        let longest = *self.longest.lock().unwrap();
        assert!(longest < TIMEOUT + SLACK, "a call took {longest:?}");
        let done = std::mem::take(&mut *self.done.lock().unwrap());
        let mut forgotten = std::mem::take(&mut *self.forgotten.lock().unwrap());
        for part in done.chunks(500) {
            let reqs: Vec<_> = part.iter().map(|(key, _)| reserve(key)).collect();
            for (answer, done) in self.store.reserve_many(&reqs).await.into_iter().zip(part) {
                if !is_held_done(&answer.unwrap()) {
                    forgotten.push(done.clone());
                }
            }
        }
        forgotten.sort_unstable();
        forgotten.dedup_by(|one, other| one.0 == other.0);
        report(&format!(
            "{} keys done, {} forgotten, {} calls without an answer, the longest call took {longest:?}",
            done.len(),
            forgotten.len(),
            self.refused.load(Ordering::Relaxed)
        ));
        (done.len(), forgotten.into_iter().map(|(_, since)| since).collect())
    }
}

async fn a_server_that_crashes_again_and_again() {
    let mut server = Redis::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let (load, callers) = Load::start(&server.url()).await;
    for _ in 0..scaled(8, 100) {
        block_in_place(|| {
            server.kill();
            server.start_again();
        });
        load.goes_on().await;
    }
    let (done, forgotten) = load.end(callers).await;
    assert!(done > CALLERS);
    assert_eq!(forgotten, []);
}

/// The replica is asynchronous: what it had not got is forgotten, and no more than that.
async fn a_primary_that_fails_over_to_its_replica() {
    const LAG: Duration = Duration::from_secs(1);
    let mut servers = RedisSentinel::start();
    let (load, callers) = Load::start(&servers.url()).await;
    let mut kills = Vec::new();
    for round in 0..scaled(1, 5) {
        if round > 0 {
            block_in_place(|| servers.whole_again());
        }
        block_in_place(|| servers.primary().kill());
        kills.push(Instant::now());
        load.goes_on().await;
    }
    let (done, forgotten) = load.end(callers).await;
    assert!(done > CALLERS);
    for since in forgotten {
        let lag = kills.iter().filter(|kill| **kill >= since).map(|kill| *kill - since).min();
        assert!(lag.is_some_and(|lag| lag < LAG), "forgotten {lag:?} after it was acknowledged");
    }
}

async fn slots_that_move_to_another_node() {
    let mut servers = RedisCluster::start();
    let (load, callers) = Load::start(&servers.url()).await;
    let primaries: Vec<_> = servers.nodes().iter().take(3).map(Redis::url).collect();
    let mut nodes = Vec::new();
    for url in &primaries {
        nodes.push(raw(url).await);
    }
    let mut ids: Vec<String> = Vec::new();
    for node in &mut nodes {
        ids.push(redis::cmd("CLUSTER").arg("MYID").query_async(node).await.unwrap());
    }
    let port = servers.nodes().get(1).unwrap().port();
    let mut moved = 0;
    for slot in 0..scaled(400, 5461) {
        moved += move_slot(&mut nodes, &ids, slot, port).await;
    }
    load.goes_on().await;
    report(&format!("{moved} keys moved"));
    let (done, forgotten) = load.end(callers).await;
    assert!(done > CALLERS && moved > 0, "{done} keys, {moved} moved");
    assert_eq!(forgotten, []);
}

/// From the first to the second, with the keys that are in it; how many those were.
async fn move_slot(
    nodes: &mut [redis::aio::MultiplexedConnection],
    ids: &[String],
    slot: usize,
    port: u16,
) -> usize {
    let [source, target, ..] = nodes else { panic!("two nodes") };
    let [from, to, ..] = ids else { panic!("two nodes") };
    let set =
        |what: &str, id: &String| redis::cmd("CLUSTER").arg("SETSLOT").arg(slot).arg(what).arg(id).to_owned();
    let () = set("IMPORTING", from).query_async(target).await.unwrap();
    let () = set("MIGRATING", to).query_async(source).await.unwrap();
    let mut moved = 0;
    loop {
        let mut inside = redis::cmd("CLUSTER");
        let inside = inside.arg("GETKEYSINSLOT").arg(slot).arg(100);
        let keys: Vec<String> = inside.query_async(source).await.unwrap();
        if keys.is_empty() {
            break;
        }
        let mut migrate = redis::cmd("MIGRATE");
        migrate.arg("127.0.0.1").arg(port).arg("").arg(0).arg(5000).arg("KEYS").arg(&keys);
        let () = migrate.query_async(source).await.unwrap();
        moved += keys.len();
    }
    for node in [target, source] {
        let () = set("NODE", to).query_async(node).await.unwrap();
    }
    moved
}

async fn a_done_key_costs_one_string() {
    const KEYS: usize = 5000;
    let used = async |probe: &mut redis::aio::MultiplexedConnection| -> usize {
        let info: String = crate::support::run(probe, "INFO memory").await;
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory_dataset:"));
        used.unwrap().parse().unwrap()
    };
    let server = Redis::start();
    let store = open(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    let before = used(&mut probe).await;
    let reqs: Vec<_> = (0..KEYS).map(|n| reserve(&format!("key number {n:06}"))).collect();
    for answer in store.reserve_many(&reqs).await {
        assert!(is_yours(&answer.unwrap()));
    }
    let results: Vec<_> = reqs.iter().map(|req| crate::support::with_receipt(req, vec![b'r'; 100])).collect();
    for answer in store.complete_many(&results).await {
        assert_eq!(answer.unwrap(), Completed::Stored);
    }
    let ours = used(&mut probe).await - before;
    let length: usize =
        redis::cmd("STRLEN").arg(place("key number 000000")).query_async(&mut probe).await.unwrap();
    assert!(server.ask("FLUSHALL").starts_with("+OK"));
    let before = used(&mut probe).await;
    let mut plain = redis::pipe();
    for req in &reqs {
        let value = vec![b'r'; length];
        plain.cmd("SET").arg(place(req.name.key())).arg(value).arg("PX").arg(86_400_000).ignore();
    }
    let () = plain.query_async(&mut probe).await.unwrap();
    let string = used(&mut probe).await - before;
    let (done, plain) = (ours / KEYS, string / KEYS);
    report(&format!("{done} bytes a done key of {length} bytes, {plain} a string of them"));
    assert!(ours * 10 <= string * 13, "{ours} bytes and {string}");
}
