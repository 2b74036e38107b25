-- What all scripts have: the form of a record, and what lies under a key at the server's time.
--
-- A record is one string: version, state, token (16), fingerprint (2 + 32), first_at (8), ends (8). A result goes on
-- with completed_at (8), the codec's length (2), the codec and the receipt. A reservation may go on with a whole
-- result: the late one that lies beside it. Instants are milliseconds since 1970, big-endian. Rust reads the same in
-- `value.rs`.
--
-- The key's own expiry ends a record. Only where a late result lies beside a reservation does the key outlive the
-- lease; the end of that lease is then the one in the record.
local PENDING, DONE, UNKNOWN, UNREADABLE = 0, 1, 2, 3
local HEAD, RESULT, ENDS = 68, 78, 61

local function parse(value)
  local version, state = string.byte(value, 1, 2)
  -- Written by a newer version, or by another program: it is held, and left alone.
  if #value < HEAD or version ~= 1 or state > UNKNOWN or (state ~= PENDING and #value < RESULT) then
    return { value = value, state = UNREADABLE }
  end
  local record = { value = value, state = state, token = string.sub(value, 3, 18), ends = struct.unpack('>i8', value, ENDS) }
  if state == PENDING and #value > HEAD then
    record.late = parse(string.sub(value, HEAD + 1))
    if record.late.state ~= DONE and record.late.state ~= UNKNOWN then
      return { value = value, state = UNREADABLE }
    end
  end
  return record
end

-- What was last written under the key; nil for nothing.
local function load(key)
  local value = redis.call('GET', key)
  return value and parse(value) or nil
end

-- The late result, unless its time is over.
local function kept(record)
  if record.late and record.late.ends > now then
    return record.late
  end
end

-- What a record is by now, without writing: a reservation that is over is the late result beside it.
local function by_now(record)
  if record and record.late and record.ends <= now then
    return kept(record)
  end
  return record
end

local function is_held_by(record, token)
  return record ~= nil and record.state == PENDING and record.token == token
end

-- When the lease of a reservation ends.
local function lease_end(key, record)
  local left = record.late and -1 or redis.call('PTTL', key)
  return left < 0 and record.ends or now + left
end

local function prints(record)
  return string.sub(record.value, 19, 52)
end

local function first_at(record)
  return (struct.unpack('>i8', record.value, 53))
end

local function reservation(token, print, first, ends)
  return '\1\0' .. token .. print .. struct.pack('>i8i8', first, ends)
end

-- `owner` is everything before the times.
local function result(owner, first, ttl, receipt)
  return owner .. struct.pack('>i8i8i8', first, now + ttl, now) .. receipt
end

local function put(key, value, ends)
  redis.call('SET', key, value, 'PXAT', ends)
end

-- Ends a reservation: the late result takes its place.
local function finish(key, record)
  local late = kept(record)
  if late then
    put(key, late.value, late.ends)
  else
    redis.call('DEL', key)
  end
end

-- What is under the key by now; a reservation that is over gives its place.
local function settle(key, before)
  local record = by_now(before)
  if record ~= before then
    finish(key, before)
  end
  return record
end

-- An answer that shows what is there.
local function shown(word, record)
  return { word, now, record and record.value }
end

-- Takes the step for each key that has no answer yet, with as many arguments as a step has. The error of one is its own
-- answer.
local function each(count, step, answers)
  answers = answers or {}
  for i = #answers + 1, #KEYS do
    local ok, answer = pcall(step, KEYS[i], unpack(ARGV, (i - 1) * count + 1, i * count))
    if not ok and type(answer) ~= 'table' then
      -- What a command said, behind the place in the script on some servers; or a fault of the script itself.
      answer = redis.error_reply(string.match(answer, '%u%u%u+ .*') or 'ERR ' .. answer)
    end
    answers[i] = answer
  end
  return answers
end

