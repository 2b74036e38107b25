-- Gives back what was counted for requests that another limit refused.
-- KEYS and ARGV: as of a decision.
-- Answers, for each: {'given', now}.
return each(function(text, first)
  for _, one in ipairs(limits(text, 2, first)) do
    if one.with.refund(one.view, one.cost) then
      if one.with ~= exact then
        one.with.write(one.view)
      end
    else
      call('DEL', one.view.key)
    end
  end
  return { 'given', now }
end)
