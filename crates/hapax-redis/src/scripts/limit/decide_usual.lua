-- The usual, before anything else is set up: each decision is over one limit, a window that starts with its first request or
-- tokens that come in evenly, which is no shadow, has the quota that it had before, and lets the request pass. The first that
-- is otherwise, and all after it, are left to what follows. The rules are those of the files of both.
-- Answers, for each: of tokens the credits that are left, of a window {what is taken, milliseconds to its end}.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ask, sub, pack, unp, fmod, KEYS, ARGV = redis.pcall, string.sub, struct.pack, struct.unpack, math.fmod, KEYS, ARGV
local text, letter, limit, window, cost, quota
local answers = {}
for i = 1, #KEYS == #ARGV and #KEYS or 0 do
  local key = KEYS[i]
  if text ~= ARGV[i] then
    local mode
    text = ARGV[i]
    mode, letter, limit, window, cost = unp('>BBI4i8I4', text)
    if mode ~= 0 or (letter ~= 98 and letter ~= 102) or cost > limit then
      break
    end
    quota = sub(text, 3, 14)
  end
  local kept, at, had = ask('GET', key), now, 0
  if kept then
    if type(kept) ~= 'string' or #kept ~= 28 or sub(kept, 1, 12) ~= quota then
      break
    end
    at, had = unp('>i8i8', kept, 13)
    if at > now then
      break
    end
  end
  local answer, said
  if letter == 98 then
    local full = limit * window
    local credits = (kept and math.min(had + math.min(now - at, window) * limit, full) or full) - cost * window
    if credits < 0 then
      break
    end
    local rest = fmod(full - credits, limit)
    local ends = now + (full - credits - rest) / limit + (rest > 0 and 1 or 0)
    answer = ask('SET', key, quota .. pack('>i8i8', now, credits), 'PXAT', string.format('%d', ends))
    said = credits
  else
    if now >= at + window then
      kept, at, had = false, now, 0
    end
    if had + cost > limit then
      break
    end
    local value = quota .. pack('>i8i8', at, had + cost)
    if kept then
      -- The key ends with the window as it is.
      answer = ask('SET', key, value, 'KEEPTTL')
    else
      answer = ask('SET', key, value, 'PXAT', string.format('%d', at + window))
    end
    said = { had + cost, at + window - now }
  end
  if answer.err then
    break
  end
  answers[i] = said
end
if #answers == #ARGV then
  return answers
end

