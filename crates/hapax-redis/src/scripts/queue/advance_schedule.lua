-- Moves the next time of a schedule, if it is what the caller thinks.
-- KEYS: the schedules of a namespace. ARGV: name, from, to (both as they are kept).
-- Answers whether it was.
local before = redis.call('HGET', KEYS[1], ARGV[1])
if not before or string.sub(before, 1, 8) ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3] .. string.sub(before, 9))
return 1
