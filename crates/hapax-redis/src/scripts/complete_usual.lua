-- The usual, before anything else is set up: one key, its owner holds it, and nothing lies beside.
if #KEYS == 1 then
  local value = redis.pcall('GET', KEYS[1])
  local owner, ttl = ARGV[1], ARGV[2]
  local usual = '\1\0' .. string.sub(owner, 3, 18)
  if type(value) == 'string' and #value == 68 and string.find(value, usual, 1, true) == 1 then
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local times = struct.pack('>i8i8', now + ttl, now)
    redis.call('SET', KEYS[1], owner .. string.sub(value, 53, 60) .. times .. ARGV[3], 'PX', ttl)
    return { { 'stored', now } }
  end
end

