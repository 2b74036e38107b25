-- Gives a dead letter of a group another payload.
-- ARGV: groups, numbers, uid, fingerprint, payload.
-- Answers {'ok', now, whether it was there}.
local there = stale(call('HGET', FACTS, 'g') or '')
if there then
  return there
end
local g, uid = group(1), ARGV[3]
local state, _, body, value = place(g, uid)
if state ~= DEAD then
  return { 'ok', now, 0 }
end
local field = id_of(body)
local head = 72 + #field + #settings_of(body)
call('HSET', g.bodies, uid, sub(body, 1, 32) .. ARGV[4] .. sub(body, 67, head) .. ARGV[5])
tell(g, uid, 7, facts_of(value, body).attempts, '', 0, 0, '')
local record = field ~= '' and call('HGET', IDS, field)
if record and sub(record, 1, 16) == uid then
  call('HSET', IDS, field, uid .. ARGV[4] .. sub(record, 51))
end
return { 'ok', now, 1 }
