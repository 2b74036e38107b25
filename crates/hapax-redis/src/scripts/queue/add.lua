-- Adds jobs to all groups.
-- ARGV: groups, numbers, how the groups of a new queue are, how many jobs, how many keys of producers (they come last),
-- then for each job: uid, field of its id, class, its body from `remember` on, '+' and a delay or '@' and an instant,
-- what to do on a conflict ('r', 'k' or 'p'), which key of producers, which bit there.
-- Answers {'ok', now, for each: when it is due | {'p', uid, due} | {'d', uid, state [, result]} | {'r', uid, print} |
-- {'f', depth, oldest}, whether the queue is new}.
local jobs, all = tonumber(ARGV[4]), groups()
local wanted = { 'g', 'seq', 'max', 'classes' }
for _, g in ipairs(all) do
  wanted[#wanted + 1] = 'a' .. g.n
end
local meta = call('HMGET', FACTS, unpack(wanted))
local there = meta[1] or ''
if there ~= ARGV[1] then
  return { 'groups', now, there }
end
seq = tonumber(meta[2] or 0)
local max, classes = tonumber(meta[3]), meta[4] or ''
local producers = #KEYS - tonumber(ARGV[5])

local function arg(i, at)
  return ARGV[5 + (i - 1) * 8 + at]
end

-- Which uids were there before: bits, so that a hundred million of them are kept in a dozen megabytes.
local known, bits = {}, {}
for i = 1, jobs do
  local at = arg(i, 7)
  bits[at] = bits[at] or {}
  local list = bits[at]
  list[#list + 1] = i
end
local function set_bits(list, key, value)
  local ops = {}
  for _, i in ipairs(list) do
    ops[#ops + 1] = 'SET'
    ops[#ops + 1] = 'u1'
    ops[#ops + 1] = arg(i, 8)
    ops[#ops + 1] = value
  end
  return call('BITFIELD', key, unpack(ops))
end
for at, list in pairs(bits) do
  local key = KEYS[producers + tonumber(at)]
  local before = set_bits(list, key, 1)
  call('PEXPIRE', key, RESENDS)
  for n, i in ipairs(list) do
    known[i] = before[n] == 1
  end
end

local uids, fields, with_id = {}, {}, {}
for i = 1, jobs do
  uids[i] = arg(i, 1)
  local field = arg(i, 2)
  if field ~= '' then
    fields[#fields + 1] = field
    with_id[#with_id + 1] = i
  end
end
local bodies = {}
for k, g in ipairs(all) do
  bodies[k] = call('HMGET', g.bodies, unpack(uids))
end
local records, taken_ids = {}, {}
if #fields > 0 then
  local found = call('HMGET', IDS, unpack(fields))
  for n, i in ipairs(with_id) do
    records[i] = found[n]
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

local function due_of(text)
  local ms = tonumber(sub(text, 2))
  if byte(text) == 64 then
    return math.max(now, ms)
  end
  return now + ms
end

local function body_of(i, class, place, added, due)
  return '\1' .. string.char(class) .. place .. pack('>i8i8', added, due) .. arg(i, 4)
end

-- A job under this id is there: gives it the payload, if no group has ever taken it.
local function replace(i, uid)
  for _, g in ipairs(all) do
    local state, _, _, value = place(g, uid)
    if state and (value or (state ~= READY and state ~= DELAYED)) then
      return nil
    end
  end
  local due, found = due_of(arg(i, 5)), false
  for _, g in ipairs(all) do
    local state, _, body, _, name = place(g, uid)
    if state then
      found = true
      call('ZREM', g.q[class_of(body)], name)
      local class, at = tonumber(arg(i, 3)), sub(body, 3, 8)
      call('HSET', g.bodies, uid, body_of(i, class, at, unp('>i8', body, 9), due))
      call('ZADD', g.q[class + 1], due, name)
      if not string.find(classes, class, 1, true) then
        classes = classes .. class
        note('classes', classes)
      end
      call('ZADD', g.wake, due <= now and 0 or 1, due <= now and 'r' or 'd')
    end
  end
  if found then
    local record = call('HGET', IDS, arg(i, 2))
    call('HSET', IDS, arg(i, 2), uid .. sub(arg(i, 4), 9, 42) .. sub(record, 51))
    return { 'p', uid, due }
  end
end

local answers, new = {}, {}
local put_bodies, put_ids, put_jobs, mine = {}, {}, { {}, {}, {}, {} }, {}
local is_ready, is_delayed = false, false
for i = 1, jobs do
  local uid, field = uids[i], arg(i, 2)
  local body = mine[uid]
  for k = 1, #all do
    body = body or bodies[k][i]
  end
  local answer
  if body then
    answer = unp('>i8', body, 17)
  elseif known[i] then
    local _, record = memory_of(uid)
    answer = record and unp('>i8', record, 77) or now
  elseif field ~= '' then
    local first, print = taken_ids[field], nil
    local holds_it, record
    if first then
      holds_it, print = uids[first], sub(arg(first, 4), 9, 42)
    elseif records[i] then
      holds_it, record = holder(all, field)
      print = record and sub(record, 17, 50)
    end
    if holds_it then
      local conflict = arg(i, 6)
      local differs = print ~= sub(arg(i, 4), 9, 42)
      if differs and conflict == 'p' and not first then
        answer = replace(i, holds_it)
      end
      if answer then
        records[i] = nil
      elseif differs and conflict ~= 'k' then
        answer = { 'r', holds_it, print }
      else
        local state = first and (due_of(arg(first, 5)) <= now and READY or DELAYED) or furthest(all, holds_it)
        if record then
          state = math.max(state, byte(record, 51))
        end
        answer = { 'd', holds_it, state, result_of(holds_it) }
      end
    end
  end
  if not answer and max and depth >= max then
    answer = { 'f', depth, oldest() }
  end
  if not answer then
    local due, class = due_of(arg(i, 5)), tonumber(arg(i, 3))
    local place = next_seq()
    body = body_of(i, class, place, now, due)
    push(put_bodies, uid, body)
    push(put_jobs[class + 1], due, place .. uid)
    if field ~= '' then
      push(put_ids, field, uid .. sub(body, 33, 66) .. '\0')
      taken_ids[field] = i
      if records[i] then
        call('ZREM', ENDS, field)
      end
    end
    mine[uid] = body
    new[i] = true
    depth = depth + 1
    if due <= now then
      is_ready = true
    else
      is_delayed = true
    end
    answer = due
  end
  answers[i] = answer
end

-- Those that were not taken may be sent again and are no news then.
for at, list in pairs(bits) do
  local back = {}
  for _, i in ipairs(list) do
    if not new[i] and not known[i] and type(answers[i]) == 'table' then
      back[#back + 1] = i
    end
  end
  if #back > 0 then
    set_bits(back, KEYS[producers + tonumber(at)], 0)
  end
end
for class = 1, 4 do
  if #put_jobs[class] > 0 then
    for _, g in ipairs(all) do
      call('ZADD', g.q[class], unpack(put_jobs[class]))
    end
    if not string.find(classes, class - 1, 1, true) then
      classes = classes .. (class - 1)
      note('classes', classes)
    end
  end
end
if #put_bodies > 0 then
  for k, g in ipairs(all) do
    call('HSET', g.bodies, unpack(put_bodies))
    note('a' .. g.n, tonumber(meta[4 + k] or 0) + #put_bodies / 2)
    if is_ready then
      wake(g)
    end
    if is_delayed then
      call('ZADD', g.wake, 1, 'd')
    end
  end
end
if #put_ids > 0 then
  call('HSET', IDS, unpack(put_ids))
end
if there == '' then
  note('g', ARGV[3])
end
save()

-- What nobody needs to know any more makes room for at least as much.
local gone = call('ZRANGEBYSCORE', ENDS, '-inf', now, 'LIMIT', 0, 16 + jobs)
if #gone > 0 then
  call('HDEL', IDS, unpack(gone))
  call('ZREM', ENDS, unpack(gone))
end
return { 'ok', now, answers, there == '' and 1 or 0 }
