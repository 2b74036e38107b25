-- Removes a schedule, while owner and revision are still those that somebody has seen.
-- KEYS: the schedules of a namespace. ARGV: name, owner and revision as they are kept.
-- Answers whether it was removed.
local value = redis.call('HGET', KEYS[1], ARGV[1])
if not value or string.sub(value, 17, 16 + #ARGV[2]) ~= ARGV[2] or string.sub(value, 9, 16) ~= ARGV[3] then
  return 0
end
return redis.call('HDEL', KEYS[1], ARGV[1])
