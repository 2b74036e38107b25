-- What all scripts of a queue have: where things lie, and how a job moves between them.
--
-- KEYS, for all: the queue's own (its facts, what is remembered by id, when that ends, what ended lately, what ended
-- before that, events), then ten for each group that the caller knows: the waiting jobs of the four classes, bodies, what
-- happened to them, dead letters, running jobs, how many of those each consumer has, wake-up marks.
-- ARGV[1]: the groups as the caller knows them; where that is not how they are, nothing is done, and the answer is
-- {'groups', now, how they are}. ARGV[2]: the numbers of the groups whose keys are given.
--
-- A job waits as SEQ(6) UID(16) with its due time for a score: the order of starting is that of the set, and a job is
-- ready when its time has come, without anybody doing anything. It runs as UID(16) DELIVERY(8) CONSUMER with the end of
-- its lease for a score (the consumer is filled up with bytes that no name has, because a server keeps sets of short
-- names in a list that it walks through): who says another delivery or consumer names nothing. It is dead as it waited, with the time of
-- its death for a score. All instants are milliseconds since 1970.
--
-- A body: version(1) class(1) seq(6) added(8) due(8) remember(8) fingerprint(34), the field of its id and its settings
-- with two and four bytes of length in front, the payload. It never changes while the job moves. What happened is kept
-- apart, and only once something has: flags(1) attempts losses snoozes given_back redriven (4 each) due(8)
-- snoozed_since(8) reason(1) seq(6), the error. Flags: 1 somebody cancelled it while it ran, 2 no worker ever had it.
-- Beside it lies, under 'h' and the uid, what is told of it: `story.lua`; and under 'p' and the uid how far it is: the
-- delivery(8) by which that was said, and what was said.
--
-- Events are a list of the last ones: at(8) what(1) number of the group(4, the highest: all) attempts(4) UID(16). The
-- queue's facts have how many are kept ('ev': none, where it is not there) and the number of the last ('en').
--
-- What is remembered by id lies under 'k' and the id: UID(16) fingerprint(34) state(1) while a group holds the job, and
-- until(8) ended(8) class(1) added(8) due(8) settings behind it from then on. 'u' and the uid: the same for a job
-- without an id whose result is kept. 'r' and the uid: until(8) and a result.
local call, sub, byte, pack, unp = redis.call, string.sub, string.byte, struct.pack, struct.unpack
local FACTS, IDS, ENDS, LATELY, BEFORE, EVENTS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local RUNNING, READY, DELAYED, DEAD, DONE, CANCELLED = 6, 5, 4, 3, 2, 1
local RESENDS, REMEMBERED = 600000, 4096
local now_packed = pack('>i8', now)
local MOST, SCANNED = 256, 1000

local numbers = { string.match(ARGV[2], '^(%d+) $') }
if not numbers[1] then
  for number in string.gmatch(ARGV[2], '%d+') do
    numbers[#numbers + 1] = number
  end
end

local function group(k)
  local at = 6 + (k - 1) * 10
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

-- What is written at the end of a script, in one command each.
local written = {}
local function note(field, value)
  written[#written + 1] = field
  written[#written + 1] = value
end

-- A whole number as a text. A server writes each number among the arguments of a command anew, in a slower way: what many
-- jobs share is a text.
local function text(number)
  return string.format('%.0f', number)
end

local lately, remembered, ends = {}, {}, {}
local function push(list, a, b)
  list[#list + 1] = a
  list[#list + 1] = b
end

-- New places in the order of those that are due together.
local seq
local function next_seq()
  seq = seq or tonumber(call('HGET', FACTS, 'seq')) or 0
  seq = seq + 1
  return pack('>I6', seq)
end

local counted = {}
local function count(g, what, by)
  local field = what .. g.n
  counted[field] = (counted[field] or 0) + by
end

-- What passed: 1 retried, 2 snoozed, 3 lost, 4 given back, 5 dead, 6 redriven, 11 added, 12 started, 13 done, 14 cancelled.
-- Without `attempts` they are looked up, so the job must be there yet. `kept`: how many are kept, where that is known.
local kept, passed = nil, {}
local function pass(g, what, uid, attempts)
  kept = kept or tonumber(call('HGET', FACTS, 'ev')) or 0
  if kept == 0 then
    return
  end
  if not attempts then
    local value = call('HGET', g.facts, uid)
    attempts = value and unp('>I4', value, 2) or 0
  end
  passed[#passed + 1] = now_packed .. pack('>BI4I4', what, g and g.n or 4294967295, attempts) .. uid
end

local function save()
  if #passed > 0 then
    local last = tonumber(call('HGET', FACTS, 'en')) or now * 1000 - 1
    note('en', string.format('%.0f', last + #passed))
    call('RPUSH', EVENTS, unpack(passed))
    call('LTRIM', EVENTS, -kept, -1)
  end
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

local function wake(g)
  call('ZADD', g.wake, 0, 'r')
end

