-- A client takes a run over. ARGV: 2 tenant, 3 job, 4 reply key, 5 correlation id?
local key = job_key(ARGV[2], ARGV[3])
local record = load(key)
if not record then return { 'absent' } end
if record.s == 'T' then return { 'ended' } end

local correlation = optional(ARGV[5])
local r, c = unpack(redis.call('HMGET', key, 'r', 'c'))
local at = taker and taker[1] or 0
if r ~= ARGV[4] or (c or nil) ~= correlation then
  at = taker and math.max(now, at + 1) or now
  redis.call('HSET', key, 'y', at, 'r', ARGV[4])
  if correlation then redis.call('HSET', key, 'c', correlation) else redis.call('HDEL', key, 'c') end
end
-- The client that had the run, if it was another one: its reply key? and its correlation id?
local before, mark = '', ''
if r and r ~= ARGV[4] then before, mark = '=' .. r, c and ('=' .. c) or '' end
if record.s == 'S' then return { 'started', record.a, before, mark, record.o, at } end
return { 'assigned', record.a, before, mark }
