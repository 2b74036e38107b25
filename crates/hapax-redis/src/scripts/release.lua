-- Frees each key, when its token holds it.
-- KEYS: the records. ARGV, for each: token.
-- Answers, for each: {'applied' | 'fenced', now}.
return each(1, function(key, token)
  local record = load(key)
  if not is_held_by(record, token) then
    return { 'fenced', now }
  end
  finish(key, record)
  return { 'applied', now }
end)
