//! The layer beside a handler that does the same by hand, and beside no layer, in turns on one server.
//!
//! `cargo bench -p hapax --features http,redis --bench http [-- REDIS_URL]`; without a URL it starts a `redis-server`.
//!
//! | route | what it does |
//! |---|---|
//! | `/echo` | the body back |
//! | `/open` | the same behind the layer, asked without a key |
//! | `/bare` | the same once per key, by hand: `SET NX GET PX`, then a script that compares the token |
//! | `/keyed` | the same once per key, by the layer |

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, reason = "a measurement")]

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::IntoResponse,
    routing::post,
};
use hapax::http::{Handlers, IdempotencyLayer};
use hapax_testkit::redis::Redis;
use std::{
    env,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::Instant,
};

/// Set in the process that serves: its store.
const SERVE: &str = "HAPAX_BENCH_SERVE";
const ROUNDS: usize = 3;
const EACH: Duration = Duration::from_millis(1500);
/// As many keys as are asked again and again for replays.
const REPLAYED: usize = 1000;

const COMPLETE: &str = "
local held = redis.call('GET', KEYS[1])
if held and string.sub(held, 1, 32) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1] .. ARGV[2], 'PX', 86400000)
return 1";

type Bare = (redis::aio::MultiplexedConnection, redis::Script);

/// The floor: no fingerprint, no fields, no panics, no limits, no renewal.
async fn bare(
    State((mut redis, complete)): State<Bare>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<impl IntoResponse, StatusCode> {
    let failed = |_| StatusCode::BAD_GATEWAY;
    let key =
        headers.get("idempotency-key").and_then(|key| key.to_str().ok()).ok_or(StatusCode::BAD_REQUEST)?;
    let (name, token) = (format!("bare:{key}"), format!("{:032x}", fastrand::u128(..)));
    let mut reserve = redis::cmd("SET");
    reserve.arg(&name).arg(&token).arg("NX").arg("GET").arg("PX").arg(60_000);
    let held: Option<Vec<u8>> = reserve.query_async(&mut redis).await.map_err(failed)?;
    if let Some(kept) = held {
        return if kept.len() == 32 {
            Err(StatusCode::CONFLICT)
        } else {
            Ok(json(Bytes::from(kept).slice(32..)))
        };
    }
    let _: i64 =
        complete.key(&name).arg(&token).arg(&body[..]).invoke_async(&mut redis).await.map_err(failed)?;
    Ok(json(body))
}

fn json(body: Bytes) -> ([(&'static str, &'static str); 1], Bytes) {
    ([("content-type", "application/json")], body)
}

async fn serve(store: &str) {
    let hapax = hapax::connect(store).await.unwrap();
    let redis = redis::Client::open(store).unwrap().get_multiplexed_async_connection().await.unwrap();
    let layer =
        IdempotencyLayer::new(&hapax.idempotency("bench"), |_| "everybody").handled_by(&Handlers::default());
    let echo = async |body: Bytes| json(body);
    let app = Router::new()
        .route("/echo", post(echo))
        .route("/open", post(echo).layer(layer.clone()))
        .route("/keyed", post(echo).layer(layer))
        .route("/bare", post(bare).with_state((redis, redis::Script::new(COMPLETE))));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    axum::serve(listener, app).await.unwrap();
}

/// One row: where to, how many at a time, and which keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Case {
    name: &'static str,
    route: &'static str,
    callers: usize,
    keys: Keys,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Keys {
    None,
    Fresh,
    Replayed,
}

const CASES: [Case; 12] = {
    const fn case(name: &'static str, route: &'static str, callers: usize, keys: Keys) -> Case {
        Case { name, route, callers, keys }
    }
    [
        case("fresh, by hand", "/bare", 64, Keys::Fresh),
        case("fresh, the layer", "/keyed", 64, Keys::Fresh),
        case("replay, by hand", "/bare", 64, Keys::Replayed),
        case("replay, the layer", "/keyed", 64, Keys::Replayed),
        case("no key, no layer", "/echo", 64, Keys::None),
        case("no key, the layer", "/open", 64, Keys::None),
        case("fresh, by hand", "/bare", 1, Keys::Fresh),
        case("fresh, the layer", "/keyed", 1, Keys::Fresh),
        case("replay, by hand", "/bare", 1, Keys::Replayed),
        case("replay, the layer", "/keyed", 1, Keys::Replayed),
        case("no key, no layer", "/echo", 1, Keys::None),
        case("no key, the layer", "/open", 1, Keys::None),
    ]
};

/// A connection that asks, and reads the answer to its end.
struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    async fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::with_capacity(4096) }
    }

    async fn ask(&mut self, request: &[u8]) {
        self.stream.write_all(request).await.unwrap();
        self.buffer.clear();
        loop {
            assert!(self.stream.read_buf(&mut self.buffer).await.unwrap() > 0, "the server closed");
            let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            let head = std::str::from_utf8(&self.buffer[..end]).unwrap();
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            let size = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if self.buffer.len() >= end + 4 + size.unwrap().parse::<usize>().unwrap() {
                return;
            }
        }
    }
}

