-- Every request is remembered for one window: a list by time, those of one millisecond together. Each entry: when (8), what
-- all up to it weigh (8), its own weight (4), and the quota it came under (4, 8). So what lies between two entries is a
-- difference, and a place in the list is found by halving.
local exact = {}

local function entry(view, i)
  local seen = view.seen[i]
  if not seen then
    local at, total, weight, _, window = unp('>i8i8I4I4i8', call('LINDEX', view.key, i))
    seen = { at = at, total = total, weight = weight, window = window }
    view.seen[i] = seen
  end
  return seen
end

-- The first place from `low` to before `high` for which it holds; it holds for all behind.
local function search(view, low, high, holds)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if holds(entry(view, middle)) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

function exact.open(key, limit, window)
  local count = call('LLEN', key)
  local view = { key = key, limit = limit, window = window, count = count, first = count, last = count - 1, sum = 0, seen = {} }
  if count > 0 then
    local newest = entry(view, count - 1)
    if newest.at + newest.window > now then
      local function counts(one)
        return one.at + window > now
      end
      view.first = counts(entry(view, 0)) and 0 or search(view, 0, count, counts)
      -- A clock that was set: what is further ahead than a window is forgotten.
      if newest.at > now + window then
        view.last = search(view, 0, count, function(one)
          return one.at > now + window
        end) - 1
      end
    end
    if view.first <= view.last then
      view.sum = entry(view, view.last).total - entry(view, view.first).total + entry(view, view.first).weight
    end
  end
  view.from, view.to = view.first, view.last
  return view
end

function exact.wait(view, cost)
  local surplus = view.sum + cost - view.limit
  if surplus <= 0 then
    return 0
  end
  local goal = entry(view, view.first).total - entry(view, view.first).weight + surplus
  local place = search(view, view.first, view.last, function(one)
    return one.total >= goal
  end)
  return entry(view, place).at + view.window - now
end

function exact.room(view)
  return max(0, view.limit - view.sum)
end

function exact.reset(view)
  return view.first <= view.last and entry(view, view.last).at + view.window - now or 0
end

function exact.take(view, cost)
  local newest = view.first <= view.last and entry(view, view.last) or nil
  view.sum = view.sum + cost
  -- Where the clock went back a little, it counts as of the newest.
  if newest and newest.at >= now then
    view.added = { at = newest.at, total = newest.total + cost, weight = newest.weight + cost }
    view.joins = true
    view.seen[view.last] = view.added
    return
  end
  view.added = { at = now, total = (newest and newest.total or 0) + cost, weight = cost }
  if not newest then
    view.first, view.last = view.count, view.count - 1
  end
  view.last = view.last + 1
  view.seen[view.last] = view.added
end

function exact.write(view)
  local added = view.added
  local packed = pack('>i8i8I4I4i8', added.at, added.total, added.weight, view.limit, view.window)
  if view.from > view.to then
    if view.count > 0 then
      call('DEL', view.key)
    end
  else
    if view.joins then
      call('LSET', view.key, view.to, packed)
    end
    if view.from > 0 or view.to < view.count - 1 then
      call('LTRIM', view.key, view.from, view.to)
    end
  end
  if not view.joins then
    call('RPUSH', view.key, packed)
  end
  call('PEXPIREAT', view.key, now + exact.reset(view))
end

-- Takes `cost` from what came last.
function exact.refund(view, cost)
  for i = view.last, view.first, -1 do
    local one = entry(view, i)
    local part = min(cost, one.weight)
    one.total, one.weight, cost = one.total - cost, one.weight - part, cost - part
    if one.weight == 0 and i == view.last then
      call('RPOP', view.key)
      view.last = view.last - 1
    else
      call('LSET', view.key, i, pack('>i8i8I4I4i8', one.at, one.total, one.weight, view.limit, one.window))
    end
    if cost == 0 then
      break
    end
  end
  return true
end

