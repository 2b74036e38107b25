-- What is known of a job.
-- ARGV: groups, numbers, which job.
-- Answers {'ok', now, for each group that has it {number, state, time, body, what happened, consumer}, uid, the field of
-- its id, what is remembered of it, its result}.
local there = stale(call('HGET', FACTS, 'g') or '')
if there then
  return there
end
local all = groups()
local uid = meant(all)
if not uid then
  return { 'ok', now, {} }
end
-- Where it runs; a look at a queue may take a while, but not for ever.
local function run_of(g)
  for from = 0, 9 * SCANNED, SCANNED do
    local names = call('ZRANGE', g.running, from, from + SCANNED - 1, 'WITHSCORES')
    for n = 1, #names, 2 do
      if sub(names[n], 1, 16) == uid then
        return tonumber(names[n + 1]), sub(names[n], 25)
      end
    end
    if #names < 2 * SCANNED then
      break
    end
  end
  return now, ''
end
local found = {}
for _, g in ipairs(all) do
  local state, at, body, value = place(g, uid)
  local consumer = ''
  if state == RUNNING then
    at, consumer = run_of(g)
  end
  if state then
    found[#found + 1] = { tonumber(g.n), state, at, body, value or '', consumer }
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
