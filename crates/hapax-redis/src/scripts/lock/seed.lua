-- Makes the next fence of each lock larger than a number.
-- KEYS: the locks. ARGV, for each: the number.
-- Answers, for each: {'fence', now, last fence}.
return each(1, 1, function(key, _, least)
  local lock = load(key) or { fence = 0, wanted = 0 }
  lock.fence, lock.set = math.max(lock.fence, tonumber(least)), now
  put(key, lock)
  return { 'fence', now, lock.fence }
end)
