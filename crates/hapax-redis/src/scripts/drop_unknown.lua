-- Forgets the unknown result beside each live reservation, unless it has become a success.
-- KEYS: the records. ARGV, for each: token.
-- Answers, for each: {'dropped' | 'refused' | 'fenced', now}.
return each(1, function(key, token)
  local record = by_now(load(key))
  if not is_held_by(record, token) then
    return { 'fenced', now }
  end
  local late = kept(record)
  if late and late.state == DONE then
    return { 'refused', now }
  end
  if record.late then
    put(key, string.sub(record.value, 1, HEAD), record.ends)
  end
  return { 'dropped', now }
end)
