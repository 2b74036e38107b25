-- What all scripts of locks have: the form of a lock, and who holds it at the server's time.
--
-- A lock is one string: version, state, last fence (8), when the end of the key was set (8), until when somebody waits (8),
-- the token of the last release (16). Where it is held, that goes on with token (16), fence (8), since (8), end of the lease
-- (8) and what the holder says of itself. State: 1 where it is held, 2 where a release is remembered, or both. Where the last release has the
-- token of the holder, the lock was given back: all that the usual release writes. Instants are milliseconds since 1970,
-- numbers big-endian.
--
-- The key outlives the lease: it ends when the clock has been past the last fence and the last use for a week at least, so
-- that the next fence is larger without it. Usually it is set to eight days, once a day. Whether the lease has passed is a
-- comparison with the server's clock.
local sub, byte, pack, unp = string.sub, string.byte, struct.pack, struct.unpack
local FREE, HELD, MOST, KEPT = 42, 82, 9007199254740991, 691200000
local NONE = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'

-- What lies under the key; nil for nothing. It has a token where a lease has not passed.
local function load(key)
  local value = redis.call('GET', key)
  if not value then
    return nil
  end
  local version, state = byte(value, 1, 2)
  -- Written by a newer version, or by another program: it is left alone.
  if #value < FREE or version ~= 1 or state > 3 or (state % 2 == 1 and #value < HELD) then
    error({ err = 'WRONGTYPE no lock' })
  end
  local fence, set, wanted, released = unp('>i8i8i8c16', value, 3)
  local lock = { fence = fence, set = set, wanted = wanted, released = state > 1 and released or nil }
  if state % 2 == 1 then
    local token, held, since, ends = unp('>c16i8i8i8', value, 43)
    if released == token and token ~= NONE then
      lock.released = token
    elseif ends > now then
      lock.token, lock.held, lock.since, lock.ends, lock.holder = token, held, since, ends, sub(value, 83)
    end
  end
  return lock
end

local function put(key, lock)
  local wanted = lock.wanted > now and lock.wanted or 0
  local last = math.max(math.floor(lock.fence / 1000), lock.set) + KEPT
  local state, released = lock.released and 2 or 0, lock.released or NONE
  local value
  if lock.token then
    value = pack('>BBi8i8i8c16c16i8i8i8', 1, state + 1, lock.fence, lock.set, wanted, released, lock.token, lock.held, lock.since, lock.ends)
      .. lock.holder
    last = math.max(last, lock.ends)
  else
    value = pack('>BBi8i8i8c16', 1, state, lock.fence, lock.set, wanted, released)
  end
  redis.call('SET', key, value, 'PXAT', last)
end

-- Nobody holds it any more: a mark wakes one of those who wait. It goes when nobody can wait for it.
local function free(key, marks, lock)
  lock.token, lock.set = nil, now
  put(key, lock)
  if lock.wanted > now then
    redis.call('ZADD', marks, 0, 'f')
    redis.call('PEXPIRE', marks, lock.wanted - now)
  end
end

-- Takes the step for each lock that has no answer yet. It has so many keys and so many arguments. The error of one is its
-- own answer.
local function each(keys, count, step, answers)
  answers = answers or {}
  for i = #answers + 1, #KEYS / keys do
    local ok, answer = pcall(step, KEYS[(i - 1) * keys + 1], KEYS[i * keys], unpack(ARGV, (i - 1) * count + 1, i * count))
    if not ok and type(answer) ~= 'table' then
      answer = redis.error_reply(string.match(answer, '%u%u%u+ .*') or 'ERR ' .. answer)
    end
    answers[i] = answer
  end
  return answers
end

