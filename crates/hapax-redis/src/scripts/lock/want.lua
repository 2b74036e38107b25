-- Tells the holder of each lock that somebody waits for it.
-- KEYS: the locks. ARGV, for each: for how many milliseconds.
-- Answers, for each: {'rest', now, milliseconds left of the lease}.
return each(1, 1, function(key, _, wait)
  local lock = load(key)
  if not lock or not lock.token then
    return { 'rest', now, 0 }
  end
  if lock.wanted < now + wait then
    lock.wanted = now + wait
    put(key, lock)
  end
  return { 'rest', now, lock.ends - now }
end)
