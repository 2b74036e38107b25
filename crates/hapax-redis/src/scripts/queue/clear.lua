-- Removes the first jobs of a group, whatever they are.
-- ARGV: groups, numbers.
-- Answers {'ok', now, how many were removed, how many there were}.
local g = group(1)
local there = stale(call('HGET', FACTS, 'g') or '')
if there then
  return there
end
local before, removed = call('HLEN', g.bodies), 0
local function take(key, uid_at, was_dead)
  for _, name in ipairs(call('ZRANGE', key, 0, MOST - removed - 1)) do
    local uid = sub(name, uid_at, uid_at + 15)
    call('ZREM', key, name)
    if key == g.running then
      holds(g, sub(name, 25), -1)
    end
    local body = call('HGET', g.bodies, uid)
    if body then
      remove(g, uid, body, was_dead)
    end
    removed = removed + 1
  end
end
for class = 1, 4 do
  if removed < MOST then
    take(g.q[class], 7, false)
  end
end
if removed < MOST then
  take(g.running, 1, false)
end
if removed < MOST then
  take(g.dead, 7, true)
end
save()
return { 'ok', now, removed, before }
