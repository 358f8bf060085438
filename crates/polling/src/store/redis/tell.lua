-- ARGV  facts; 'quietly' if the others need not look at once   Gives '-' if the membership is over.
if not is_member(instance) then return {'-'} end
redis.call('HSET', about, instance, ARGV[4])
if ARGV[5] ~= 'quietly' then say('told') end
return {}
