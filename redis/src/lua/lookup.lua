-- ARGV: 2 tenant, 3 job
local key = job_key(ARGV[2], ARGV[3])
local record = load(key)
if not record then return false end
local r, c, u, z, h, x = unpack(redis.call('HMGET', key, 'r', 'c', 'u', 'z', 'h', 'x'))
return {
  record.s, record.a, record.m, r and ('=' .. r) or '', c and ('=' .. c) or '', record.d and 1 or 0,
  record.o or '', record.n or '', record.l, record.k and 1 or 0, record.g or '',
  u or 'lost', tonumber(z or 0), h or '', record.s == 'T' and (redis.call('GET', outcome_key(key)) or x),
  record.s == 'T' and redis.call('GET', stored_key(key)), taker and taker[1] or 0,
}
