//! Lets time pass for the locks of a case.

/// KEYS: a lock or its mark. ARGV: milliseconds.
pub(super) const SHIFT: &str = r"
local key, by = KEYS[1], tonumber(ARGV[1])
local function nearer(value, at)
  local before = struct.unpack('>i8', value, at)
  return string.sub(value, 1, at - 1) .. struct.pack('>i8', before - by) .. string.sub(value, at + 8)
end
local left = redis.call('PTTL', key)
if left < 0 then return redis.error_reply('ERR a key without an end') end
if left <= by then return redis.call('DEL', key) end
if redis.call('TYPE', key).ok == 'string' then
  local value = nearer(redis.call('GET', key), 11)
  if string.byte(value, 2) % 2 == 1 then value = nearer(nearer(value, 67), 75) end
  redis.call('SET', key, value)
end
redis.call('PEXPIRE', key, left - by)
return 1
";
