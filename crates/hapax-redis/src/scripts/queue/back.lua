-- Giving jobs back.

-- Gives back jobs that run, by their names.
local function give_back(g, names)
  for _, name in ipairs(names) do
    local uid = sub(name, 1, 16)
    call('ZREM', g.running, name)
    holds(g, sub(name, 25), -1)
    local body = call('HGET', g.bodies, uid)
    if body then
      local f = facts_of(call('HGET', g.facts, uid), body)
      if is_cancelled(f) then
        cancelled(g, uid, body)
      else
        f.given = more(f.given)
        put(g, uid, body, f)
        tell(g, uid, 4, f.attempts, sub(name, 25), 0, 0, '')
      end
    end
  end
  if #names > 0 then
    wake(g)
  end
end

-- Jobs that run with a consumer, and that it did not name; those whose leases end first come first. `below`: only those
-- with a lower delivery.
local function unnamed(g, consumer, named, below)
  local found = {}
  local has = tonumber(call('HGET', g.held, consumer) or 0)
  if has == 0 then
    return found, 0
  end
  for _, name in ipairs(call('ZRANGE', g.running, 0, SCANNED - 1)) do
    if #found == MOST then
      break
    end
    if sub(name, 25) == consumer and not named[name] and (not below or unp('>I8', name, 17) < below) then
      found[#found + 1] = name
    end
  end
  return found, has
end

