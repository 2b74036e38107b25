-- What happened to a job, and its way back among those that wait.

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
    -- Whoever writes it back had the job.
    flags = flags % 2, attempts = attempts, losses = losses, snoozes = snoozes, given = given, redriven = redriven,
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

-- Puts a job among those that wait.
local function put(g, uid, body, f)
  call('ZADD', g.q[class_of(body)], f.due, f.seq .. uid)
  call('HSET', g.facts, uid, packed(f))
end

local function again(g, uid, body, f, due)
  f.due, f.seq = due, next_seq()
  put(g, uid, body, f)
end

local function is_cancelled(f)
  return f.flags % 2 == 1
end

