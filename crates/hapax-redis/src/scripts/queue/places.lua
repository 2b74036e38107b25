-- Where a job is, and what is remembered of it.

-- How far a job is in one group; nothing where it is not there. Also its time.
local function place(g, uid, body, value)
  body = body or call('HGET', g.bodies, uid)
  if not body then
    return nil
  end
  value = value or call('HGET', g.facts, uid)
  local name = (value and sub(value, 39, 44) or sub(body, 3, 8)) .. uid
  local due = call('ZSCORE', g.q[class_of(body)], name)
  if due then
    due = tonumber(due)
    return due <= now and READY or DELAYED, due, body, value, name
  end
  local died = call('ZSCORE', g.dead, name)
  if died then
    return DEAD, tonumber(died), body, value, name
  end
  return RUNNING, nil, body, value
end

-- How far a job is over all groups that hold it; 0: none does.
local function furthest(all, uid)
  local best = 0
  for _, g in ipairs(all) do
    best = math.max(best, place(g, uid) or 0)
  end
  return best
end

-- The memory of an id, while it holds the id: the uid, and the whole.
local function holder(all, field)
  local record = field ~= '' and call('HGET', IDS, field)
  if not record then
    return nil
  end
  if #record > 51 then
    if unp('>i8', record, 52) <= now then
      return nil
    end
  elseif furthest(all, sub(record, 1, 16)) == 0 then
    -- Its job went with its group.
    return nil
  end
  return sub(record, 1, 16), record
end

-- What is remembered of a job that is over: the field of its id, and the rest.
local function memory_of(uid)
  local record = call('HGET', IDS, 'u' .. uid)
  if record and unp('>i8', record, 52) > now then
    return '', record
  end
  local late = call('HGET', LATELY, uid) or call('HGET', BEFORE, uid)
  if not late then
    return nil
  end
  if byte(late) == 105 then -- i
    local field = sub(late, 10)
    record = call('HGET', IDS, field)
    if record and #record > 51 and sub(record, 1, 16) == uid and unp('>i8', record, 52) > now then
      return field, record
    end
  elseif unp('>i8', late, 2) + RESENDS > now then
    local length = unp('>I2', late, 10)
    return sub(late, 12, 11 + length), sub(late, 12 + length)
  end
end

-- A result that is still kept.
local function result_of(uid)
  local result = call('HGET', IDS, 'r' .. uid)
  if result and unp('>i8', result) > now then
    return sub(result, 9)
  end
  return false
end

