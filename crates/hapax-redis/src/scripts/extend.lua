-- Moves the end of each live lease; never to an earlier time.
-- KEYS: the records. ARGV, for each: token, lease.
-- Answers, for each: {'until', now, ends} or {'fenced', now}.
return each(2, function(key, token, lease)
  local record = by_now(load(key))
  if not is_held_by(record, token) then
    return { 'fenced', now }
  end
  local ends = math.max(lease_end(key, record), now + lease)
  local owner = reservation(token, prints(record), first_at(record), ends)
  if record.late then
    put(key, owner .. record.late.value, math.max(ends, record.late.ends))
  else
    put(key, owner, ends)
  end
  return { 'until', now, ends }
end)
