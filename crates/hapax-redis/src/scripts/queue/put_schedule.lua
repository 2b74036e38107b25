-- Puts a schedule in place of the one of its name, unless that has another owner or a higher revision.
-- KEYS: the schedules of a namespace. ARGV: name, owner as it is kept, revision as it is kept, the whole.
-- Answers whether it is there now.
local before = redis.call('HGET', KEYS[1], ARGV[1])
if before then
  if string.sub(before, 17, 16 + #ARGV[2]) ~= ARGV[2] then
    return 0
  end
  for n = 1, 8 do
    local old, new = string.byte(before, 8 + n), string.byte(ARGV[3], n)
    if old > new then
      return 0
    elseif old < new then
      break
    end
  end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[4])
return 1
