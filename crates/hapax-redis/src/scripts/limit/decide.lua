-- Decides over the limits of each decision: all that are no shadows count it, or none.
-- KEYS: the limits, one decision after the other. ARGV, for each decision: 0 to count it; 1 to say what would be, as if
-- it were counted, and write nothing; 2 the same as if it were not; 3 not to count it, and to write as one that is refused; then
-- its limits.
-- Answers, for each: {'decided', now, for each limit: what it says (0: passes, 1: later, 2: never), room, retry, reset, next},
-- or numbers in the usual case.
local PASSES, LATER, NEVER = 0, 1, 2
return each(function(text, first)
  local mode, all, passes = byte(text), limits(text, 2, first), true
  for _, one in ipairs(all) do
    if one.cost > one.view.limit then
      one.says, one.retry = NEVER, 0
    else
      one.retry = one.with.wait(one.view, one.cost)
      one.says = one.retry > 0 and LATER or PASSES
    end
    passes = passes and (one.is_shadow or one.says == PASSES)
  end
  local said = {}
  for i, one in ipairs(all) do
    local with, view = one.with, one.view
    local counts = mode < 2 and passes and one.says == PASSES
    if counts then
      with.take(view, one.cost)
    end
    local room = with.room(view)
    local more = room < view.limit and with.wait(view, room + 1) or 0
    said[i] = pack('>Bi8i8i8i8', one.says, room, one.retry, with.reset(view), more)
    -- A refused request writes nothing, except where the clock was set back.
    if (mode == 0 or mode == 3) and (counts or (view.was_set and one.says ~= NEVER)) then
      with.write(view)
    end
  end
  return { 'decided', now, table.concat(said) }
end, answers)
