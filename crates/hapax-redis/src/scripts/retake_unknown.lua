-- Holds each key of unknown outcome pending while somebody is asked; the unknown result stays beside it.
-- KEYS: the records. ARGV, for each: token, fingerprint, lease.
-- Answers, for each: {'yours', now, ends, first_at} or {'changed', now [, record]}.
return each(3, function(key, token, print, lease)
  local record = settle(key, load(key))
  if is_held_by(record, token) then
    return { 'yours', now, lease_end(key, record), first_at(record) }
  end
  if not record or record.state ~= UNKNOWN then
    return shown('changed', record)
  end
  local ends = now + lease
  put(key, reservation(token, print, first_at(record), ends) .. record.value, math.max(ends, record.ends))
  return { 'yours', now, ends, first_at(record) }
end)
