-- Tokens that come in evenly: when they were counted, how many credits there were. A token is as many credits as the window
-- has milliseconds, so that each millisecond brings as many as the limit has tokens: there are no fractions.
local bucket = {}

function bucket.open(key, limit, window)
  local view = { key = key, limit = limit, window = window, at = now, credits = limit * window }
  local kept = call('GET', key)
  if kept then
    local old_limit, old, at, credits = unp('>I4i8i8i8', kept)
    credits = min(credits + min(max(0, now - at), old) * old_limit, old_limit * old)
    at = max(at, now)
    if credits < old_limit * old then
      if old == window then
        credits = min(credits, limit * window)
      else
        credits = min(floor_of(credits, old), limit) * window
      end
      if at > now + window then
        at, view.was_set = now, true
      end
      view.at, view.credits = at, credits
    end
  end
  return view
end

local function until_has(view, credits)
  local missing = credits - view.credits
  -- Nothing comes in before the clock is where it was.
  return missing > 0 and view.at - now + ceil_of(missing, view.limit) or 0
end

function bucket.wait(view, cost)
  return until_has(view, cost * view.window)
end

function bucket.room(view)
  return floor_of(view.credits, view.window)
end

function bucket.reset(view)
  return until_has(view, view.limit * view.window)
end

function bucket.take(view, cost)
  view.credits = view.credits - cost * view.window
end

function bucket.write(view)
  local kept = pack('>I4i8i8i8', view.limit, view.window, view.at, view.credits)
  call('SET', view.key, kept, 'PXAT', string.format('%d', now + bucket.reset(view)))
end

function bucket.refund(view, cost)
  view.credits = min(view.limit * view.window, view.credits + cost * view.window)
  return view.credits < view.limit * view.window
end

