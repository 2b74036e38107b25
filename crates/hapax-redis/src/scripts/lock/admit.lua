-- Carries out a command, unless a holder with a larger fence has written, or this one did.
-- KEYS: where the last fence is remembered, the keys of the command. ARGV: fence, for how many milliseconds it is
-- remembered (0: for ever), the command.
-- Answers: {'applied', what the command said}, {'repeat'} or {'stale', last fence}.
local last = tonumber(redis.call('GET', KEYS[1]) or 0)
local fence = tonumber(ARGV[1])
if not last then
  return redis.error_reply('WRONGTYPE no fence')
end
if fence < last then
  return { 'stale', last }
end
if fence == last then
  return { 'repeat' }
end
local answer = redis.call(unpack(ARGV, 3))
if ARGV[2] == '0' then
  redis.call('SET', KEYS[1], ARGV[1])
else
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return { 'applied', answer }
