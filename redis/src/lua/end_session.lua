-- ARGV: 2 tenant, 3 session, 4 worker, 5 gone, 6 session ttl, 7 the job that made it, or empty
local key = session_key(ARGV[2], ARGV[3])
local w, g, c = unpack(redis.call('HMGET', key, 'w', 'g', 'c'))
if w ~= ARGV[4] or g then return 0 end
-- The name may be a later session's.
local creator = optional(ARGV[7])
if c and creator and c ~= creator then return 0 end
if ARGV[5] == 'closed' then
  redis.call('DEL', key)
else
  redis.call('HSET', key, 'g', ARGV[5])
  keep(key, ARGV[6])
end
redis.call('SREM', P .. 'ws:' .. ARGV[4], key)
return 1
