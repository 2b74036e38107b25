-- What all scripts of a queue have: where things lie, and how a job moves between them.
--
-- KEYS, for all: the queue's own (its facts, what is remembered by id, when that ends, what ended lately, what ended
-- before that), then ten for each group that the caller knows: the waiting jobs of the four classes, bodies, what
-- happened to them, dead letters, running jobs, how many of those each consumer has, wake-up marks.
-- ARGV[1]: the groups as the caller knows them; where that is not how they are, nothing is done, and the answer is
-- {'groups', now, how they are}. ARGV[2]: the numbers of the groups whose keys are given.
--
-- A job waits as SEQ(6) UID(16) with its due time for a score: the order of starting is that of the set, and a job is
-- ready when its time has come, without anybody doing anything. It runs as UID(16) DELIVERY(8) CONSUMER with the end of
-- its lease for a score: who says another delivery or consumer names nothing. All instants are milliseconds since 1970.
--
-- A body: version(1) class(1) seq(6) added(8) due(8) remember(8) fingerprint(34), the field of its id and its settings
-- with two and four bytes of length in front, the payload. It never changes while the job moves. What happened is kept
-- apart, and only once something has: flags(1) attempts losses snoozes given_back redriven (4 each) due(8)
-- snoozed_since(8) reason(1) seq(6), the error.
--
-- What is remembered by id lies under 'k' and the id: UID(16) fingerprint(34) state(1) while a group holds the job, and
-- until(8) ended(8) class(1) added(8) due(8) settings behind it from then on. 'u' and the uid: the same for a job
-- without an id whose result is kept. 'r' and the uid: until(8) and a result.
local call, sub, byte, pack, unp = redis.call, string.sub, string.byte, struct.pack, struct.unpack
local FACTS, IDS, ENDS, LATELY, BEFORE = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local RUNNING, READY, DELAYED, DEAD, DONE, CANCELLED = 6, 5, 4, 3, 2, 1
local RESENDS, REMEMBERED = 600000, 4096
local MOST, SCANNED = 256, 1000

