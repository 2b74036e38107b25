-- Whether a step of a group would find something.
-- ARGV: groups, numbers.
-- Answers {'ok', now, in how many milliseconds: 0 at once, -1 nobody knows}. Where it is not at once, marks that were
-- left are for nothing.
local g = group(1)
local meta = call('HMGET', FACTS, 'g', 'classes', 'most', 'rate', 'window', 'p' .. g.n, 'u' .. g.n, 't' .. g.n)
local there = stale(meta[1] or '')
if there then
  return there
end
local soon = -1
local function sooner(at)
  at = math.max(0, at - now)
  soon = soon < 0 and at or math.min(soon, at)
end
if meta[6] ~= '1' then
  local late = call('ZRANGE', g.running, 0, 0, 'WITHSCORES')[2]
  if late then
    sooner(tonumber(late))
  end
  local room, later = admitted(g, 1, tonumber(meta[3]), meta[4], meta[5], meta[7], meta[8])
  for class = 1, 4 do
    if string.find(meta[2] or '', class - 1, 1, true) then
      local first = call('ZRANGE', g.q[class], 0, 0, 'WITHSCORES')[2]
      if first and tonumber(first) > now then
        sooner(tonumber(first))
      elseif first and room > 0 then
        sooner(now)
      elseif first then
        if later and later > 0 then
          sooner(now + later)
        end
        local due = call('ZRANGEBYSCORE', g.q[class], '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
        if due then
          sooner(tonumber(due))
        end
      end
    end
  end
end
if soon ~= 0 then
  call('UNLINK', g.wake)
end
return { 'ok', now, soon }
