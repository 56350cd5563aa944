-- Takes each of these counts once, or none. ARGV: 2 tenant, 3 most counts of a tenant; then for each count: name, made,
-- until, most
local counts, ends = P .. 'c:' .. ARGV[2], P .. 'ce:' .. ARGV[2]
for _, name in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, 100)) do
  redis.call('ZREM', ends, name)
  redis.call('HDEL', counts, name)
end

local new = 0
for at = 4, #ARGV, 4 do
  local name, made, till, most = unpack(ARGV, at, at + 3)
  local place = (at - 4) / 4
  if tonumber(made) <= tonumber(began) or tonumber(till) <= now then return { 'lost', place } end
  local taken = redis.call('HGET', counts, name)
  if not taken then
    new = new + 1
  elseif tonumber(taken) >= tonumber(most) then
    return { 'exhausted', place }
  end
end
if new > 0 and redis.call('ZCARD', ends) + new > tonumber(ARGV[3]) then return { 'full' } end

local last = redis.call('PEXPIRETIME', ends)
for at = 4, #ARGV, 4 do
  local name, till = ARGV[at], tonumber(ARGV[at + 2])
  redis.call('HINCRBY', counts, name, 1)
  redis.call('ZADD', ends, 'GT', till, name)
  last = math.max(last, till)
end
if #ARGV > 3 then
  redis.call('PEXPIREAT', counts, last)
  redis.call('PEXPIREAT', ends, last)
end
return { 'all' }
