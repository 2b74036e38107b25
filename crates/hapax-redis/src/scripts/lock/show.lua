-- Shows each lock. Writes nothing.
-- KEYS: the locks.
-- Answers, for each: {'shown', now [, last fence [, holder, fence, since, ends]]}.
return each(1, 0, function(key)
  local lock = load(key)
  if not lock then
    return { 'shown', now }
  end
  if not lock.token then
    return { 'shown', now, lock.fence }
  end
  return { 'shown', now, lock.fence, lock.holder, lock.held, lock.since, lock.ends }
end)
