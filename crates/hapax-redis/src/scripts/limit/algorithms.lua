local algorithms = { [102] = fixed, [119] = exact, [99] = counter, [98] = bucket }

-- The limits of a decision: for each, its letter, limit (4), window (8) and cost (4).
local function limits(text, from, first)
  local all = {}
  for i = 1, (#text - from + 1) / 17 do
    local letter, limit, window, cost = unp('>BI4i8I4', text, from + (i - 1) * 17)
    -- A shadow has a capital letter.
    local is_shadow = letter < 97
    local algorithm = algorithms[is_shadow and letter + 32 or letter]
    all[i] = { is_shadow = is_shadow, cost = cost, with = algorithm, view = algorithm.open(KEYS[first + i], limit, window) }
  end
  return all
end

-- Takes the step for each decision that has no answer yet; those that have one are over one limit each. The error of one is
-- its own answer.
local function each(step, answers)
  answers = answers or {}
  local first = #answers
  for i = first + 1, #ARGV do
    local text = ARGV[i]
    local ok, answer = pcall(step, text, first)
    if not ok and type(answer) ~= 'table' then
      answer = redis.error_reply(string.match(answer, '%u%u%u+ .*') or 'ERR ' .. answer)
    end
    answers[i] = answer
    first = first + math.floor((#text - 1) / 17)
  end
  return answers
end

