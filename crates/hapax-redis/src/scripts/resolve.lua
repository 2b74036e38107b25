-- Settles each unknown outcome by a verdict, or forgets a record.
-- KEYS: the records. ARGV, for each: token of the verdict, token that the record must have (empty: any; to forget it, 't' and
-- its token, or 'v' and all of it where it cannot be read), 'happened', 'did_not' or 'forget', ttl, codec and receipt.
-- Answers, for each: {'applied', now} or {'changed', now [, record]}.
return each(5, function(key, token, seen, verdict, ttl, receipt)
  local record = settle(key, load(key))
  if verdict == 'forget' then
    if not record or record.state == PENDING or (record.token and 't' .. record.token or 'v' .. record.value) ~= seen then
      return shown('changed', record)
    end
    redis.call('DEL', key)
    return { 'applied', now }
  end
  if record and record.state ~= PENDING and record.token == token then
    return { 'applied', now }
  end
  if not record or record.state ~= UNKNOWN or (seen ~= '' and record.token ~= seen) then
    return shown('changed', record)
  end
  if verdict == 'happened' then
    local owner = '\1\1' .. token .. prints(record)
    put(key, result(owner, first_at(record), ttl, receipt), now + ttl)
  else
    redis.call('DEL', key)
  end
  return { 'applied', now }
end)
