-- Takes dead letters of a group back into the queue.
-- ARGV: groups, numbers (the group first), '1' (however often that was done before) or '0', how often it may be done,
-- uids.
-- Answers {'ok', now, for each 'r' ready, 'n' no dead letter, 't' too often, or the uid that has its id}.
local there = stale(call('HGET', FACTS, 'g') or '')
if there then
  return there
end
local g, all, answers = group(1), groups(), {}
for n = 5, #ARGV do
  local uid = ARGV[n]
  local state, _, body, value, name = place(g, uid)
  local answer = 'n'
  if state == DEAD then
    local f, field = facts_of(value, body), id_of(body)
    local other = holder(all, field)
    if f.redriven >= tonumber(ARGV[4]) and ARGV[3] ~= '1' then
      answer = 't'
    elseif other and other ~= uid then
      answer = other
    else
      answer = 'r'
      call('ZREM', g.dead, name)
      local fresh = facts_of(false, body)
      fresh.redriven = more(f.redriven)
      again(g, uid, body, fresh, now)
      tell(g, uid, 6, 0, '', 0, 0, '')
      if field ~= '' then
        call('ZREM', ENDS, field)
        call('HSET', IDS, field, uid .. sub(body, 33, 66) .. '\0')
      end
      wake(g)
    end
  end
  answers[#answers + 1] = answer
end
save()
return { 'ok', now, answers }
