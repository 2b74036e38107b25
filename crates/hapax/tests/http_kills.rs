//! A server that is killed at any moment, under clients that ask until they are answered: what was answered happened once.

#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

use axum::{Extension, Router, extract::State, http::StatusCode, routing::post};
use hapax::{
    Hapax,
    core::{
        Clock, Namespace, SystemClock,
        idempotency::{List, StateFilter},
    },
    http::IdempotencyLayer,
};
use hapax_testkit::{missing, redis::Redis};
use libtest_mimic::{Arguments, Completion, Trial};
use std::{
    collections::{HashMap, VecDeque},
    env,
    fs::OpenOptions,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};
use tokio::time::Instant;

/// Set in a process that serves: its store, and the file of the effects.
const STORE: &str = "HAPAX_TEST_SERVE";
const EFFECTS: &str = "HAPAX_TEST_EFFECTS";
const CLIENTS: usize = 8;
const LEASE: Duration = Duration::from_secs(1);

/// The effect: one line in a file, in one write. The answer names it.
async fn pay(
    State(effects): State<PathBuf>,
    Extension(lease): Extension<hapax::Lease>,
) -> (StatusCode, String) {
    let (key, id) = (lease.key().as_str().to_owned(), fastrand::u64(..));
    let line = format!("{key} {id} {} {}\n", std::process::id(), SystemClock.boot().as_millis());
    let mut file = OpenOptions::new().append(true).open(effects).unwrap();
    file.write_all(line.as_bytes()).unwrap();
    (StatusCode::CREATED, id.to_string())
}

/// What a child of these tests does, until it is killed.
#[expect(clippy::print_stdout, reason = "the address, for who started it")]
async fn serve(store: &str, effects: PathBuf) {
    let hapax = hapax::connect(store).await.unwrap();
    let once = IdempotencyLayer::new(&hapax.idempotency("pay"), |_| "everybody").required().lease(LEASE);
    let app = Router::new().route("/pay", post(pay)).layer(once).with_state(effects);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    axum::serve(listener, app).await.unwrap();
}

/// A server that is killed when it is dropped.
struct Server(Child);

