//! Lets time pass for the queues of a case: whatever the scripts compare with now comes nearer.

use super::Pass;

/// KEYS: one of a queue's. ARGV: milliseconds, and what kind of key it is; for a list, what the clock shows, how long
/// ago the first of what was written since the last time may be, and the milliseconds without those that passed already.
///
/// The store in memory, which random lists are compared with, stands still between two shifts: it cannot tell which of
/// two jobs that came in between was first. So all instants of a list are made as if they were written as time passed: each
/// is a multiple of 32 s away from then. What a list does between two shifts may take as long; all of it as long as it will.
const SHIFT: &str = r"
local key, by, kind = KEYS[1], tonumber(ARGV[1]), ARGV[2]
local now, back, rest = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5] or by)
local function less(at)
  return at - rest
end
local function moved(at)
  return now and now + math.floor((at - by - now + back) / 32000) * 32000 or less(at)
end
local function nearer(value, at, move)
  local before = struct.unpack('>i8', value, at)
  if before == 0 then return value end
  return string.sub(value, 1, at - 1) .. struct.pack('>i8', (move or moved)(before)) .. string.sub(value, at + 8)
end
local function each(change)
  local all = redis.call('HGETALL', key)
  for n = 1, #all, 2 do
    redis.call('HSET', key, all[n], change(all[n], all[n + 1]))
  end
end
local left = redis.call('PTTL', key)
if left >= 0 and left <= rest then return redis.call('DEL', key) end
if left >= 0 then redis.call('PEXPIRE', key, left - rest) end
if string.find('q0q1q2q3rxt', kind, 1, true) then
  local all = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  for n = 1, #all, 2 do
    redis.call('ZADD', key, moved(tonumber(all[n + 1])), all[n])
  end
elseif kind == 'b' then
  each(function(_, value) return nearer(nearer(value, 9), 17) end)
elseif kind == 'c' then
  -- A history tells of instants, which stay.
  each(function(field, value) return #field == 16 and nearer(value, 22) or value end)
elseif kind == 'm' then
  each(function(field, value)
    return string.find(field, '^[ts]%d+$') and less(tonumber(value)) or value
  end)
elseif kind == 'i' then
  each(function(field, value)
    if string.byte(field) == 114 then return nearer(value, 1) end
    return #value > 51 and nearer(nearer(value, 52), 60) or value
  end)
elseif kind == 'e' or kind == 'f' then
  -- Ten minutes are no multiple of 32 s.
  each(function(_, value) return nearer(value, 2, less) end)
end
return 1
";

/// How old, in milliseconds, what a list did before its first shift may be: less than the least that its times differ by.
const FIRST: i64 = 31_999;

/// The call that shifts one key.
pub(super) fn call(key: &[u8], pass: Pass) -> redis::Cmd {
    // A tag has no closing brace, so the last one ends it.
    let kind = key.rsplit(|byte| *byte == b'}').next().unwrap();
    let kind = kind.rsplit(|byte| *byte == b':').next().unwrap();
    let mut shift = redis::cmd("EVAL");
    shift.arg(SHIFT).arg(1).arg(key).arg(pass.by).arg(kind);
    if let Some(list) = pass.list {
        shift.arg(list.now).arg(list.idle.unwrap_or(FIRST)).arg(pass.rest());
    }
    shift
}
