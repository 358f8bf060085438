-- ARGV  facts   Gives '-' if the membership is over.
if not is_member(instance) then return {'-'} end
redis.call('HSET', about, instance, ARGV[4])
say('told')
return {}
