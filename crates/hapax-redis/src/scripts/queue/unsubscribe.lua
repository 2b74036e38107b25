-- Drops a group, whose jobs were removed before.
-- ARGV: groups, its number, how they are from now on.
-- Answers {'ok', now}.
local there = stale(call('HGET', FACTS, 'g') or '')
if there then
  return there
end
local g = group(1)
call('UNLINK', unpack(KEYS, 7, 16))
for field in string.gmatch('adclputs', '.') do
  call('HDEL', FACTS, field .. g.n)
end
call('HSET', FACTS, 'g', ARGV[3])
return { 'ok', now }
