-- What every script begins with. All of them are given
--   KEYS  members, about, cordons, pins, node:<instance>, then what they are about
--   ARGV  channel, instance, ttl in ms, then what they need
-- and the time is the server's. Microseconds since 1970 are far below 2^53: Lua counts them exactly.
local members, about, cordons, pins, node = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local channel, instance, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])
local clock = redis.call('TIME')
local now_us = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local now = math.floor(now_us / 1000)
local EXACT = 9007199254740992

local function text(number)
  return string.format('%.0f', number)
end

-- What is at these keys, in a few calls: one for each key would take most of a script's time.
local AT_ONCE = 1000
local function all_at(first, last)
  local values = {}
  for begin = first, last, AT_ONCE do
    local some = redis.call('MGET', unpack(KEYS, begin, math.min(begin + AT_ONCE - 1, last)))
    for i = 1, #some do values[#values + 1] = some[i] end
  end
  return values
end

-- How many ms a membership has left.
local function left_of(who)
  return tonumber(redis.call('ZSCORE', members, who) or '0') - now
end

local function is_member(who)
  return left_of(who) > 0
end

-- A fence that is higher than any before, also after the old ones were lost. Nothing if there is no higher one.
local function raised(key)
  local before = tonumber(redis.call('GET', key) or '0') or 0
  local fence = math.max(before + 1, now_us)
  if fence >= EXACT then return nil end
  redis.call('SET', key, text(fence))
  return text(fence)
end

local function holds(lease, fence_key, fence)
  return redis.call('GET', lease) == instance and redis.call('GET', fence_key) == fence
end

-- Whoever may not publish can still lease: the others look by themselves.
local function say(what)
  redis.pcall('PUBLISH', channel, instance .. ' ' .. what)
end

-- A name that was drawn does not come back: an operator's word about it ends with it.
local function forget(who)
  redis.call('ZREM', members, who)
  redis.call('HDEL', about, who)
  if string.find(who, '~', 1, true) then return end
  redis.call('HDEL', cordons, who)
  if redis.call('HLEN', pins) == 0 then return end
  local pinned = redis.call('HGETALL', pins)
  for i = 1, #pinned, 2 do
    if pinned[i + 1] == who then redis.call('HDEL', pins, pinned[i]) end
  end
end

local function forget_the_dead()
  local dead = redis.call('ZRANGEBYSCORE', members, '-inf', text(now), 'LIMIT', 0, 100)
  for _, who in ipairs(dead) do
    if who ~= instance then forget(who) end
  end
end
