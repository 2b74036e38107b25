-- Shows what is under each key. Writes nothing.
-- KEYS: the records.
-- Answers, for each: {'found', now [, record]}.
return each(0, function(key)
  return shown('found', by_now(load(key)))
end)
