-- Returns the epoch. Begins a new one if it is missing, or if Redis has another run id. ARGV: 1 prefix, 2 run id, 3 id
-- for a new epoch
local key = ARGV[1] .. 'e'
local id, run = unpack(redis.call('HMGET', key, 'i', 'r'))
if id and run == ARGV[2] then
  return id
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
redis.call('HSET', key, 'i', ARGV[3], 'r', ARGV[2], 'b', now)
redis.call('PUBLISH', ARGV[1] .. 'n', 'epoch')
return ARGV[3]