impl Server {
    fn start(store: &str, effects: &Path, address: &Mutex<String>) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.env(STORE, store).env(EFFECTS, effects).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        line.trim().clone_into(&mut address.lock().unwrap_or_else(PoisonError::into_inner));
        Self(process)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

enum Said {
    /// The effect, and whether it was an earlier request's.
    Paid {
        id: u64,
        replayed: bool,
    },
    InFlight,
}

/// Asks once. A server that is killed meanwhile is an error.
fn ask(address: &str, key: &str) -> io::Result<Said> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let head = "POST /pay HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n";
    stream.write_all(format!("{head}idempotency-key: \"{key}\"\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    // It was killed before it had said anything, or in the middle of it.
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    match head.get(9..12) {
        Some("201") => {
            let size = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() < size.parse::<usize>().unwrap() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let replayed = head.contains("idempotent-replayed: true");
            Ok(Said::Paid { id: body.parse().unwrap(), replayed })
        }
        Some("409") => {
            assert!(head.contains("retry-after: 1") && body.contains("idempotency.in_flight"), "{answer}");
            Ok(Said::InFlight)
        }
        // The store was too slow for the lease: nothing has run.
        Some("503") => Err(io::ErrorKind::TimedOut.into()),
        _ => panic!("{answer}"),
    }
}

/// What the clients share, and what they saw.
#[derive(Default)]
struct Book {
    address: Mutex<String>,
    keys: AtomicUsize,
    /// No more new keys.
    enough: AtomicBool,
    answered: Mutex<HashMap<String, u64>>,
    replayed: AtomicUsize,
    in_flight: AtomicUsize,
    cut: AtomicUsize,
}

impl Book {
    /// Asks under new keys, and again under those that were not answered, until all are.
    fn pay(&self) {
        let (mut open, mut turn) = (VecDeque::new(), 0_usize);
        let started = Instant::now();
        loop {
            turn += 1;
            let enough = self.enough.load(Ordering::Relaxed);
            // Whatever waits for a lease does not hold up the others.
            let again = if enough || turn.is_multiple_of(4) { open.pop_front() } else { None };
            let key = match again {
                Some(key) => key,
                None if enough => return,
                None => format!("k{}", self.keys.fetch_add(1, Ordering::Relaxed)),
            };
            let address = self.address.lock().unwrap_or_else(PoisonError::into_inner).clone();
            match ask(&address, &key) {
                Ok(Said::Paid { id, replayed }) => {
                    self.replayed.fetch_add(replayed.into(), Ordering::Relaxed);
                    let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
                    assert!(answered.insert(key, id).is_none());
                    continue;
                }
                Ok(Said::InFlight) => self.in_flight.fetch_add(1, Ordering::Relaxed),
                Err(_) => self.cut.fetch_add(1, Ordering::Relaxed),
            };
            open.push_back(key);
            assert!(started.elapsed() < Duration::from_mins(10), "{} keys are open", open.len());
            pause(Duration::from_millis(2));
        }
    }
}

/// A moment that nobody chose, or the time in which nothing else is to be done.
#[expect(clippy::disallowed_methods, reason = "other processes go on meanwhile")]
fn pause(time: Duration) {
    thread::sleep(time);
}

/// One effect, as it stands in the file.
#[derive(Debug)]
struct Effect {
    id: u64,
    process: u32,
    at: Duration,
}

fn effects(file: &Path) -> HashMap<String, Vec<Effect>> {
    let mut all: HashMap<String, Vec<Effect>> = HashMap::new();
    for line in std::fs::read_to_string(file).unwrap().lines() {
        let parts: [&str; 4] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let [key, id, process, at] = parts;
        let key = key.strip_prefix("everybody:").unwrap().to_owned();
        let at = Duration::from_millis(at.parse().unwrap());
        let effect = Effect { id: id.parse().unwrap(), process: process.parse().unwrap(), at };
        all.entry(key).or_default().push(effect);
    }
    all
}

/// How many keys are done, and how many are anything else.
async fn states(hapax: &Hapax) -> (usize, usize) {
    let (mut after, mut done, mut other) = (None, 0, 0);
    loop {
        let list = List {
            namespace: Namespace::default(),
            scope: None,
            prefix: String::new(),
            state: None,
            after,
            limit: 500,
        };
        let page = hapax.backend().idempotency.list(&list).await.unwrap();
        let of_page = page.records.iter().filter(|(_, record)| record.is(StateFilter::Done)).count();
        done += of_page;
        other += page.records.len() - of_page;
        after = page.records.last().map(|(name, _)| {
            let scope = hapax::core::Scope::from_shown(name.scope()).unwrap();
            (scope, hapax::core::Key::from_shown(name.key()).unwrap())
        });
        if !page.more {
            return (done, other);
        }
    }
}

#[expect(clippy::print_stdout, reason = "the counts belong into the report of a long run")]
fn killed_under_load(store: &str, folder: &Path) {
    let kills = if env::var_os("HAPAX_TEST_LONG").is_some() { 500 } else { 10 };
    let (book, file) = (Book::default(), folder.join("effects"));
    std::fs::File::create(&file).unwrap();
    let mut server = Server::start(store, &file, &book.address);
    let (before, last) = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| book.pay())).collect();
        for _ in 0..kills {
            pause(Duration::from_micros(20_000 + fastrand::u64(0..80_000)));
            drop(server);
            server = Server::start(store, &file, &book.address);
        }
        book.enough.store(true, Ordering::Relaxed);
        let before = book.keys.load(Ordering::Relaxed);
        for client in clients {
            client.join().unwrap();
        }
        (before, server)
    });
    let answered = book.answered.into_inner().unwrap();
    let happened = effects(&file);
    // Every client has its answer, and each answer is of an effect: of the last one under its key, so that none came
    // after the receipt.
    assert!(answered.len() >= before && answered.len() == happened.len(), "{} keys", answered.len());
    let mut again = 0;
    for (key, id) in &answered {
        let effects = happened.get(key).unwrap();
        assert_eq!(effects.last().unwrap().id, *id, "{key} was answered, and happened again: {effects:?}");
        for pair in effects.windows(2) {
            let [one, next] = pair else { unreachable!() };
            again += 1;
            assert_ne!(one.process, next.process, "{key} happened twice in one process");
            // The lease is renewed at each third, so that most of it was left when the process died.
            let apart = next.at.saturating_sub(one.at);
            assert!(apart >= LEASE * 6 / 10, "{key} happened again under its lease: {effects:?}");
        }
    }
    // A kill cuts off what is under way, and nothing else.
    assert!(again <= kills * CLIENTS, "{again} effects happened again");
    let (in_flight, cut) = (book.in_flight.into_inner(), book.cut.into_inner());
    assert!(cut >= kills / 2, "only {cut} requests were cut off");
    assert!(in_flight > 0, "no request came back under the lease of a process that was killed");
    // Asked once more, each key answers as it did. Of some, the first answer was lost on its way.
    let address = book.address.into_inner().unwrap();
    for (key, id) in answered.iter().take(200) {
        assert!(
            matches!(ask(&address, key).unwrap(), Said::Paid { id: kept, replayed: true } if kept == *id)
        );
    }
    assert_eq!(effects(&file).values().map(Vec::len).sum::<usize>(), answered.len() + again);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let states = runtime.block_on(async { states(&hapax::connect(store).await.unwrap()).await });
    assert_eq!(states, (answered.len(), 0), "every key is done");
    drop(last);
    println!(
        "{} keys, {kills} kills: {cut} requests cut off, {again} effects again, {} answers found by a retry, {in_flight} times 409",
        answered.len(),
        book.replayed.into_inner()
    );
}

fn a_server_killed_under_load_answers_every_key_with_its_one_effect_on_sqlite() -> Completion {
    let folder = tempfile::tempdir().unwrap();
    killed_under_load(&format!("sqlite:{}", folder.path().join("store.db").display()), folder.path());
    Completion::Completed
}

fn a_server_killed_under_load_answers_every_key_with_its_one_effect_on_redis() -> Completion {
    if let Some(why) = missing(&["redis-server"]) {
        return Completion::ignored_with(why);
    }
    let (redis, folder) = (Redis::start(), tempfile::tempdir().unwrap());
    killed_under_load(&redis.url(), folder.path());
    Completion::Completed
}

type Case = (&'static str, fn() -> Completion);

fn main() -> ExitCode {
    if let (Ok(store), Some(effects)) = (env::var(STORE), env::var_os(EFFECTS)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(serve(&store, effects.into()));
        return ExitCode::FAILURE;
    }
    let cases: [Case; 2] = [
        (
            "a_server_killed_under_load_answers_every_key_with_its_one_effect_on_sqlite",
            a_server_killed_under_load_answers_every_key_with_its_one_effect_on_sqlite,
        ),
        (
            "a_server_killed_under_load_answers_every_key_with_its_one_effect_on_redis",
            a_server_killed_under_load_answers_every_key_with_its_one_effect_on_redis,
        ),
    ];
    let trials = cases.map(|(name, case)| Trial::ignorable_test(name, move || Ok(case()))).into();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
