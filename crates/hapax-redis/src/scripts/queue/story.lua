-- What is told of a job, for people.

-- Puts an event behind the history of a job: 1 retried, 2 snoozed, 3 lost, 4 given back, 5 dead, 6 redriven, 7 edited,
-- 8 cancelled, 9 rescheduled, 10 replaced. The form is that of `hapax_core::queue::history`; the first event and the last
-- ones are kept. A job that has a history has facts as well, and with them both go. The first six
-- pass in the queue, too.
local function tell(g, uid, what, attempts, consumer, due, reason, error)
  if what < 7 then
    pass(g, what, uid, attempts)
  end
  local told = call('HGET', g.facts, 'h' .. uid) or '\1\0\0\0\0\0'
  local events, dropped = byte(told, 2), unp('>I4', told, 3)
  if byte(told) ~= 1 then
    return
  end
  if events == 20 then
    local second = 9 + byte(told, 7) * 256 + byte(told, 8)
    local third = second + 2 + byte(told, second) * 256 + byte(told, second + 1)
    told = sub(told, 1, second - 1) .. sub(told, third)
    events, dropped = 19, math.min(dropped + 1, 4294967295)
  end
  -- Without the bytes that it is filled up with.
  consumer = string.match(consumer, '^[^\255]*')
  local event = pack('>i8BI4i8BB', now, what, attempts, due, reason, #consumer) .. consumer .. sub(error, 1, 256)
  call('HSET', g.facts, 'h' .. uid,
    '\1' .. string.char(events + 1) .. pack('>I4', dropped) .. sub(told, 7) .. pack('>I2', #event) .. event)
end

