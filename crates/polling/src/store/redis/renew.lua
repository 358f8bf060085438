-- KEYS  leases, then their fences   ARGV  the fences they should have
-- Gives '-' if the membership is over; else position and holder of every lease that is lost. Never creates one.
if not is_member(instance) then return {'-'} end
forget_the_dead()
redis.call('ZADD', members, text(now + ttl), instance)
redis.call('SET', node, '1', 'PX', text(ttl))
local count, lost = (#KEYS - 5) / 2, {}
for i = 1, count do
  local lease = KEYS[5 + i]
  if holds(lease, KEYS[5 + count + i], ARGV[3 + i]) then
    redis.call('PEXPIRE', lease, ttl)
  else
    lost[#lost + 1] = text(i)
    lost[#lost + 1] = redis.call('GET', lease) or ''
  end
end
return lost
