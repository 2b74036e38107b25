-- What is known of a job.
-- ARGV: groups, numbers, which job.
-- Answers {'ok', now, for each group that has it {number, state, time, body, what happened, consumer, since when it runs,
-- its history, how far it is}, uid, the field of its id, what is remembered of it, its result}.
local there = stale(call('HGET', FACTS, 'g') or '')
if there then
  return there
end
local all = groups()
local uid = meant(all)
if not uid then
  return { 'ok', now, {} }
end
local found = {}
for _, g in ipairs(all) do
  local state, at, body, value = place(g, uid)
  local consumer, taken, delivery, said = '', -1, nil, nil
  if state == RUNNING then
    at, consumer, taken, delivery = run_of(g, uid, 10)
    said = call('HGET', g.facts, 'p' .. uid)
  end
  if state then
    found[#found + 1] = {
      tonumber(g.n), state, at, body, value or '', consumer, taken, value and call('HGET', g.facts, 'h' .. uid) or '',
      said and sub(said, 1, 8) == delivery and sub(said, 9) or '',
    }
  end
end
if #found > 0 then
  return { 'ok', now, found, uid }
end
local field, record = memory_of(uid)
if not record and ARGV[3] == 'k' then
  local holds_it, whole = holder(all, ARGV[4])
  if holds_it and #whole > 51 then
    field, record = ARGV[4], whole
  end
end
return { 'ok', now, found, uid, field or '', record or '', result_of(uid) }
