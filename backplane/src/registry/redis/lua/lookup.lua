-- ARGV: 2 tenant, 3 job
local key = job_key(ARGV[2], ARGV[3])
local record = load(key)
if not record then return false end
local r, c = unpack(redis.call('HMGET', key, 'r', 'c'))
return {
  record.s, record.a, record.m, r and ('=' .. r) or '', c and ('=' .. c) or '', record.d and 1 or 0,
  record.o or '', record.n or '', record.l, record.s == 'T' and outcome_of(key) or '',
}
