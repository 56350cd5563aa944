-- ARGV: 2 tenant, 3 job, 4 pool?, 5 outcome, 6 reply key?, 7 ttl
local tenant, job = ARGV[2], ARGV[3]
local key = job_key(tenant, job)
local record = load(key)

if record and record.s == 'S' then return { 'started', record.o, record.a } end
local is_repeat = false
if record and record.s == 'T' then
  local recorded = outcome_of(key)
  if recorded ~= ARGV[5] then return { 'terminal', recorded } end
  is_repeat = true
end
if not record then make(key, 1, 1, optional(ARGV[6])) end
if not is_repeat then
  set_terminal(key, ARGV[5])
  keep(key, ARGV[7])
end
-- Who cancels a job does not know its pool.
give_credit(optional(ARGV[4]) or redis.call('HGET', key, 'p') or nil, tenant, job)

-- A session that this job was to make may be made by the next one.
local session = redis.call('HGET', key, 'v')
if session then
  local at = session_key(tenant, session)
  if redis.call('HGET', at, 'c') == job then redis.call('HDEL', at, 'c') end
end
return { 'won' }
