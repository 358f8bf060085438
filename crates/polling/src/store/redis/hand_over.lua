-- KEYS  leases, then their fences   ARGV  why; the fences they should have; their successors
-- Gives for each '1' and its new fence or holder, '0' and who holds it, '?' and a successor that is no member, or '!' and
-- nothing if its fence cannot rise.
local why, count, answers, given = ARGV[4], (#KEYS - 5) / 2, {}, 0
local function answer(what, which)
  answers[#answers + 1] = what
  answers[#answers + 1] = which
end
for i = 1, count do
  local lease, fence_key, successor = KEYS[5 + i], KEYS[5 + count + i], ARGV[4 + count + i]
  if not holds(lease, fence_key, ARGV[4 + i]) then
    local holder = redis.call('GET', lease) or ''
    -- Asked again because the answer was lost: done is done.
    local is_done = holder == successor and holder ~= instance
    answer(is_done and '1' or '0', holder)
  elseif left_of(successor) <= 0 then
    answer('?', successor)
  else
    local fence = raised(fence_key)
    if fence then
      -- No longer than its membership: one that died a moment ago does not keep it for a whole ttl.
      redis.call('SET', lease, successor, 'PX', text(math.min(ttl, left_of(successor))))
      answer('1', fence)
      given = given + 1
    else
      answer('!', '')
    end
  end
end
if given > 0 then say('handed over ' .. given .. ' ' .. why) end
return answers
