-- What passed in a queue.
-- ARGV: groups, numbers, the number of the event before (0: from the first), at most how many.
-- Answers {'ok', now, the number of the newest, that of the first that is kept, that of the first in the answer, events}.
local there = stale(call('HGET', FACTS, 'g') or '')
if there then
  return there
end
local last, count, limit = tonumber(call('HGET', FACTS, 'en')) or 0, call('LLEN', EVENTS), tonumber(ARGV[4])
local first = last - count + 1
local from = math.max(tonumber(ARGV[3]) + 1, first)
local found = {}
if from <= last and limit > 0 then
  found = call('LRANGE', EVENTS, from - first, from - first + limit - 1)
end
return { 'ok', now, last, first, from, found }
