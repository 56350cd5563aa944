-- ARGV: 2 shard, 3 who, 4 ttl
local key = P .. 'l:' .. ARGV[2]
local leader = redis.call('GET', key)
if leader and leader ~= ARGV[3] then return 0 end
redis.call('SET', key, ARGV[3], 'PX', ARGV[4])
return 1
