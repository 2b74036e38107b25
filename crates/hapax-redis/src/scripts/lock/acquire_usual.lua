-- The usual, before anything else is set up: nobody holds the lock, or ever did, and its last fence is below the clock. The
-- first lock that is otherwise, and all after it, are left to what follows.
-- Answers with a number where all locks were like that: their fence, which is the server's time in microseconds.
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
local sub, byte, pack, unp, ask = string.sub, string.byte, struct.pack, struct.unpack, redis.pcall
local answers, has_failed = {}, false
for i = 1, #KEYS do
  local key, token, lease = KEYS[i], ARGV[3 * i - 2], tonumber(ARGV[3 * i - 1])
  local value = ask('GET', key)
  -- Until when somebody waits, and the last release.
  local state, kept = 1, '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
  if value then
    if type(value) ~= 'string' or #value ~= 42 then
      break
    end
    local version, before, fence = unp('>BBi8', value)
    kept = sub(value, 19)
    if version ~= 1 or before % 2 == 1 or before > 2 or fence >= micros or sub(kept, 9) == token then
      break
    end
    state = before + 1
  end
  local ends = now + lease
  local answer = ask('SET', key, pack('>BBi8i8', 1, state, micros, now) .. kept .. token
    .. pack('>i8i8i8', micros, now, ends) .. ARGV[3 * i], 'PXAT', math.max(now + 604800000, ends))
  has_failed = has_failed or answer.err
  answers[i] = answer.err and answer or micros
end
if #answers == #KEYS then
  return has_failed and answers or micros
end

