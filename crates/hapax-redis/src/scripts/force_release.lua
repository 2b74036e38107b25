-- Ends each live reservation, whoever holds it.
-- KEYS: the records.
-- Answers, for each: {'applied' | 'fenced', now}.
return each(0, function(key)
  local record = settle(key, load(key))
  if not record or record.state ~= PENDING then
    return { 'fenced', now }
  end
  finish(key, record)
  return { 'applied', now }
end)
