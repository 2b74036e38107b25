//! Lets time pass for the queues of a case: whatever the scripts compare with now comes nearer.

use std::time::Duration;

/// KEYS: one of a queue's. ARGV: milliseconds, and what kind of key it is.
///
/// The store in memory, which random lists are compared with, stands still between two shifts: it cannot tell which of
/// two leases that began in between ends first. For such a list, ends that lie within the same 30 s are made one.
const SHIFT: &str = r"
local key, by, kind = KEYS[1], tonumber(ARGV[1]), ARGV[2]
local function nearer(value, at)
  local before = struct.unpack('>i8', value, at)
  if before == 0 then return value end
  return string.sub(value, 1, at - 1) .. struct.pack('>i8', before - by) .. string.sub(value, at + 8)
end
local function each(change)
  local all = redis.call('HGETALL', key)
  for n = 1, #all, 2 do
    redis.call('HSET', key, all[n], change(all[n], all[n + 1]))
  end
end
local left = redis.call('PTTL', key)
if left >= 0 and left <= by then return redis.call('DEL', key) end
if left >= 0 then redis.call('PEXPIRE', key, left - by) end
if string.find('q0q1q2q3rxt', kind, 1, true) then
  local all = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  local time = redis.call('TIME')
  local base = string.gsub(key, ':[^:]*$', ':base')
  if kind == 'r' and string.find(key, 'list ', 1, true) then
    redis.call('SET', base, time[1] * 1000 - 10000, 'NX')
    base = redis.call('GET', base)
  else
    base = nil
  end
  for n = 1, #all, 2 do
    local ends = tonumber(all[n + 1]) - by
    if base then
      ends = ends - (ends - base) % 30000
    end
    redis.call('ZADD', key, ends, all[n])
  end
elseif kind == 'b' then
  each(function(_, value) return nearer(nearer(value, 9), 17) end)
elseif kind == 'c' then
  -- A history tells of instants, which stay.
  each(function(field, value) return #field == 16 and nearer(value, 22) or value end)
elseif kind == 'm' then
  each(function(field, value)
    return string.find(field, '^[ts]%d+$') and tonumber(value) - by or value
  end)
elseif kind == 'i' then
  each(function(field, value)
    if string.byte(field) == 114 then return nearer(value, 1) end
    return #value > 51 and nearer(nearer(value, 52), 60) or value
  end)
elseif kind == 'e' or kind == 'f' then
  each(function(_, value) return nearer(value, 2) end)
end
return 1
";

/// Shifts all queues with the prefix on one server.
pub(crate) async fn keys(url: &str, prefix: &str, by: Duration) {
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let by = u64::try_from(by.as_millis()).unwrap();
    for key in super::scan(&mut connection, &format!("{prefix}{{q*")).await {
        // A tag has no closing brace, so the last one ends it.
        let kind = key.rsplit(|byte| *byte == b'}').next().unwrap();
        let kind = kind.rsplit(|byte| *byte == b':').next().unwrap();
        let mut shift = redis::cmd("EVAL");
        shift.arg(SHIFT).arg(1).arg(&key).arg(by).arg(kind);
        let _: i64 = shift.query_async(&mut connection).await.unwrap();
    }
}
