-- Forgets what nobody needs to know any more.
-- ARGV: '', '', at most how many.
-- Answers {'ok', now, how many}.
local gone = call('ZRANGEBYSCORE', ENDS, '-inf', now, 'LIMIT', 0, math.min(MOST, tonumber(ARGV[3])))
if #gone > 0 then
  call('HDEL', IDS, unpack(gone))
  call('ZREM', ENDS, unpack(gone))
end
return { 'ok', now, #gone }
