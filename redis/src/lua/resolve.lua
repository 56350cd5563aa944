-- ARGV: 2 tenant, 3 job, 4 pool, 5 attempt, 6 max attempts, 7-10 the end of a lost job (outcome, mark, status, cost),
-- 11-14 the end of a cancelled one, 15 grace, 16-19 keep (see set_terminal)
local tenant, job, pool = ARGV[2], ARGV[3], ARGV[4]
local attempt, max, grace = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[15])
local key = job_key(tenant, job)
local record = load(key)

-- The job takes credit for as long as a new one, and its record must last longer than the message.
local function reassign(n)
  keep(key, ARGV[17])
  local ttl = tonumber(redis.call('HGET', key, 't') or 0)
  if ttl == 0 then ttl = grace end
  take_credit(pool, tenant, job, now + ttl)
  return { 'reassign', n }
end

if record then
  if record.s == 'T' then return ended(key) end
  if record.s == 'S' then
    if attempt < record.a then return { 'stale' } end
    if now < record.l then return { 'hold', record.l - now } end
  elseif not record.d and attempt <= record.a then
    return reassign(record.a)
  elseif epoch_age < grace then
    return { 'hold', grace - epoch_age }
  end
else
  if epoch_age < grace then return { 'hold', grace - epoch_age } end
  make(key, attempt, max)
  record = { a = attempt, m = max }
end

-- From here on, the attempt counts as started and as ended without an outcome.
local n, most = math.max(record.a, attempt), math.max(record.m, max)
redis.call('HSET', key, 'a', n, 'm', most)
if n < most and not record.k then
  set_assigned(key, n + 1)
  return reassign(n + 1)
end
set_terminal(key, tenant, record.k and 11 or 7, 16)
give_credit(pool, tenant, job)
return { record.k and 'cancelled' or 'lost' }
