-- Makes the leases of a worker's jobs longer, and gives back those that came in an answer that it never got.
-- ARGV: groups, numbers, consumer, lease, the time of its last beat (-1: none), how many jobs, the name of each; then for
-- some of them, which one it is, and how far.
-- Answers {'ok', now, for each '1' or '0' (not its own), for each '1' (cancelled) or '0', how many were given back}.
local g = group(1)
local there = stale(call('HGET', FACTS, 'g') or '')
if there then
  return there
end
local consumer, lease, since, jobs = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
-- An old server without room takes a script whose first write needs none.
call('HDEL', g.held, '')
local own, cancels, named, uids = {}, {}, {}, {}
local longer = {}
if jobs > 0 then
  local scores = call('ZMSCORE', g.running, unpack(ARGV, 7, 6 + jobs))
  for i = 1, jobs do
    local name = ARGV[6 + i]
    own[i], cancels[i], uids[i] = '0', '0', sub(name, 1, 16)
    if scores[i] then
      own[i], named[name] = '1', true
      push(longer, now + lease, name)
    end
  end
  if #longer > 0 then
    call('ZADD', g.running, 'GT', unpack(longer))
  end
  if call('EXISTS', g.facts) == 1 then
    for i, value in ipairs(call('HMGET', g.facts, unpack(uids))) do
      if value and own[i] == '1' and byte(value) % 2 == 1 then
        cancels[i] = '1'
      end
    end
  end
end
for at = 7 + jobs, #ARGV, 2 do
  local n = tonumber(ARGV[at])
  if own[n] == '1' then
    -- A server without room refuses it; nothing hangs on it.
    redis.pcall('HSET', g.facts, 'p' .. uids[n], sub(ARGV[6 + n], 17, 24) .. ARGV[at + 1])
  end
end
local free = {}
if since >= 0 and tonumber(call('HGET', g.held, consumer) or 0) > #longer / 2 then
  free = unnamed(g, consumer, named, since * 1000)
  give_back(g, free)
end
if #free > 0 then
  save()
end
redis.pcall('HSET', FACTS, 's' .. g.n, now)
return { 'ok', now, table.concat(own), table.concat(cancels), #free }
