-- ARGV  name and mark, or nothing if the name was drawn; facts when online; facts while it waits; who stands for it
-- Gives nothing if it is a member now; else who is in the way, until when, and how long that is.
local mark, online, waiting, absent = ARGV[4], ARGV[5], ARGV[6], ARGV[7]

local function waits(who)
  local told, facts = pcall(cjson.decode, redis.call('HGET', about, who) or '{}')
  return told and type(facts) == 'table' and facts.status == 'joining'
end

forget_the_dead()
local others, longest = {}, 0
if mark ~= '' then
  local alive = redis.call('ZRANGEBYSCORE', members, '(' .. text(now), '+inf', 'WITHSCORES')
  for i = 1, #alive, 2 do
    local who, till = alive[i], tonumber(alive[i + 1])
    local is_other = who ~= instance and who ~= absent and string.sub(who, 1, #mark) == mark
    if is_other and not waits(who) then
      others[#others + 1] = who
      others[#others + 1] = text(till)
      others[#others + 1] = text(till - now)
      longest = math.max(longest, till - now)
    end
  end
end
local is_new = not is_member(instance)
if #others > 0 then
  -- The name counts for assignment without a gap.
  redis.call('ZADD', members, text(now + math.max(ttl, longest + 1000)), instance)
  redis.call('HSET', about, instance, waiting)
  if is_new then say('joining') end
  return others
end
redis.call('ZREM', members, absent)
redis.call('HDEL', about, absent)
redis.call('ZADD', members, text(now + ttl), instance)
redis.call('HSET', about, instance, online)
redis.call('SET', node, '1', 'PX', text(ttl))
say('joined')
return others
