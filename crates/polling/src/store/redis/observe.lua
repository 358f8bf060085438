-- KEYS  leases, then their fences   ARGV  'all' for members and an operator's words too
-- Gives the time in µs; for each member instance, ms it has left, and facts; who is cordoned; pins; and for each
-- lease that is held its position, holder, ms it has left (-1: no end), and fence or nothing.
local seen, cordoned, pinned, leases = {}, {}, {}, {}
if ARGV[4] == 'all' then
  local alive = redis.call('ZRANGEBYSCORE', members, '(' .. text(now), '+inf', 'WITHSCORES')
  for i = 1, #alive, 2 do
    seen[#seen + 1] = alive[i]
    seen[#seen + 1] = text(tonumber(alive[i + 1]) - now)
    seen[#seen + 1] = redis.call('HGET', about, alive[i]) or ''
  end
  cordoned = redis.call('HKEYS', cordons)
  pinned = redis.call('HGETALL', pins)
end
local count = (#KEYS - 5) / 2
local holders, fences = all_at(6, 5 + count), all_at(6 + count, 5 + 2 * count)
for i = 1, count do
  local holder = holders[i]
  if holder then
    leases[#leases + 1] = text(i)
    leases[#leases + 1] = holder
    leases[#leases + 1] = text(redis.call('PTTL', KEYS[5 + i]))
    leases[#leases + 1] = fences[i] or ''
  end
end
return {{text(now_us)}, seen, cordoned, pinned, leases}
