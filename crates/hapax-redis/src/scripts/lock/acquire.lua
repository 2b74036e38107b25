-- Takes each lock for a token, unless another holds it.
-- KEYS: the locks. ARGV, for each: token, lease, what the holder says of itself.
-- Answers, for each: {'yours', now, fence, ends} or {'busy', now, milliseconds left}, or a number in the usual case.
local micros = time[1] * 1000000 + time[2]
return each(1, 3, function(key, _, token, lease, holder)
  local lock = load(key)
  if lock and lock.token == token then
    return { 'yours', now, lock.held, lock.ends }
  end
  if lock and lock.token then
    return { 'busy', now, lock.ends - now }
  end
  lock = lock or { fence = 0, wanted = 0 }
  if lock.released == token then
    lock.released = nil
  end
  lock.fence = math.min(math.max(lock.fence + 1, micros), MOST)
  lock.token, lock.held, lock.since, lock.ends, lock.holder = token, lock.fence, now, now + lease, holder
  lock.set = now
  put(key, lock)
  return { 'yours', now, lock.held, lock.ends }
end, answers)
