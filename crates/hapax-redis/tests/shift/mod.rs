//! Lets time pass for the keys of a case: their ends come nearer, those in the records and those of the keys.

mod limit;
pub(crate) mod lock;
mod queue;

use redis::aio::MultiplexedConnection;
use std::{sync::Mutex, time::Duration};

/// KEYS: a record. ARGV: milliseconds.
const SHIFT: &str = r"
local by = tonumber(ARGV[1])
local function nearer(value, at)
  local ends = struct.unpack('>i8', value, at)
  return string.sub(value, 1, at - 1) .. struct.pack('>i8', ends - by) .. string.sub(value, at + 8)
end
local value = redis.call('GET', KEYS[1])
local left = redis.call('PTTL', KEYS[1])
if not value or left < 0 then return 0 end
if left <= by then return redis.call('DEL', KEYS[1]) end
if string.byte(value, 1) == 1 then
  value = nearer(value, 61)
  if string.byte(value, 2) == 0 and #value > 68 then value = nearer(value, 68 + 61) end
end
redis.call('SET', KEYS[1], value, 'PX', left - by)
return 1
";

/// What the queues, locks and limits of random lists are named after, with the number of the list behind it.
const LIST: &str = "list ";

/// How far the random lists of a case have come: the number of the newest, and what the server's clock showed when time
/// last passed for it.
#[derive(Debug, Default)]
pub(crate) struct Newest(Mutex<Option<(u64, i64)>>);

/// How much time passes for a key.
#[derive(Clone, Copy)]
struct Pass {
    /// In milliseconds.
    by: i64,
    /// Of a list, whose reference stands still between two shifts.
    list: Option<Still>,
}

/// What the clock of the server did by itself.
#[derive(Clone, Copy)]
struct Still {
    /// What it shows.
    now: i64,
    /// How many milliseconds it went on since time last passed for the list; none: this is the first time.
    idle: Option<i64>,
}

impl Pass {
    /// Without what has passed already.
    fn rest(self) -> i64 {
        self.by - self.list.and_then(|list| list.idle).unwrap_or_default()
    }
}

/// Shifts all keys with the prefix, on all servers. Those of lists that are over are removed: nothing asks for them.
pub(crate) async fn all(servers: &[String], prefix: &str, newest: &Newest, by: Duration) {
    let by = i64::try_from(by.as_millis()).unwrap();
    let mut found = Vec::new();
    for url in servers {
        let mut connection = connect(url).await;
        let keys = scan(&mut connection, &format!("{prefix}{{*")).await;
        found.push((connection, keys));
    }
    let number = found.iter().flat_map(|(_, keys)| keys).filter_map(|key| list_of(key)).max();
    let list = match (number, found.first_mut()) {
        (Some(number), Some((connection, _))) => {
            let now = time(connection).await;
            let before = newest.0.lock().unwrap().replace((number, now));
            let idle = before.filter(|(before, _)| *before == number).map(|(_, at)| now - at);
            Some(Still { now, idle })
        }
        _ => None,
    };
    for (mut connection, keys) in found {
        let (over, keys): (Vec<_>, Vec<_>) =
            keys.into_iter().partition(|key| list_of(key).is_some_and(|its| Some(its) < number));
        send(&mut connection, over.iter().map(|key| redis::cmd("UNLINK").arg(key).clone())).await;
        let calls = keys.iter().filter_map(|key| {
            let pass = Pass { by, list: list.filter(|_| list_of(key).is_some()) };
            match key.get(prefix.len()..prefix.len() + 2)? {
                b"{}" if key.get(prefix.len() + 2..)?.starts_with(b"k:") => Some(eval(SHIFT, key, pass)),
                b"{q" => Some(queue::call(key, pass)),
                b"{l" => Some(eval(lock::SHIFT, key, pass)),
                b"{r" => Some(eval(limit::SHIFT, key, pass)),
                _ => None,
            }
        });
        send(&mut connection, calls).await;
    }
}

/// The call of a script that wants nothing but the time.
fn eval(script: &str, key: &[u8], pass: Pass) -> redis::Cmd {
    redis::cmd("EVAL").arg(script).arg(1).arg(key).arg(pass.rest()).clone()
}

/// The number of the list that a key is of.
fn list_of(key: &[u8]) -> Option<u64> {
    let key = String::from_utf8_lossy(key);
    let behind = key.split_once(LIST)?.1;
    let digits = behind.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(behind.len());
    behind.get(..digits)?.parse().ok()
}

async fn send(connection: &mut MultiplexedConnection, calls: impl Iterator<Item = redis::Cmd>) {
    let calls: Vec<_> = calls.collect();
    for chunk in calls.chunks(128) {
        let mut pipeline = redis::pipe();
        for call in chunk {
            pipeline.add_command(call.clone());
        }
        let _: Vec<i64> = pipeline.query_async(connection).await.unwrap();
    }
}

/// Removes all keys with the prefix from one server, as a loss of its memory does.
pub(crate) async fn lose(url: &str, prefix: &str) {
    let mut connection = connect(url).await;
    let keys = scan(&mut connection, &format!("{prefix}{{*")).await;
    send(&mut connection, keys.iter().map(|key| redis::cmd("DEL").arg(key).clone())).await;
}

async fn connect(url: &str) -> MultiplexedConnection {
    // A machine that is slow today is no failure: what hangs is ended by the runner.
    let config = redis::AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    redis::Client::open(url).unwrap().get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

/// What the server's clock shows, in milliseconds since 1970.
async fn time(connection: &mut MultiplexedConnection) -> i64 {
    let (seconds, micros): (i64, i64) = redis::cmd("TIME").query_async(connection).await.unwrap();
    seconds * 1000 + micros / 1000
}

/// All keys of one server that the pattern matches.
async fn scan(connection: &mut MultiplexedConnection, pattern: &str) -> Vec<Vec<u8>> {
    let mut cursor = 0_u64;
    let mut found: Vec<Vec<u8>> = Vec::new();
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(1000);
        let (next, keys): (u64, Vec<Vec<u8>>) = scan.query_async(connection).await.unwrap();
        found.extend(keys);
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}
