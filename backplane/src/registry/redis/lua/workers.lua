-- ARGV: 2 'alive' (heartbeats) or 'dead' (names)
if ARGV[2] == 'dead' then
  return redis.call('ZRANGEBYSCORE', P .. 'wa', '-inf', now)
end
local found = {}
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', P .. 'wa', '(' .. string.format('%.0f', now), '+inf')) do
  found[#found + 1] = redis.call('HGET', P .. 'w', worker)
end
return found
