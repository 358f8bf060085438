-- KEYS  leases, then their fences   ARGV  the fences they should have
-- Gives '-' if the membership is over; else position and holder of every lease that is lost. Never creates one.
if not is_member(instance) then return {'-'} end
forget_the_dead()
redis.call('ZADD', members, text(now + ttl), instance)
redis.call('SET', node, '1', 'PX', text(ttl))
local count, lost = (#KEYS - 5) / 2, {}
local holders, fences = all_at(6, 5 + count), all_at(6 + count, 5 + 2 * count)
for i = 1, count do
  if holders[i] == instance and fences[i] == ARGV[3 + i] then
    redis.call('PEXPIRE', KEYS[5 + i], ttl)
  else
    lost[#lost + 1] = text(i)
    lost[#lost + 1] = holders[i] or ''
  end
end
return lost
