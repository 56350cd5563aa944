-- ARGV: 2 'alive' (answers with heartbeats) or 'dead' (answers with names); for 'alive', 3 the epoch and 4 the number
-- of the last look ('' and 0: all workers)
local dead = redis.call('ZRANGEBYSCORE', P .. 'wa', '-inf', now)
if ARGV[2] == 'dead' then return dead end

-- Only heartbeats that changed since then are sent. The number of living workers tells the caller whether it knows them
-- all.
local since = ARGV[3] == epoch and tonumber(ARGV[4]) or 0
local alive = '(' .. string.format('%.0f', now)
local names
if since == 0 then
  names = redis.call('ZRANGEBYSCORE', P .. 'wa', alive, '+inf')
else
  names = redis.call('ZRANGEBYSCORE', P .. 'wu', '(' .. string.format('%.0f', since), '+inf')
end
local changed = {}
for _, worker in ipairs(names) do
  local beat = redis.call('HGET', P .. 'w', worker)
  if beat then
    changed[#changed + 1] = worker
    changed[#changed + 1] = beat
  end
end
local number = tonumber(redis.call('GET', P .. 'wq') or 0)
return { epoch, number, redis.call('ZCOUNT', P .. 'wa', alive, '+inf'), dead, changed }
