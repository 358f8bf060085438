-- ARGV  'pin' or 'cordon'; the target or the poller; the poller's name or who asks, or nothing to take it back
local what, which, value = ARGV[4], ARGV[5], ARGV[6]
local book = what == 'pin' and pins or cordons
if value == '' then
  redis.call('HDEL', book, which)
elseif what == 'pin' then
  redis.call('HSET', book, which, value)
else
  redis.call('HSET', book, which, cjson.encode({by = value, at_ms = now}))
end
say('steered')
return {}
