-- The usual, before anything else is set up: the token holds the lock, and nobody waits for it. The first lock that is
-- otherwise, and all after it, are left to what follows. The holder stays in the value: a name for the last release that is
-- its token says that it has given the lock back.
-- Answers with a number where all locks were like that.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ask, sub, KEYS, ARGV = redis.pcall, string.sub, KEYS, ARGV
local done = 0
for i = 1, #ARGV do
  local key, token = KEYS[2 * i - 1], ARGV[i]
  local value = ask('GET', key)
  if type(value) ~= 'string' or #value < 82 or sub(value, 43, 58) ~= token or token == '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' then
    break
  end
  local version, state = string.byte(value, 1, 2)
  local nobody_waits = string.find(value, '\0\0\0\0\0\0\0\0', 19, true) == 19
  if version ~= 1 or state % 2 == 0 or state > 3 or not nobody_waits or struct.unpack('>i8', value, 75) <= now
    or sub(value, 27, 42) == token then
    break
  end
  if type(ask('SETRANGE', key, '26', token)) == 'table' then
    break
  end
  done = i
end
if done == #ARGV then
  return 1
end
local answers = {}
for i = 1, done do
  answers[i] = 1
end

