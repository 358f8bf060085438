-- KEYS  leases, then their fences
-- ARGV  window in ms, or nothing; who stands for us; facts of that one; 'last' if the membership ends; the fences
local window, absent, facts, is_last = tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7] == 'last'
local count = (#KEYS - 5) / 2
for i = 1, count do
  local lease, fence_key = KEYS[5 + i], KEYS[5 + count + i]
  if holds(lease, fence_key, ARGV[7 + i]) then
    if window and raised(fence_key) then
      redis.call('SET', lease, absent, 'PX', text(window))
    else
      redis.call('DEL', lease)
    end
  end
end
if window then
  redis.call('ZADD', members, text(now + window), absent)
  redis.call('HSET', about, absent, facts)
end
if is_last then
  forget(instance)
  redis.call('DEL', node)
end
say('left')
return {}
