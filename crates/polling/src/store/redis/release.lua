-- KEYS  leases, then their fences   ARGV  why; the fences they should have
local why, count, released = ARGV[4], (#KEYS - 5) / 2, 0
for i = 1, count do
  if holds(KEYS[5 + i], KEYS[5 + count + i], ARGV[4 + i]) then
    redis.call('DEL', KEYS[5 + i])
    released = released + 1
  end
end
if released > 0 then say('released ' .. released .. ' ' .. why) end
return {text(released)}
