//! Lets time pass for the limits of a case: whatever the scripts compare with now comes nearer.

/// KEYS: one of a limit's. ARGV: milliseconds.
pub(super) const SHIFT: &str = r"
local key, by = KEYS[1], tonumber(ARGV[1])
local function nearer(value, at)
  local before = struct.unpack('>i8', value, at)
  return string.sub(value, 1, at - 1) .. struct.pack('>i8', before - by) .. string.sub(value, at + 8)
end
local left = redis.call('PTTL', key)
if left < 0 then return redis.error_reply('ERR a key without an end') end
if left <= by then return redis.call('DEL', key) end
if redis.call('TYPE', key).ok == 'list' then
  for i = 0, redis.call('LLEN', key) - 1 do
    redis.call('LSET', key, i, nearer(redis.call('LINDEX', key, i), 1))
  end
else
  redis.call('SET', key, nearer(redis.call('GET', key), 13))
end
redis.call('PEXPIRE', key, left - by)
return 1
";
