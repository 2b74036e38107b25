-- Forgets at most so many ids and results whose time is over, and answers how many. The id of a dead letter stays until the
-- letter goes: it is free, but the letter is still found by it.
local function forget_ended(most)
  local ended = call('ZRANGEBYSCORE', ENDS, '-inf', now, 'LIMIT', 0, most)
  if #ended == 0 then
    return 0
  end
  call('ZREM', ENDS, unpack(ended))
  local gone = {}
  for i, record in ipairs(call('HMGET', IDS, unpack(ended))) do
    if not record or byte(record, 51) ~= DEAD or byte(ended[i]) ~= 107 then -- k
      gone[#gone + 1] = ended[i]
    end
  end
  if #gone > 0 then
    call('HDEL', IDS, unpack(gone))
  end
  return #gone
end