local numbers = {}
for number in string.gmatch(ARGV[2], '%d+') do
  numbers[#numbers + 1] = number
end

local function group(k)
  local at = 5 + (k - 1) * 10
  return {
    k = k,
    n = numbers[k],
    q = { KEYS[at + 1], KEYS[at + 2], KEYS[at + 3], KEYS[at + 4] },
    bodies = KEYS[at + 5],
    facts = KEYS[at + 6],
    dead = KEYS[at + 7],
    running = KEYS[at + 8],
    held = KEYS[at + 9],
    wake = KEYS[at + 10],
  }
end

local function groups()
  local all = {}
  for k = 1, #numbers do
    all[k] = group(k)
  end
  return all
end

local function stale(there)
  return there ~= ARGV[1] and { 'groups', now, there } or nil
end

-- Parts of a body.
local function class_of(body)
  return byte(body, 2) + 1
end

local function id_of(body)
  local length = unp('>I2', body, 67)
  return sub(body, 69, 68 + length)
end

local function settings_of(body)
  local at = 69 + unp('>I2', body, 67)
  local length = unp('>I4', body, at)
  return sub(body, at + 4, at + 3 + length)
end

-- What happened to a job.
local function facts_of(value, body)
  if not value then
    return {
      flags = 0, attempts = 0, losses = 0, snoozes = 0, given = 0, redriven = 0,
      due = unp('>i8', body, 17), since = 0, reason = 0, seq = sub(body, 3, 8), error = '',
    }
  end
  local flags, attempts, losses, snoozes, given, redriven, due, since, reason = unp('>BI4I4I4I4I4i8i8B', value)
  return {
    flags = flags, attempts = attempts, losses = losses, snoozes = snoozes, given = given, redriven = redriven,
    due = due, since = since, reason = reason, seq = sub(value, 39, 44), error = sub(value, 45),
  }
end

local function packed(f)
  return pack('>BI4I4I4I4I4i8i8B', f.flags, f.attempts, f.losses, f.snoozes, f.given, f.redriven, f.due, f.since, f.reason)
    .. f.seq .. f.error
end

local function more(count)
  return math.min(count + 1, 4294967295)
end

-- New places in the order of those that are due together.
local seq
local function next_seq()
  seq = seq or tonumber(call('HGET', FACTS, 'seq')) or 0
  seq = seq + 1
  return pack('>I6', seq)
end

-- What is written at the end of a script, in one command each.
local written = {}
local function note(field, value)
  written[#written + 1] = field
  written[#written + 1] = value
end

local counted = {}
local function count(g, what, by)
  local field = what .. g.n
  counted[field] = (counted[field] or 0) + by
end

local lately, remembered, ends = {}, {}, {}
local function push(list, a, b)
  list[#list + 1] = a
  list[#list + 1] = b
end

local function save()
  if #lately > 0 then
    if call('HLEN', LATELY) >= REMEMBERED then
      call('UNLINK', BEFORE)
      call('RENAME', LATELY, BEFORE)
    end
    call('HSET', LATELY, unpack(lately))
    call('PEXPIRE', LATELY, RESENDS)
  end
  if #remembered > 0 then
    call('HSET', IDS, unpack(remembered))
  end
  if #ends > 0 then
    call('ZADD', ENDS, unpack(ends))
  end
  if seq then
    note('seq', string.format('%.0f', seq))
  end
  for field, by in pairs(counted) do
    note(field, (tonumber(call('HGET', FACTS, field)) or 0) + by)
  end
  if #written > 0 then
    call('HSET', FACTS, unpack(written))
  end
end

-- Forgets what is remembered under a field.
local function forget(field)
  call('HDEL', IDS, field)
  call('ZREM', ENDS, field)
end

-- How far a job is in one group; nothing where it is not there. Also its time.
local function place(g, uid, body, value)
  body = body or call('HGET', g.bodies, uid)
  if not body then
    return nil
  end
  value = value or call('HGET', g.facts, uid)
  local name = (value and sub(value, 39, 44) or sub(body, 3, 8)) .. uid
  local due = call('ZSCORE', g.q[class_of(body)], name)
  if due then
    due = tonumber(due)
    return due <= now and READY or DELAYED, due, body, value, name
  end
  local died = call('ZSCORE', g.dead, uid)
  if died then
    return DEAD, tonumber(died), body, value
  end
  return RUNNING, nil, body, value
end

-- How far a job is over all groups that hold it; 0: none does.
local function furthest(all, uid)
  local best = 0
  for _, g in ipairs(all) do
    best = math.max(best, place(g, uid) or 0)
  end
  return best
end

-- The memory of an id, while it holds the id: the uid, and the whole.
local function holder(all, field)
  local record = field ~= '' and call('HGET', IDS, field)
  if not record then
    return nil
  end
  if #record > 51 then
    if unp('>i8', record, 52) <= now then
      return nil
    end
  elseif furthest(all, sub(record, 1, 16)) == 0 then
    -- Its job went with its group.
    return nil
  end
  return sub(record, 1, 16), record
end

local function is_held_elsewhere(g, uid)
  for k = 1, #numbers do
    if k ~= g.k then
      local other = group(k)
      if call('HEXISTS', other.bodies, uid) == 1 and not call('ZSCORE', other.dead, uid) then
        return true
      end
    end
  end
  return false
end

-- What is remembered of a job that is over: the field of its id, and the rest.
local function memory_of(uid)
  local record = call('HGET', IDS, 'u' .. uid)
  if record and unp('>i8', record, 52) > now then
    return '', record
  end
  local late = call('HGET', LATELY, uid) or call('HGET', BEFORE, uid)
  if not late then
    return nil
  end
  if byte(late) == 105 then -- i
    local field = sub(late, 10)
    record = call('HGET', IDS, field)
    if record and #record > 51 and sub(record, 1, 16) == uid and unp('>i8', record, 52) > now then
      return field, record
    end
  elseif unp('>i8', late, 2) + RESENDS > now then
    local length = unp('>I2', late, 10)
    return sub(late, 12, 11 + length), sub(late, 12 + length)
  end
end

-- A result that is still kept.
local function result_of(uid)
  local result = call('HGET', IDS, 'r' .. uid)
  if result and unp('>i8', result) > now then
    return sub(result, 9)
  end
  return false
end

local function record_of(uid, body, state, till)
  return uid .. sub(body, 33, 66) .. string.char(state) .. pack('>i8i8', till, now) .. sub(body, 2, 2)
    .. sub(body, 9, 24) .. settings_of(body)
end

-- The job is over in a group, in which it is not any more, or is dead. `free`: its id is free in any case.
local function over(g, uid, body, state, keep, free)
  local field = id_of(body)
  local before = field ~= '' and #numbers > 1 and call('HGET', IDS, field)
  if before and sub(before, 1, 16) == uid and not free then
    state = math.max(state, byte(before, 51))
  end
  if #numbers > 1 and is_held_elsewhere(g, uid) then
    if before and sub(before, 1, 16) == uid then
      call('HSET', IDS, field, sub(before, 1, 50) .. string.char(state))
    end
    return
  end
  if field ~= '' and state ~= CANCELLED then
    -- Who took the id when a dead letter's time was over keeps it.
    local owner = state == DEAD and call('HGET', IDS, field)
    if not owner or sub(owner, 1, 16) == uid then
      local till = now + unp('>i8', body, 25)
      push(remembered, field, record_of(uid, body, state, till))
      push(ends, till, field)
    end
    push(lately, uid, 'i' .. pack('>i8', now) .. field)
  else
    if field ~= '' and sub(call('HGET', IDS, field) or '', 1, 16) == uid then
      forget(field)
    end
    local record = record_of(uid, body, state, now + RESENDS)
    push(lately, uid, 'r' .. pack('>i8', now) .. pack('>I2', #field) .. field .. record)
    if keep then
      push(remembered, 'u' .. uid, record_of(uid, body, state, now + keep))
      push(ends, now + keep, 'u' .. uid)
    end
  end
end

-- Puts a job among those that wait.
local function put(g, uid, body, f)
  call('ZADD', g.q[class_of(body)], f.due, f.seq .. uid)
  call('HSET', g.facts, uid, packed(f))
end

local function again(g, uid, body, f, due)
  f.due, f.seq = due, next_seq()
  put(g, uid, body, f)
end

-- To the dead letters.
local function bury(g, uid, body, f, reason, error)
  f.reason, f.error, f.seq = reason, error, next_seq()
  call('ZADD', g.dead, now, uid)
  call('HSET', g.facts, uid, packed(f))
  over(g, uid, body, DEAD)
end

-- Takes a job out of a group for good.
local function drop(g, uid)
  call('HDEL', g.bodies, uid)
  call('HDEL', g.facts, uid)
end

local function cancelled(g, uid, body)
  drop(g, uid)
  count(g, 'c', 1)
  over(g, uid, body, CANCELLED)
end

-- Takes a job out of a group before its time. The last group frees its id, also that of a dead letter.
local function remove(g, uid, body, was_dead)
  drop(g, uid)
  count(g, 'c', 1)
  local left = false
  for k = 1, #numbers do
    left = left or (k ~= g.k and call('HEXISTS', group(k).bodies, uid) == 1)
  end
  if not left or not was_dead then
    over(g, uid, body, CANCELLED, nil, not left)
  end
end

local function is_cancelled(f)
  return f.flags % 2 == 1
end

-- So many jobs of a consumer run less, or more.
local function holds(g, consumer, by)
  if by ~= 0 and call('HINCRBY', g.held, consumer, by) <= 0 then
    call('HDEL', g.held, consumer)
  end
end

local function wake(g)
  call('ZADD', g.wake, 0, 'r')
end

-- Gives back jobs that run, by their names.
local function give_back(g, names)
  for _, name in ipairs(names) do
    local uid = sub(name, 1, 16)
    call('ZREM', g.running, name)
    holds(g, sub(name, 25), -1)
    local body = call('HGET', g.bodies, uid)
    if body then
      local f = facts_of(call('HGET', g.facts, uid), body)
      if is_cancelled(f) then
        cancelled(g, uid, body)
      else
        f.given = more(f.given)
        put(g, uid, body, f)
      end
    end
  end
  if #names > 0 then
    wake(g)
  end
end

-- Jobs that run with a consumer, and that it did not name; those whose leases end first come first. `below`: only those
-- with a lower delivery.
local function unnamed(g, consumer, named, below)
  local found = {}
  local has = tonumber(call('HGET', g.held, consumer) or 0)
  if has == 0 then
    return found, 0
  end
  for _, name in ipairs(call('ZRANGE', g.running, 0, SCANNED - 1)) do
    if #found == MOST then
      break
    end
    if sub(name, 25) == consumer and not named[name] and (not below or unp('>I8', name, 17) < below) then
      found[#found + 1] = name
    end
  end
  return found, has
end

-- How many ready jobs the limits let start now; and in how many milliseconds one more, when it is the rate that holds
-- them back. Also the bucket then.
local function admitted(g, want, most, rate, window, used, at)
  if most then
    want = math.min(want, math.max(0, most - call('ZCARD', g.running)))
  end
  if not rate then
    return want, nil
  end
  rate, window, used, at = tonumber(rate), tonumber(window), tonumber(used or 0), tonumber(at or 0)
  used = math.max(0, used - math.max(0, now - at) * rate)
  local room = math.floor(math.max(0, rate * window - used) / window)
  local later = room < want and math.ceil(math.max(0, used + window - rate * window) / math.max(1, rate)) or nil
  return math.min(room, want), later, used, window
end

