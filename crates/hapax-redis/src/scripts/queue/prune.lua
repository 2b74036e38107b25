-- Forgets what nobody needs to know any more.
-- ARGV: '', '', at most how many.
-- Answers {'ok', now, how many}.
return { 'ok', now, forget_ended(math.min(MOST, tonumber(ARGV[3]))) }
