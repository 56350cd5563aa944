-- ARGV: 2 tenant, 3 job, 4 pool?, 5-8 end (outcome, mark, status, cost), 9 digest ('' is none), 10 cancel (1 or 0),
-- 11-14 keep (see set_terminal)
local tenant, job, cancel = ARGV[2], ARGV[3], ARGV[10] == '1'
local key = job_key(tenant, job)
local record = load(key)

if record and is_another(record, ARGV[9]) then return { 'conflict' } end
if record and record.s == 'S' then
  -- Only the first cancel decides how long the record is kept.
  if cancel and redis.call('HSET', key, 'k', '1') == 1 then keep(key, ARGV[12]) end
  return { 'started', record.o, record.a }
end
local is_repeat = record and record.s == 'T'
if is_repeat and not ended_as(key, 5) then return ended(key) end
if full and not record then
  -- A cancel must be remembered as long as its job may wait, a refusal only until the job's message is acknowledged.
  if cancel then return { 'full' } end
  ARGV[12] = math.min(tonumber(ARGV[12]), hour / 4)
end
-- The client that cancels a job doesn't say its pool.
local pool, session = unpack(redis.call('HMGET', key, 'p', 'v'))
if not record then make(key, 1, 1, nil, nil, ARGV[9]) end
if not is_repeat then set_terminal(key, tenant, 5, 11) end
give_credit(optional(ARGV[4]) or pool or nil, tenant, job)

-- If this job was to create its session, the next job may create it.
if session then
  local at = session_key(tenant, session)
  if redis.call('HGET', at, 'c') == job then redis.call('HDEL', at, 'c') end
end
return { 'won' }
