-- A window that starts with its first request: start, count.
local fixed = {}

function fixed.open(key, limit, window)
  local view = { key = key, limit = limit, window = window, count = 0 }
  local kept = call('GET', key)
  if kept then
    local _, old, start, count = unp('>I4i8i8i8', kept)
    if now < start + min(old, window) then
      view.was_set = start > now + window
      view.start, view.count = view.was_set and now or start, count
    end
  end
  return view
end

function fixed.reset(view)
  return view.start and view.start + view.window - now or 0
end

function fixed.wait(view, cost)
  return view.count + cost <= view.limit and 0 or fixed.reset(view)
end

function fixed.room(view)
  return max(0, view.limit - view.count)
end

function fixed.take(view, cost)
  view.start, view.count = view.start or now, view.count + cost
end

function fixed.write(view)
  local kept = pack('>I4i8i8i8', view.limit, view.window, view.start, view.count)
  call('SET', view.key, kept, 'PXAT', string.format('%d', now + fixed.reset(view)))
end

-- Takes back what was counted.
function fixed.refund(view, cost)
  view.count = max(0, view.count - cost)
  return view.count > 0
end

