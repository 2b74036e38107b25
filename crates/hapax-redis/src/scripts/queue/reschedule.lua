-- Gives a waiting job another time, in all groups.
-- ARGV: groups, numbers, which job, '+' and a delay or '@' and an instant.
-- Answers {'ok', now, in how many groups it waited}.
local there = stale(call('HGET', FACTS, 'g') or '')
if there then
  return there
end
local all = groups()
local uid, moved = meant(all), 0
local ms = tonumber(sub(ARGV[5], 2))
local due = byte(ARGV[5]) == 64 and math.max(now, ms) or now + ms
for _, g in ipairs(uid and all or {}) do
  local state, _, body, value, name = place(g, uid)
  if state == READY or state == DELAYED then
    call('ZREM', g.q[class_of(body)], name)
    local f = facts_of(value, body)
    if not value or byte(value) > 1 then
      -- No worker has had it, and that stays so.
      f.flags = 2
    end
    again(g, uid, body, f, due)
    tell(g, uid, 9, f.attempts, '', due, 0, '')
    call('ZADD', g.wake, due <= now and 0 or 1, due <= now and 'r' or 'd')
    moved = moved + 1
  end
end
save()
return { 'ok', now, moved }
