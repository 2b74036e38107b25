-- The next jobs of one set of a group.
-- ARGV: groups, numbers, which set ('0' to '3' waiting, 'r' running, 'x' dead), 'ready', 'delayed' or '', the score and
-- the name of the last one seen (both empty: from the start), at most how many.
-- Answers {'ok', now, names and scores, bodies, what happened}.
local there = stale(call('HGET', FACTS, 'g') or '')
if there then
  return there
end
local g = group(1)
local key = ARGV[3] == 'r' and g.running or ARGV[3] == 'x' and g.dead or g.q[tonumber(ARGV[3]) + 1]
local uid_at = ARGV[3] == 'r' and 1 or 7

-- As the server puts names in order; the order of Lua's strings depends on the machine's language.
local function is_after(a, b)
  for n = 1, math.max(#a, #b) do
    local x, y = byte(a, n) or -1, byte(b, n) or -1
    if x ~= y then
      return x > y
    end
  end
  return false
end

local from = 0
if ARGV[5] ~= '' then
  local score, name, to = tonumber(ARGV[5]), ARGV[6], call('ZCARD', key)
  while from < to do
    local middle = math.floor((from + to) / 2)
    local there_is = call('ZRANGE', key, middle, middle, 'WITHSCORES')
    local its = tonumber(there_is[2])
    if its > score or (its == score and is_after(there_is[1], name)) then
      to = middle
    else
      from = middle + 1
    end
  end
end
local last = from + tonumber(ARGV[7]) - 1
if ARGV[4] == 'ready' then
  last = math.min(last, call('ZCOUNT', key, '-inf', now) - 1)
elseif ARGV[4] == 'delayed' then
  local first = call('ZCOUNT', key, '-inf', now)
  last = math.max(from, first) + last - from
  from = math.max(from, first)
end
if last < from then
  return { 'ok', now, {}, {}, {} }
end
local names, uids = call('ZRANGE', key, from, last, 'WITHSCORES'), {}
for n = 1, #names, 2 do
  uids[#uids + 1] = sub(names[n], uid_at, uid_at + 15)
end
if #uids == 0 then
  return { 'ok', now, {}, {}, {} }
end
return { 'ok', now, names, call('HMGET', g.bodies, unpack(uids)), call('HMGET', g.facts, unpack(uids)) }
