-- The usual, before anything else is set up: nobody ever held the lock, or its last holder gave it back and nobody waited,
-- and its last fence is below the clock. The first lock that is otherwise, and all after it, are left to what follows.
-- Answers with a number where all locks were like that: their fence, which is the server's time in microseconds.
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = (micros - micros % 1000) / 1000
local ask, pack, KEYS, ARGV = redis.pcall, struct.pack, KEYS, ARGV
local fence, instant = pack('>i8', micros), pack('>i8', now)
-- Nobody waits, and no release is remembered.
local new = '\1\1' .. fence .. instant .. '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
local lease, grant
local done = 0
for i = 1, #KEYS do
  local key, token, holder = KEYS[i], ARGV[3 * i - 2], ARGV[3 * i]
  if lease ~= ARGV[3 * i - 1] then
    lease = ARGV[3 * i - 1]
    local ends = now + lease
    if ends - now > 604800000 then
      break
    end
    grant = fence .. instant .. pack('>i8', ends)
  end
  local value, answer = ask('GET', key), nil
  if not value then
    answer = ask('SET', key, new .. token .. grant .. holder, 'PX', '691200000')
  else
    if type(value) ~= 'string' or #value < 82 then
      break
    end
    local version, state, last, set, _, given, held = struct.unpack('>BBi8i8i8c16c16', value)
    if version ~= 1 or state % 2 == 0 or state > 3 or given ~= held or held == token or last >= micros then
      break
    end
    if #value == 82 + #holder and now - set < 86400000 then
      -- The key ends in a week at least, as it is.
      value = '\1\3' .. fence .. string.sub(value, 11, 42) .. token .. grant .. holder
      answer = ask('SETRANGE', key, '0', value)
    else
      value = '\1\3' .. fence .. instant .. string.sub(value, 19, 42) .. token .. grant .. holder
      answer = ask('SET', key, value, 'PX', '691200000')
    end
  end
  if type(answer) == 'table' and answer.err then
    break
  end
  done = i
end
if done == #KEYS then
  return micros
end
local answers = {}
for i = 1, done do
  answers[i] = micros
end

