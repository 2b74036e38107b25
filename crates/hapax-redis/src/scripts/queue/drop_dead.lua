-- Removes dead letters.
-- ARGV: groups, numbers (those that are meant first), how many groups are meant, uids.
-- Answers {'ok', now, how many were there}.
local there = stale(call('HGET', FACTS, 'g') or '')
if there then
  return there
end
local dropped = 0
for k = 1, tonumber(ARGV[3]) do
  local g = group(k)
  for n = 4, #ARGV do
    local uid = ARGV[n]
    local state, _, body, _, name = place(g, uid)
    if state == DEAD then
      call('ZREM', g.dead, name)
      remove(g, uid, body, true)
      dropped = dropped + 1
    end
  end
end
save()
return { 'ok', now, dropped }
