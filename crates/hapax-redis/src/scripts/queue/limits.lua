-- Sets the bounds of a queue; one that is empty is no bound.
-- ARGV: groups, numbers, how the groups of a new queue are, max_len, concurrency, rate, window, how many events are
-- kept, the rate for each value.
-- Answers {'ok', now}.
local there = call('HGET', FACTS, 'g') or ''
if there ~= ARGV[1] then
  return { 'groups', now, there }
end
if there == '' then
  note('g', ARGV[3])
end
for n, field in ipairs({ 'max', 'most', 'rate', 'window', 'ev', 'per' }) do
  if ARGV[3 + n] == '' then
    call('HDEL', FACTS, field)
  else
    note(field, ARGV[3 + n])
  end
end
if ARGV[8] == '' then
  call('UNLINK', EVENTS)
else
  call('LTRIM', EVENTS, -tonumber(ARGV[8]), -1)
end
save()
for _, g in ipairs(groups()) do
  wake(g)
end
return { 'ok', now }
