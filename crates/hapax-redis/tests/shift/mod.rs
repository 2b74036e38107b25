//! Lets time pass for the keys of a case: their ends come nearer, those in the records and those of the keys.

pub(crate) mod limit;
pub(crate) mod lock;
pub(crate) mod queue;

use std::time::Duration;

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

/// Shifts all records with the prefix on one server.
pub(crate) async fn keys(url: &str, prefix: &str, by: Duration) {
    each(url, &format!("{prefix}{{}}k:*"), SHIFT, by).await;
}

/// Runs a script on each key that the pattern matches.
async fn each(url: &str, pattern: &str, script: &str, by: Duration) {
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let by = u64::try_from(by.as_millis()).unwrap();
    let found = scan(&mut connection, pattern).await;
    for chunk in found.chunks(128) {
        let mut pipeline = redis::pipe();
        for key in chunk {
            pipeline.cmd("EVAL").arg(script).arg(1).arg(key).arg(by);
        }
        let _: Vec<i64> = pipeline.query_async(&mut connection).await.unwrap();
    }
}

/// Removes all keys with the prefix from one server, as a loss of its memory does.
pub(crate) async fn lose(url: &str, prefix: &str) {
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    for key in scan(&mut connection, &format!("{prefix}{{*")).await {
        let _: i64 = redis::cmd("DEL").arg(key).query_async(&mut connection).await.unwrap();
    }
}

/// All keys of one server that the pattern matches.
async fn scan(connection: &mut redis::aio::MultiplexedConnection, pattern: &str) -> Vec<Vec<u8>> {
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
