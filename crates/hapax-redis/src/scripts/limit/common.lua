-- What all limits have. Numbers are whole, and below 2^53 wherever they are multiplied; instants are milliseconds since 1970.
--
-- Each way of counting has a table of functions over a view of what is kept: `open` looks, and brings it to the time and
-- the quota of the request; `wait`, `room` and `reset` ask; `take` counts in the view; `write` keeps the view. What is kept
-- is one string: limit (4), window (8), then the numbers of the algorithm (8 each); all big-endian. An exact window is a list.
-- A key ends when what it keeps equals a fresh state. `hapax_core::limit::machine` has the same rules.
local call, sub, byte, pack, unp = redis.call, string.sub, string.byte, struct.pack, struct.unpack
local max, min, fmod = math.max, math.min, math.fmod

local function floor_of(a, b)
  return (a - fmod(a, b)) / b
end

local function ceil_of(a, b)
  local rest = fmod(a, b)
  return (a - rest) / b + (rest > 0 and 1 or 0)
end

