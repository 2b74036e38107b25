-- The counts of this window and of the one before: start, previous, current.
local counter = {}

local function estimate(previous, current, start, window)
  local left = window - max(0, now - start)
  return ceil_of(previous * left, window) + current
end

function counter.open(key, limit, window)
  local view = { key = key, limit = limit, window = window, start = now, previous = 0, current = 0 }
  local kept = call('GET', key)
  if kept then
    local _, old, start, previous, current = unp('>I4i8i8i8i8', kept)
    local age = floor_of(max(0, now - start), old)
    if age == 1 then
      start, previous, current = start + old, current, 0
    elseif age > 1 then
      start, previous, current = now, 0, 0
    end
    if old ~= window then
      start, previous, current = now, 0, estimate(previous, current, start, old)
    end
    if start > now + window then
      start, view.was_set = now, true
    end
    view.start, view.previous, view.current = start, previous, current
  end
  return view
end

-- How long until a window in which `weight` is the count before has so little of it left that it fits into `room`.
local function until_fits(view, weight, room)
  local left = weight > 0 and floor_of(room * view.window, weight) or view.window
  return view.window - min(left, view.window)
end

function counter.wait(view, cost)
  if estimate(view.previous, view.current, view.start, view.window) + cost <= view.limit then
    return 0
  end
  local room, fits = view.limit - view.current - cost, nil
  if room >= 0 then
    fits = until_fits(view, view.previous, room)
  else
    fits = view.window + until_fits(view, view.current, view.limit - cost)
  end
  return max(0, view.start + fits - now)
end

function counter.room(view)
  return max(0, view.limit - estimate(view.previous, view.current, view.start, view.window))
end

function counter.reset(view)
  local windows = view.current > 0 and 2 or view.previous > 0 and 1 or 0
  return windows > 0 and view.start + windows * view.window - now or 0
end

function counter.take(view, cost)
  view.current = view.current + cost
end

function counter.write(view)
  local kept = pack('>I4i8i8i8i8', view.limit, view.window, view.start, view.previous, view.current)
  call('SET', view.key, kept, 'PXAT', now + counter.reset(view))
end

function counter.refund(view, cost)
  local rest = max(0, cost - view.current)
  view.current = max(0, view.current - cost)
  view.previous = max(0, view.previous - rest)
  return view.current > 0 or view.previous > 0
end

