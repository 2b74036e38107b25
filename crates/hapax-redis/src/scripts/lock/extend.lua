-- Moves the end of each lease that its token holds; never to an earlier time.
-- KEYS: the locks. ARGV, for each: token, lease.
-- Answers, for each: {'until', now, ends} or {'fenced', now}.
return each(1, 2, function(key, _, token, lease)
  local lock = load(key)
  if not lock or lock.token ~= token then
    return { 'fenced', now }
  end
  if now + lease > lock.ends then
    lock.ends = now + lease
    put(key, lock)
  end
  return { 'until', now, lock.ends }
end)
