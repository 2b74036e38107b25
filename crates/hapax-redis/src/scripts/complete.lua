-- Keeps each result, wherever it can be kept without touching another owner's.
-- KEYS: the records. ARGV, for each: version, state, token and fingerprint as in the record, with the state of a
-- reservation for a success that may be kept with the caller's times; ttl; those times, codec and receipt.
-- Answers, for each: a number, or {'stored' | 'already_done' | 'stored_late', now}, or {'superseded', now, record before}.
return each(3, function(key, owner, ttl, rest)
  local token, receipt = string.sub(owner, 3, 18), string.sub(rest, 17)
  if string.byte(owner, 2) == PENDING then
    owner = '\1\1' .. string.sub(owner, 3)
  end
  -- The first of these keys was looked at before.
  local value = unusual
  unusual = nil
  if value == nil or type(value) == 'table' then
    value = redis.call('GET', key)
  end
  local before = value and parse(value) or nil
  local record = settle(key, before)
  local is_success = string.byte(owner, 2) == DONE
  local ends = now + ttl
  if not record then
    local first = is_held_by(before, token) and first_at(before) or now
    put(key, result(owner, first, ttl, receipt), ends)
    return { 'stored', now }
  end
  if is_held_by(record, token) then
    local late = kept(record)
    -- An owner's unknown does not hide a success that lies beside it.
    if late and late.state == DONE and not is_success then
      put(key, late.value, late.ends)
    else
      put(key, result(owner, first_at(record), ttl, receipt), ends)
    end
    return { 'stored', now }
  end
  if record.state == PENDING then
    local late = kept(record)
    if not late or (late.state == UNKNOWN and is_success) then
      -- The end of the lease, which the key's expiry was so far, goes into the record.
      local lease = lease_end(key, record)
      local held = reservation(record.token, prints(record), first_at(record), lease)
      put(key, held .. result(owner, now, ttl, receipt), math.max(lease, ends))
    end
    return { 'stored_late', now }
  end
  if record.token == token then
    return { 'already_done', now }
  end
  if record.state == UNKNOWN and is_success then
    put(key, result(owner, first_at(record), ttl, receipt), ends)
  end
  return shown('superseded', record)
end, answers)
