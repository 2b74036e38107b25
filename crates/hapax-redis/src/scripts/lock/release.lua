-- Gives each lock back that its token holds; a release that was carried out before says so again.
-- KEYS, for each: the lock, its mark. ARGV, for each: token.
-- Answers, for each: {'applied' | 'fenced', now}, or a number in the usual case.
return each(2, 1, function(key, marks, token)
  local lock = load(key)
  if lock and lock.token == token then
    lock.released = token
    free(key, marks, lock)
    return { 'applied', now }
  end
  return { lock and lock.released == token and 'applied' or 'fenced', now }
end, answers)
