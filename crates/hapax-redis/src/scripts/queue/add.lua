-- Adds jobs to all groups.
-- ARGV: groups, numbers, how the groups of a new queue are, how many jobs, how many runs of jobs whose uids come one after
-- the other (32 at most; their keys come last), for each run its first bit and its length; then for each job, one kind
-- after the other: uids, fields of ids, bodies from `remember` on, what else ('r', 'k' or 'p' on a conflict, class, '+'
-- and a delay or '@' and an instant; once where it is that of all).
-- Answers {'ok', now, for each: when it is due | {'p', uid, due} | {'d', uid, state [, result]} | {'r', uid, print} |
-- {'f', depth, oldest}, whether the queue is new}.
local jobs, runs = tonumber(ARGV[4]), tonumber(ARGV[5])
local all = groups()
local wanted = { 'g', 'seq', 'max', 'classes', 'ev' }
for k = 1, #all do
  wanted[5 + k] = 'a' .. all[k].n
end
local meta = call('HMGET', FACTS, unpack(wanted))
local there = meta[1] or ''
if there ~= ARGV[1] then
  return { 'groups', now, there }
end
seq = tonumber(meta[2]) or 0
local max, classes = tonumber(meta[3]), meta[4] or ''
kept = tonumber(meta[5]) or 0
local first_uid = 5 + 2 * runs
local first_field, first_body = first_uid + jobs, first_uid + 2 * jobs
local first_rest = first_uid + 3 * jobs

