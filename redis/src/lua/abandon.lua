-- ARGV: 2 tenant, 3 job, 4 attempt, 5 owner, 6 nonce
local key = job_key(ARGV[2], ARGV[3])
local record = load(key)
if record and held_by(record, tonumber(ARGV[4]), ARGV[5], ARGV[6]) then
  redis.call('HSET', key, 'l', now)
  return 1
end
return 0
