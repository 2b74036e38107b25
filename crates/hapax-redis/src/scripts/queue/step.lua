-- Ends what a worker has finished, takes over from workers that are gone, and hands out what is next.
-- ARGV: groups, numbers (the worker's first), consumer, how many it wants, lease, max_losses, how many finishes, a letter
-- for each ('d': done), the name of each job as it runs, then for other letters: 'D' done with a result: its time, the
-- result; 'r' to be repeated: in what time, error; 's' put off: for what time; 'x' dead: reason, error, whether that was
-- an attempt.
-- Records of keys may come last among KEYS, and for each what completes it last among ARGV.
-- Answers {'ok', now, fence, whether it is paused, when to come again (-1: nobody knows), '1' or '0' for each finish,
-- uids, bodies, what happened to them (empty: nothing to any), an answer for each key}.
local g = group(1)
local consumer, want, lease, max_losses = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local finishes, letters = tonumber(ARGV[7]), ARGV[8]
local meta = call('HMGET', FACTS, 'g', 'fence', 'classes', 'most', 'rate', 'window', 'p' .. g.n, 'u' .. g.n,
  't' .. g.n, 'd' .. g.n, 'ev')
local there = stale(meta[1] or '')
if there then
  return there
end
local has_facts = call('EXISTS', g.facts) == 1
kept = tonumber(meta[11]) or 0
local delta, dirty = 0, false

local marks = {}
if finishes > 0 then
  local scores = call('ZMSCORE', g.running, unpack(ARGV, 9, 8 + finishes))
  local names, uids, own, seen = {}, {}, {}, {}
  for i = 1, finishes do
    local name = ARGV[8 + i]
    if scores[i] and not seen[name] then
      seen[name] = true
      names[#names + 1], uids[#uids + 1], own[i] = name, sub(name, 1, 16), #names + 1
      marks[i] = '1'
    else
      marks[i] = '0'
    end
  end
  if #names > 0 then
    dirty = true
    call('ZREM', g.running, unpack(names))
    delta = -#names
    local bodies = call('HMGET', g.bodies, unpack(uids))
    local facts = has_facts and call('HMGET', g.facts, unpack(uids)) or {}
    local gone, done, at = {}, 0, 9 + finishes
    for i = 1, finishes do
      local letter, n = byte(letters, i), own[i]
      local uid, body = uids[n], bodies[n]
      if letter == 100 or letter == 68 then -- d, D
        if n and body then
          local keep
          gone[#gone + 1] = uid
          if facts[n] then
            gone[#gone + 1] = 'h' .. uid
          end
          if has_facts then
            gone[#gone + 1] = 'p' .. uid
          end
          done = done + 1
          if kept > 0 then
            pass(g, 13, uid, facts[n] and unp('>I4', facts[n], 2) or 0)
          end
          if letter == 68 then
            keep = tonumber(ARGV[at])
            push(remembered, 'r' .. uid, pack('>i8', now + keep) .. ARGV[at + 1])
            push(ends, now + keep, 'r' .. uid)
          end
          over(g, uid, body, DONE, keep)
        end
        at = letter == 68 and at + 2 or at
      else
        local f = n and body and facts_of(facts[n], body)
        if f and is_cancelled(f) then
          push(gone, uid, 'h' .. uid)
          gone[#gone + 1] = 'p' .. uid
          count(g, 'c', 1)
          pass(g, 14, uid, f.attempts)
          over(g, uid, body, CANCELLED)
          f = nil
        end
        has_facts = has_facts or f ~= nil
        if letter == 114 then -- r
          if f then
            f.attempts, f.snoozes, f.since, f.error = more(f.attempts), 0, 0, ARGV[at + 1]
            again(g, uid, body, f, now + tonumber(ARGV[at]))
            tell(g, uid, 1, f.attempts, consumer, f.due, 0, f.error)
          end
          at = at + 2
        elseif letter == 115 then -- s
          if f then
            f.snoozes, f.since = more(f.snoozes), f.since ~= 0 and f.since or now
            again(g, uid, body, f, now + tonumber(ARGV[at]))
            tell(g, uid, 2, f.attempts, consumer, f.due, 0, '')
          end
          at = at + 1
        else -- x
          if f then
            if ARGV[at + 2] == '1' then
              f.attempts = more(f.attempts)
            end
            bury(g, uid, body, f, tonumber(ARGV[at]), ARGV[at + 1], consumer)
          end
          at = at + 3
        end
      end
    end
    if #gone > 0 then
      call('HDEL', g.bodies, unpack(gone))
      if has_facts then
        call('HDEL', g.facts, unpack(gone))
      end
    end
    if done > 0 then
      note('d' .. g.n, (tonumber(meta[10]) or 0) + done)
    end
    if meta[4] then
      -- Others may start now.
      wake(g)
    end
  end
end

-- A job that was lost keeps no receipt from being stored.
local completed = {}
if complete_keys then
  local before = 6 + 10 * #numbers
  local keys = #KEYS - before
  completed = complete_keys({ unpack(KEYS, before + 1) }, { unpack(ARGV, #ARGV - 3 * keys + 1) })
end

-- Workers that are gone: what they had keeps its place among those that wait.
local late = math.min(16, math.ceil(want / 2))
local lost = late > 0 and call('ZRANGEBYSCORE', g.running, '-inf', now, 'LIMIT', 0, late) or {}
for _, name in ipairs(lost) do
  dirty, has_facts = true, true
  local uid = sub(name, 1, 16)
  call('ZREM', g.running, name)
  if sub(name, 25) == consumer then
    delta = delta - 1
  else
    holds(g, sub(name, 25), -1)
  end
  local body = call('HGET', g.bodies, uid)
  if body then
    local f = facts_of(call('HGET', g.facts, uid), body)
    if is_cancelled(f) then
      cancelled(g, uid, body)
    else
      f.losses = more(f.losses)
      count(g, 'l', 1)
      if f.losses > max_losses then
        bury(g, uid, body, f, 2, 'its worker was lost ' .. string.format('%.0f', f.losses) .. ' times',
          sub(name, 25))
      else
        put(g, uid, body, f)
        tell(g, uid, 3, f.attempts, sub(name, 25), 0, 0, '')
      end
    end
  end
end

local paused, classes = meta[7] == '1', meta[3] or ''
local room, later, used, window = 0, nil, nil, nil
if not paused then
  room, later, used, window = admitted(g, want, tonumber(meta[4]), meta[5], meta[6], meta[8], meta[9])
end
local names = {}
for class = 1, 4 do
  if #names < room and string.find(classes, class - 1, 1, true) then
    local ready = call('ZRANGEBYSCORE', g.q[class], '-inf', now, 'LIMIT', 0, room - #names)
    if #ready > 0 then
      dirty = true
      call('ZREMRANGEBYRANK', g.q[class], 0, #ready - 1)
      for n = 1, #ready do
        names[#names + 1] = ready[n]
      end
    end
  end
end
local fence = math.max((tonumber(meta[2]) or 0) + 1, time[1] * 1000000 + time[2])
local uids, bodies, facts = {}, {}, {}
if #names > 0 then
  local tail, running, till = pack('>I8', fence) .. consumer, {}, text(now + lease)
  for n = 1, #names do
    local uid = sub(names[n], 7)
    uids[n] = uid
    push(running, till, uid .. tail)
  end
  call('ZADD', g.running, unpack(running))
  bodies = call('HMGET', g.bodies, unpack(uids))
  if has_facts then
    facts = call('HMGET', g.facts, unpack(uids))
  end
  if kept > 0 then
    for n = 1, #uids do
      pass(g, 12, uids[n], facts[n] and unp('>I4', facts[n], 2) or 0)
    end
  end
  delta = delta + #names
  note('fence', string.format('%.0f', fence))
  if used then
    note('u' .. g.n, string.format('%.0f', used + #names * window))
    note('t' .. g.n, now)
  end
end
holds(g, consumer, delta)

-- When to come again: the next that is due, or the next that the rate lets start.
local next_at = -1
local function sooner(at)
  next_at = next_at < 0 and at or math.min(next_at, at)
end
local is_more = false
for class = 1, 4 do
  if string.find(classes, class - 1, 1, true) then
    local first = call('ZRANGE', g.q[class], 0, 0, 'WITHSCORES')[2]
    if first and tonumber(first) <= now then
      is_more = true
      first = call('ZRANGEBYSCORE', g.q[class], '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    end
    if first then
      sooner(tonumber(first))
    end
  end
end
if is_more and later and later > 0 then
  sooner(now + later)
end
if is_more and #names > 0 then
  -- For others.
  wake(g)
end
note('s' .. g.n, now)
if dirty then
  save()
else
  -- A server without room refuses it; nothing hangs on it.
  redis.pcall('HSET', FACTS, unpack(written))
end
return { 'ok', now, fence, paused and 1 or 0, next_at, table.concat(marks), uids, bodies, facts, completed }
