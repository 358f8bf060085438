-- KEYS  leases, then their fences   ARGV  who stands for us while we are away; 'back' for each that was left to it
-- Gives '-' if the membership is over; else for each '1' and its fence, '0' and its holder, or '!' and nothing.
if not is_member(instance) then return {'-'} end
local absent, count, answers, taken = ARGV[4], (#KEYS - 5) / 2, {}, 0
local function answer(what, which)
  answers[#answers + 1] = what
  answers[#answers + 1] = which
end
for i = 1, count do
  local lease, fence_key = KEYS[5 + i], KEYS[5 + count + i]
  local holder = redis.call('GET', lease)
  -- Ours already: an earlier answer was lost on its way. The fence rises all the same, so that a release or a hand-over
  -- that was sent under the earlier one and comes late finds nothing.
  if not holder or holder == instance or (ARGV[4 + i] == 'back' and holder == absent) then
    local fence = raised(fence_key)
    if fence then
      redis.call('SET', lease, instance, 'PX', text(ttl))
      answer('1', fence)
      taken = taken + 1
    else
      answer('!', '')
    end
  else
    answer('0', holder)
  end
end
if taken > 0 then say('acquired ' .. taken) end
return answers