fn request(route: &str, key: Option<&str>) -> Vec<u8> {
    let body = format!("{{\"order\":\"{}\"}}", "x".repeat(88));
    let key = key.map(|key| format!("idempotency-key: \"{key}\"\r\n")).unwrap_or_default();
    let size = body.len();
    let head = "host: localhost\r\ncontent-type: application/json\r\naccept: */*\r\n";
    format!("POST {route} HTTP/1.1\r\n{head}{key}content-length: {size}\r\n\r\n{body}").into_bytes()
}

/// Requests a second, and the latencies in microseconds.
async fn measure(address: &str, case: Case) -> (f64, Vec<u64>) {
    let run = fastrand::u64(..);
    if case.keys == Keys::Replayed {
        let mut client = Client::connect(address).await;
        for n in 0..REPLAYED {
            client.ask(&request(case.route, Some(&format!("replayed-{n}")))).await;
        }
    }
    let start = Instant::now();
    let callers = (0..case.callers).map(|caller| {
        let address = address.to_owned();
        tokio::spawn(async move {
            let mut client = Client::connect(&address).await;
            let mut taken = Vec::new();
            for n in 0.. {
                let key = match case.keys {
                    Keys::None => None,
                    Keys::Fresh => Some(format!("{run:x}-{caller}-{n}")),
                    Keys::Replayed => Some(format!("replayed-{}", (n * 7 + caller) % REPLAYED)),
                };
                let request = request(case.route, key.as_deref());
                let asked = Instant::now();
                client.ask(&request).await;
                taken.push(u64::try_from(asked.elapsed().as_micros()).unwrap());
                if start.elapsed() > EACH {
                    break;
                }
            }
            taken
        })
    });
    let mut all = Vec::new();
    for caller in callers.collect::<Vec<_>>() {
        all.extend(caller.await.unwrap());
    }
    #[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
    let rate = all.len() as f64 / start.elapsed().as_secs_f64();
    all.sort_unstable();
    (rate, all)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn main() {
    if let Ok(store) = env::var(SERVE) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        return runtime.block_on(serve(&store));
    }
    // Cargo adds `--bench`.
    let given = env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let own = given.is_none().then(Redis::start);
    let store = given.unwrap_or_else(|| own.as_ref().unwrap().url());
    let mut process =
        Command::new(env::current_exe().unwrap()).env(SERVE, store).stdout(Stdio::piped()).spawn().unwrap();
    let mut address = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let (address, _server) = (address.trim().to_owned(), Server(process));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut figures = vec![(Vec::new(), Vec::new(), Vec::new()); CASES.len()];
    // In turns, another one first each time.
    for round in 0..ROUNDS {
        for at in 0..CASES.len() {
            // Pairs stay together.
            let at = (at + 2 * round) % CASES.len();
            let (rate, taken) = runtime.block_on(measure(&address, CASES[at]));
            let percentile = |of: usize| taken[(taken.len() - 1) * of / 100];
            figures[at].0.push(rate);
            #[expect(clippy::cast_precision_loss, reason = "microseconds")]
            figures[at].1.push(percentile(50) as f64);
            #[expect(clippy::cast_precision_loss, reason = "microseconds")]
            figures[at].2.push(percentile(99) as f64);
        }
    }
    println!("| callers | case | requests/s | p50 µs | p99 µs | rate, and p50, to the row above |");
    println!("|---|---|---|---|---|---|");
    let mut before = (1.0, 1.0);
    for (at, (case, (rate, p50, p99))) in CASES.iter().zip(figures).enumerate() {
        let (rate, p50, p99) = (median(rate), median(p50), median(p99));
        let ratio = if at % 2 == 1 {
            format!("{:.2}, {:.2}", rate / before.0, p50 / before.1)
        } else {
            String::new()
        };
        before = (rate, p50);
        println!("| {} | {} | {rate:.0} | {p50:.0} | {p99:.0} | {ratio} |", case.callers, case.name);
    }
}
