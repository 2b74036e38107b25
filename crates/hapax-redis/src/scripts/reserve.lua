-- Holds each key pending for a token, unless something holds it.
-- KEYS: the records. ARGV, for each: token, fingerprint, lease.
-- Answers, for each: {'yours', now, ends, first_at} or {'held', now, record}.
return each(3, function(key, token, print, lease)
  local record = settle(key, load(key))
  if is_held_by(record, token) then
    return { 'yours', now, lease_end(key, record), first_at(record) }
  end
  if record then
    return shown('held', record)
  end
  local ends = now + lease
  put(key, reservation(token, print, now, ends), ends)
  return { 'yours', now, ends, now }
end)
