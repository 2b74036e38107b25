-- The usual, before anything else is set up: the owner holds the key, nothing lies beside, and the caller knows what the
-- server's clock shows. The first key that is otherwise, and all after it, are left to what follows.
-- Answers with a number where all keys were like that.
local sub, ask = string.sub, redis.pcall
local answers, unusual, has_failed = {}, nil, false
for i = 1, #KEYS do
  local key, owner = KEYS[i], ARGV[3 * i - 2]
  local value = ask('GET', key)
  if type(value) ~= 'string' or #value ~= 68 or sub(value, 1, 18) ~= sub(owner, 1, 18) then
    unusual = value
    break
  end
  local answer = ask('SET', key, '\1\1' .. sub(owner, 3, 52) .. sub(value, 53, 60) .. ARGV[3 * i], 'PX', ARGV[3 * i - 1])
  has_failed = has_failed or answer.err
  answers[i] = answer.err and answer or 1
end
if #answers == #KEYS then
  return has_failed and answers or 1
end

