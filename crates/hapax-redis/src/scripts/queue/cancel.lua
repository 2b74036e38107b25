-- Cancels a job in all groups.
-- ARGV: groups, numbers, which job.
-- Answers {'ok', now, in how many it was removed, in how many its worker will be told, how it was over (0: it was not)}.
local there = stale(call('HGET', FACTS, 'g') or '')
if there then
  return there
end
-- An old server without room takes a script whose first write needs none.
call('HDEL', group(1).held, '')
local all = groups()
local uid = meant(all)
local removed, told, ended = 0, 0, 0
if uid then
  local before = furthest(all, uid)
  if before == 0 then
    local field, record = memory_of(uid)
    if not record and ARGV[3] == 'k' then
      _, record = holder(all, ARGV[4])
    end
    ended = record and byte(record, 51) or 0
  elseif before == DEAD then
    ended = DEAD
  end
  for _, g in ipairs(all) do
    local state, _, body, value, name = place(g, uid)
    if state == READY or state == DELAYED then
      call('ZREM', g.q[class_of(body)], name)
      remove(g, uid, body, false)
      removed = removed + 1
    elseif state == RUNNING then
      local f = facts_of(value, body)
      f.flags = 1
      call('HSET', g.facts, uid, packed(f))
      local _, consumer = run_of(g, uid, 1)
      tell(g, uid, 8, f.attempts, consumer, 0, 0, '')
      told = told + 1
    end
  end
  save()
end
return { 'ok', now, removed, told, ended }
