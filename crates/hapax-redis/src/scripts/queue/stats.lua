-- The figures of all groups.
-- ARGV: groups, numbers.
-- Answers {'ok', now, for each {ready, delayed, running, dead, added, done, cancelled, lost, paused, since when the
-- oldest is ready (-1: none is), when a worker was last seen (-1: never)}}.
local there = stale(call('HGET', FACTS, 'g') or '')
if there then
  return there
end
local answers = {}
for k, g in ipairs(groups()) do
  local ready, delayed, oldest = 0, 0, -1
  for class = 1, 4 do
    local waiting, due = call('ZCARD', g.q[class]), call('ZCOUNT', g.q[class], '-inf', now)
    ready, delayed = ready + due, delayed + waiting - due
    if due > 0 then
      local first = tonumber(call('ZRANGE', g.q[class], 0, 0, 'WITHSCORES')[2])
      oldest = oldest < 0 and first or math.min(oldest, first)
    end
  end
  local meta = call('HMGET', FACTS, 'a' .. g.n, 'd' .. g.n, 'c' .. g.n, 'l' .. g.n, 'p' .. g.n, 's' .. g.n)
  answers[k] = { ready, delayed, call('ZCARD', g.running), call('ZCARD', g.dead) }
  for n = 1, 5 do
    answers[k][4 + n] = tonumber(meta[n]) or 0
  end
  answers[k][10] = oldest
  answers[k][11] = tonumber(meta[6]) or -1
end
return { 'ok', now, answers }