-- Which uids were there before: bits, so that a hundred million of them are kept in a dozen megabytes.
local known = {}
local function each_run(change)
  local from = 1
  for run = 1, runs do
    local bit, length = tonumber(ARGV[4 + 2 * run]), tonumber(ARGV[5 + 2 * run])
    change(KEYS[#KEYS - runs + run], from, bit, length)
    from = from + length
  end
end
each_run(function(key, from, bit, length)
  local before = call('BITFIELD', key, 'SET', 'u' .. length, bit, 2 ^ length - 1)[1]
  call('PEXPIRE', key, RESENDS)
  -- The first job of a run has the highest bit.
  for i = from + length - 1, from, -1 do
    if before == 0 then
      break
    end
    known[i] = before % 2 == 1
    before = math.floor(before / 2)
  end
end)

-- A job whose uid is new has no body anywhere, and one without an id nothing that is remembered.
local bodies = {}
if next(known) then
  for k = 1, #all do
    bodies[k] = call('HMGET', all[k].bodies, unpack(ARGV, first_uid + 1, first_uid + jobs))
  end
end
local records = {}
for i = first_field + 1, first_field + jobs do
  if ARGV[i] ~= '' then
    records = call('HMGET', IDS, unpack(ARGV, first_field + 1, first_field + jobs))
    break
  end
end

local depth, deepest = 0, all[1]
if max then
  for _, g in ipairs(all) do
    local waiting = 0
    for class = 1, 4 do
      waiting = waiting + call('ZCARD', g.q[class])
    end
    if waiting > depth then
      depth, deepest = waiting, g
    end
  end
end

local function oldest()
  local first
  for class = 1, 4 do
    local score = call('ZRANGEBYSCORE', deepest.q[class], '-inf', now, 'WITHSCORES', 'LIMIT', 0, 1)[2]
    first = score and math.min(first or now, tonumber(score)) or first
  end
  return now - (first or now)
end

-- The class of a job, when it is due, and what to do on a conflict. Most are like the one before.
local last_rest, last_class, last_due, last_conflict
local function rest_of(i)
  local rest = ARGV[first_rest + i] or ARGV[first_rest + 1]
  if rest ~= last_rest then
    local conflict, class, sign = byte(rest, 1, 3)
    local ms = tonumber(sub(rest, 4))
    last_rest, last_class, last_conflict = rest, class - 48, conflict
    last_due = sign == 64 and math.max(now, ms) or now + ms
  end
  return last_class, last_due, last_conflict
end

local function print_of(i)
  return sub(ARGV[first_body + i], 9, 42)
end

-- A job under this id is there: gives it the payload, if no group has ever taken it.
local function replace(i, uid)
  for _, g in ipairs(all) do
    local state, _, _, value = place(g, uid)
    if state and ((value and byte(value) < 2) or (state ~= READY and state ~= DELAYED)) then
      return nil
    end
  end
  local class, due = rest_of(i)
  local found, field = false, ARGV[first_field + i]
  for _, g in ipairs(all) do
    local state, _, body, _, name = place(g, uid)
    if state then
      found = true
      call('ZREM', g.q[class_of(body)], name)
      local head = '\1' .. string.char(class) .. sub(body, 3, 16) .. pack('>i8', due)
      call('HSET', g.bodies, uid, head .. ARGV[first_body + i])
      -- No worker has had it, and that stays so.
      call('HSET', g.facts, uid, pack('>BI4I4I4I4I4i8i8B', 2, 0, 0, 0, 0, 0, due, 0, 0) .. sub(name, 1, 6))
      tell(g, uid, 10, 0, '', due, 0, '')
      call('ZADD', g.q[class + 1], due, name)
      if not string.find(classes, class, 1, true) then
        classes = classes .. class
        note('classes', classes)
      end
      call('ZADD', g.wake, due <= now and 0 or 1, due <= now and 'r' or 'd')
    end
  end
  if found then
    local record = call('HGET', IDS, field)
    call('HSET', IDS, field, uid .. print_of(i) .. sub(record, 51))
    return { 'p', uid, due }
  end
end

local new, answers, taken_ids, mine = {}, {}, {}, {}

-- A job under this id is there, or was; nothing where it has no hold on the id any more.
local function again(i, field)
  local first, print, uid, record = taken_ids[field], nil, nil, nil
  if first then
    uid, print = ARGV[first_uid + first], print_of(first)
  else
    uid, record = holder(all, field)
    print = record and sub(record, 17, 50)
  end
  if not uid then
    return nil
  end
  local _, _, conflict = rest_of(i)
  if print ~= print_of(i) then
    local replaced = conflict == 112 and not first and replace(i, uid)
    if replaced then
      return replaced
    elseif conflict ~= 107 then
      return { 'r', uid, print }
    end
  end
  local state
  if first then
    local _, due = rest_of(first)
    state = due <= now and READY or DELAYED
  else
    state = math.max(furthest(all, uid), byte(record, 51))
  end
  return { 'd', uid, state, result_of(uid) }
end

local put_bodies, put_ids, put_jobs, count = {}, {}, { {}, {}, {}, {} }, 0
local is_ready, is_delayed, is_undone, head, head_due, score = false, false, false, nil, nil, nil
for i = 1, jobs do
  local uid, field = ARGV[first_uid + i], ARGV[first_field + i]
  local body, answer = mine[uid], nil
  for k = 1, #bodies do
    body = body or bodies[k][i]
  end
  if body then
    answer = unp('>i8', body, 17)
  elseif known[i] then
    local _, record = memory_of(uid)
    answer = record and unp('>i8', record, 77) or now
  elseif field ~= '' and (records[i] or taken_ids[field]) then
    answer = again(i, field)
  end
  if not answer and max and depth >= max then
    answer = { 'f', depth, oldest() }
  end
  if not answer then
    local class, due = rest_of(i)
    seq = seq + 1
    local place = pack('>I6', seq)
    if due ~= head_due then
      head, head_due, score = pack('>i8i8', now, due), due, text(due)
    end
    body = '\1' .. string.char(class) .. place .. head .. ARGV[first_body + i]
    put_bodies[2 * count + 1], put_bodies[2 * count + 2] = uid, body
    local put = put_jobs[class + 1]
    local n = #put
    put[n + 1], put[n + 2] = score, place .. uid
    if field ~= '' then
      n = #put_ids
      put_ids[n + 1], put_ids[n + 2] = field, uid .. print_of(i) .. '\0'
      taken_ids[field] = i
      if records[i] then
        call('ZREM', ENDS, field)
      end
    end
    mine[uid], new[i] = body, true
    if kept > 0 then
      pass(nil, 11, uid, 0)
    end
    count, depth = count + 1, depth + 1
    if due <= now then
      is_ready = true
    else
      is_delayed = true
    end
    answer = due
  elseif not known[i] and type(answer) == 'table' then
    is_undone = true
  end
  answers[i] = answer
end

-- Those that were not taken may be sent again and are no news then.
if is_undone then
  each_run(function(key, from, bit, length)
    for i = from, from + length - 1 do
      if not new[i] and not known[i] and type(answers[i]) == 'table' then
        call('BITFIELD', key, 'SET', 'u1', bit + i - from, 0)
      end
    end
  end)
end
if count > 0 then
  for class = 0, 3 do
    local put = put_jobs[class + 1]
    if #put > 0 then
      for k = 1, #all do
        call('ZADD', all[k].q[class + 1], unpack(put))
      end
      if not string.find(classes, class, 1, true) then
        classes = classes .. class
        note('classes', classes)
      end
    end
  end
  for k = 1, #all do
    local g = all[k]
    call('HSET', g.bodies, unpack(put_bodies))
    note(wanted[5 + k], (tonumber(meta[5 + k]) or 0) + count)
    if is_ready then
      wake(g)
    end
    if is_delayed then
      call('ZADD', g.wake, 1, 'd')
    end
  end
  if #put_ids > 0 then
    call('HSET', IDS, unpack(put_ids))
  end
end
if there == '' then
  note('g', ARGV[3])
end
save()

-- What nobody needs to know any more makes room for more than was added since.
if #put_ids > 0 and seq % 8 < count then
  forget_ended(MOST)
end
return { 'ok', now, answers, there == '' and 1 or 0 }
