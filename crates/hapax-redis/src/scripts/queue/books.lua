-- Looks at the records of a queue themselves.
-- ARGV: groups, numbers, at most how many entries of each kind, how long a lease may be over.
-- Answers {'ok', now, for each group {how many have a place, how many bodies there are, how many of the former that were
-- looked at have none, whether all were, how many leases are over for so long, who has one of them}, how many of the ids
-- that were looked at belong to nobody}.
local there = stale(call('HGET', FACTS, 'g') or '')
if there then
  return there
end
local all, most, late = groups(), tonumber(ARGV[3]), '(' .. string.format('%.0f', now - tonumber(ARGV[4]))
local answers = {}
for k, g in ipairs(all) do
  local placed, bodiless, are_all = 0, 0, 1
  local function look(key, uid_at)
    local count = call('ZCARD', key)
    placed = placed + count
    for _, name in ipairs(call('ZRANGE', key, 0, most - 1)) do
      bodiless = bodiless + 1 - call('HEXISTS', g.bodies, sub(name, uid_at, uid_at + 15))
    end
    if count > most then
      are_all = 0
    end
  end
  for class = 1, 4 do
    look(g.q[class], 7)
  end
  look(g.running, 1)
  look(g.dead, 7)
  local first = call('ZRANGEBYSCORE', g.running, '-inf', late, 'LIMIT', 0, 1)[1]
  answers[k] = {
    placed, call('HLEN', g.bodies), bodiless, are_all, call('ZCOUNT', g.running, '-inf', late),
    first and sub(first, 25) or '',
  }
end
local dangling, ids = 0, call('HSCAN', IDS, 0, 'COUNT', most)[2]
for n = 1, #ids, 2 do
  local field, record = ids[n], ids[n + 1]
  if byte(field) == 107 then -- k
    local is_known = #record > 51 and call('ZSCORE', ENDS, field)
    for _, g in ipairs(all) do
      is_known = is_known or call('HEXISTS', g.bodies, sub(record, 1, 16)) == 1
    end
    if not is_known then
      dangling = dangling + 1
    end
  end
end
return { 'ok', now, answers, dangling }
