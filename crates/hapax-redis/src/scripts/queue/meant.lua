-- Which job is meant by ARGV[3] ('u': a uid, 'k': the field of an id) and ARGV[4].
local function meant(all)
  if ARGV[3] == 'u' then
    return ARGV[4]
  end
  local uid = holder(all, ARGV[4])
  if uid then
    return uid
  end
  -- A dead letter whose id is free again is still found by it.
  local record = call('HGET', IDS, ARGV[4])
  if record and furthest(all, sub(record, 1, 16)) == DEAD then
    return sub(record, 1, 16)
  end
end

