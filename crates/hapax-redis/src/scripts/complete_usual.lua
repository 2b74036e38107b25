-- The usual, before anything else is set up: the owner holds the key, and nothing lies beside. It answers with the time
-- alone. The first key that is otherwise, and all after it, are left to what follows.
local byte, sub, pcall_redis = string.byte, string.sub, redis.pcall
local answers, unusual = {}, nil
local ttl, times, ends
for i = 1, #KEYS do
  local key, owner = KEYS[i], ARGV[3 * i - 2]
  local value = pcall_redis('GET', key)
  if type(value) ~= 'string' or #value ~= 68 then
    unusual = value
    break
  end
  local version, state = byte(value, 1, 2)
  if version ~= 1 or state ~= 0 or sub(value, 3, 18) ~= sub(owner, 3, 18) then
    unusual = value
    break
  end
  if ARGV[3 * i - 1] ~= ttl then
    ttl = ARGV[3 * i - 1]
    times = struct.pack('>i8i8', now + ttl, now)
    -- A server would make it of the rest of the time, for each key.
    ends = string.format('%.0f', now + ttl)
  end
  local answer = pcall_redis('SET', key, owner .. sub(value, 53, 60) .. times .. ARGV[3 * i], 'PXAT', ends)
  answers[i] = answer.err and answer or now
end
if #answers == #KEYS then
  return answers
end

