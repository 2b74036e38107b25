-- Takes each lock from whoever holds it.
-- KEYS, for each: the lock, its mark.
-- Answers, for each: {'broken', now [, last fence, holder, fence, since, ends]}.
return each(2, 0, function(key, marks)
  local lock = load(key)
  if not lock or not lock.token then
    return { 'broken', now }
  end
  local answer = { 'broken', now, lock.fence, lock.holder, lock.held, lock.since, lock.ends }
  free(key, marks, lock)
  return answer
end)
