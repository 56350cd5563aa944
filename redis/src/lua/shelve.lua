-- The store has an outcome whole. Redis keeps only its digest, for as long as it would have kept the outcome.
-- ARGV: 2 tenant, 3 job, 4 mark, 5 digest, 6 ttl of the outcome, 7 cost
local tenant = ARGV[2]
local key = job_key(tenant, ARGV[3])
local s, h, z = unpack(redis.call('HMGET', key, 's', 'h', 'z'))
if s ~= 'T' or h ~= ARGV[4] then return 0 end
local left = tonumber(z) + tonumber(ARGV[6]) - now
if left <= 0 then return 0 end
redis.call('SET', stored_key(key), ARGV[5], 'PX', left)
local window = window_key(tonumber(z))
if redis.call('DEL', outcome_key(key)) == 1 and redis.call('EXISTS', window) == 1 then
  redis.call('HINCRBY', window, tenant, -tonumber(ARGV[7]))
  redis.call('HINCRBY', window, '', -tonumber(ARGV[7]))
end
return 1
