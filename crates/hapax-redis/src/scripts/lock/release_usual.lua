-- The usual, before anything else is set up: the token holds the lock, and nobody waits for it. The first lock that is
-- otherwise, and all after it, are left to what follows.
-- Answers with a number where all locks were like that.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local sub, pack, unp, ask = string.sub, struct.pack, struct.unpack, redis.pcall
local answers, has_failed = {}, false
for i = 1, #ARGV do
  local key, token = KEYS[2 * i - 1], ARGV[i]
  local value = ask('GET', key)
  if type(value) ~= 'string' or #value < 82 or sub(value, 43, 58) ~= token then
    break
  end
  local version, state, fence, _, wanted = unp('>BBi8i8i8', value)
  if version ~= 1 or state % 2 == 0 or state > 3 or wanted > now or unp('>i8', value, 75) <= now then
    break
  end
  local answer = ask('SET', key, '\1\2' .. sub(value, 3, 10) .. pack('>i8', now) .. sub(value, 19, 26) .. token,
    'PXAT', math.max(math.floor(fence / 1000), now) + 604800000)
  has_failed = has_failed or answer.err
  answers[i] = answer.err and answer or 1
end
if #answers == #ARGV then
  return has_failed and answers or 1
end

