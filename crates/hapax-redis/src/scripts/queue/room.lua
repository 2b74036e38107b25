-- The limits of a queue.

-- How many ready jobs the limits let start now; and in how many milliseconds one more, when it is the rate that holds
-- them back. Also the bucket then.
local function admitted(g, want, most, rate, window, used, at)
  if most then
    want = math.min(want, math.max(0, most - call('ZCARD', g.running)))
  end
  if not rate then
    return want, nil
  end
  rate, window, used, at = tonumber(rate), tonumber(window), tonumber(used or 0), tonumber(at or 0)
  used = math.max(0, used - math.max(0, now - at) * rate)
  local room = math.floor(math.max(0, rate * window - used) / window)
  local later = room < want and math.ceil(math.max(0, used + window - rate * window) / math.max(1, rate)) or nil
  return math.min(room, want), later, used, window
end

