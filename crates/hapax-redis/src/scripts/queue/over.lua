-- The ends of a job.

local function id_of(body)
  local high, low = byte(body, 67, 68)
  return sub(body, 69, 68 + high * 256 + low)
end

local function settings_of(body)
  local a, b, c, d = byte(body, 67, 68)
  local at = 69 + a * 256 + b
  a, b, c, d = byte(body, at, at + 3)
  return sub(body, at + 4, at + 3 + ((a * 256 + b) * 256 + c) * 256 + d)
end

-- Forgets what is remembered under a field.
local function forget(field)
  call('HDEL', IDS, field)
  call('ZREM', ENDS, field)
end

local function is_held_elsewhere(g, uid)
  for k = 1, #numbers do
    if k ~= g.k then
      local other = group(k)
      local value = call('HGET', other.facts, uid)
      local is_dead = value and call('ZSCORE', other.dead, sub(value, 39, 44) .. uid)
      if call('HEXISTS', other.bodies, uid) == 1 and not is_dead then
        return true
      end
    end
  end
  return false
end

-- The part of a memory that most jobs of a script share.
local stamped_state, stamped_till, stamped, stamped_text
local function stamp(state, till)
  if state ~= stamped_state or till ~= stamped_till then
    stamped_state, stamped_till, stamped_text = state, till, text(till)
    stamped = string.char(state) .. pack('>i8i8', till, now)
  end
  return stamped
end

local function record_of(uid, body, state, till)
  return uid .. sub(body, 33, 66) .. stamp(state, till) .. sub(body, 2, 2) .. sub(body, 9, 24) .. settings_of(body)
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
      local remember = unp('>i8', body, 25)
      local till = now + remember
      push(remembered, field, record_of(uid, body, state, till))
      push(ends, stamped_text, field)
      if keep and keep > remember then
        push(remembered, 'u' .. uid, record_of(uid, body, state, now + keep))
        push(ends, now + keep, 'u' .. uid)
      end
    end
    push(lately, uid, 'i' .. now_packed .. field)
  else
    if field ~= '' and sub(call('HGET', IDS, field) or '', 1, 16) == uid then
      forget(field)
    end
    local record = record_of(uid, body, state, now + RESENDS)
    push(lately, uid, 'r' .. now_packed .. (field == '' and '\0\0' or sub(body, 67, 68)) .. field .. record)
    if keep then
      push(remembered, 'u' .. uid, record_of(uid, body, state, now + keep))
      push(ends, now + keep, 'u' .. uid)
    end
  end
end

-- To the dead letters.
local function bury(g, uid, body, f, reason, error, consumer)
  f.reason, f.error, f.seq = reason, error, next_seq()
  call('ZADD', g.dead, now, f.seq .. uid)
  call('HSET', g.facts, uid, packed(f))
  tell(g, uid, 5, f.attempts, consumer, 0, reason, error)
  over(g, uid, body, DEAD)
end

-- Takes a job out of a group for good.
local function drop(g, uid)
  pass(g, 14, uid)
  call('HDEL', g.bodies, uid)
  call('HDEL', g.facts, uid, 'h' .. uid, 'p' .. uid)
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

-- So many jobs of a consumer run less, or more.
local function holds(g, consumer, by)
  if by ~= 0 and call('HINCRBY', g.held, consumer, by) <= 0 then
    call('HDEL', g.held, consumer)
  end
end

