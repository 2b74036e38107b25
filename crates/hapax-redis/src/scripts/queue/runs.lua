-- Who has a job.

-- Until when a job runs, with whom, since when, and by which delivery. A look at a queue may take a while, but not for ever.
local function run_of(g, uid, pages)
  for from = 0, (pages - 1) * SCANNED, SCANNED do
    local names = call('ZRANGE', g.running, from, from + SCANNED - 1, 'WITHSCORES')
    for n = 1, #names, 2 do
      if sub(names[n], 1, 16) == uid then
        return tonumber(names[n + 1]), sub(names[n], 25), math.floor(unp('>I8', names[n], 17) / 1000), sub(names[n], 17, 24)
      end
    end
    if #names < 2 * SCANNED then
      break
    end
  end
  return now, '', -1
end
