-- Gives jobs back unfinished.
-- ARGV: groups, numbers, consumer, '1' (all that it has) or '0', how many jobs, the name of each.
-- Answers {'ok', now, for each '1' or '0' (not its own), how many it still has}.
local g = group(1)
local there = stale(call('HGET', FACTS, 'g') or '')
if there then
  return there
end
local consumer, leaves, jobs = ARGV[3], ARGV[4] == '1', tonumber(ARGV[5])
local marks, names, seen = {}, {}, {}
if jobs > 0 then
  local scores = call('ZMSCORE', g.running, unpack(ARGV, 6, 5 + jobs))
  for i = 1, jobs do
    local name = ARGV[5 + i]
    marks[i] = '0'
    if scores[i] and not seen[name] then
      marks[i], seen[name] = '1', true
      names[#names + 1] = name
    end
  end
  give_back(g, names)
end
local left = 0
if leaves and #names < MOST then
  give_back(g, (unnamed(g, consumer, {}, nil)))
end
if leaves then
  left = tonumber(call('HGET', g.held, consumer) or 0)
end
save()
return { 'ok', now, table.concat(marks), left }
