-- ARGV (with '?': optional): 2 tenant, 3 job, 4 pool, 5 credit, 6 tenant limit?, 7 max attempts, 8 reply key?, 9
-- correlation id?, 10 digest, 11 idempotency key?, 12 session?, 13 'new' or 'fail', 14 candidate?, 15 earliest submit?,
-- 16 credit ttl, 17 ttl, 18 announce grace, 19 session ttl, 20 submit as the message says?, 21 first epoch?, 22 tenant
-- share?
local tenant, job, pool = ARGV[2], ARGV[3], ARGV[4]
local idempotency, session, candidate = optional(ARGV[11]), optional(ARGV[12]), optional(ARGV[14])
local key = job_key(tenant, job)
local record = load(key)

if record and is_another(record, ARGV[10]) then return { 'id_conflict' } end
if record and record.s == 'T' then return ended(key) end
if record and record.s == 'S' then
  if record.l <= now then return { 'lapsed', record.a } end
  return { 'under_way' }
end

local place = idempotency and (P .. 'k:' .. tenant .. '/' .. idempotency)
if not record then
  if place then
    local digest, first = unpack(redis.call('HMGET', place, 'd', 'j'))
    -- An idempotency key counts only while its first job is remembered.
    if first and first ~= job and redis.call('EXISTS', job_key(tenant, first)) == 1 then
      return { digest == ARGV[10] and 'duplicate' or 'conflict', first }
    end
  end
  if count(P .. 'p:' .. pool) >= tonumber(ARGV[5]) then return { 'no_credit' } end
  local limit, share = optional(ARGV[6]), optional(ARGV[22])
  if limit or share then
    local own = P .. 't:' .. tenant
    local held = count(own)
    if limit and held >= tonumber(limit) then return { 'tenant_busy' } end
    -- The costly intersection is needed only if the tenant has at least as many jobs in all pools together.
    if share and held >= tonumber(share)
      and redis.call('ZINTERCARD', 2, own, P .. 'p:' .. pool, 'LIMIT', share) >= tonumber(share) then
      return { 'tenant_busy' }
    end
  end
end

-- Choose the worker that holds the session, or is to hold it.
local worker, create = nil, false
local at = session and session_key(tenant, session)
if session then
  local anew = false
  local w, c, a, g = unpack(redis.call('HMGET', at, 'w', 'c', 'a', 'g'))
  if not w then
    -- Its worker may still announce it.
    if epoch_age < tonumber(ARGV[18]) then return { 'no_session_worker' } end
    anew = true
  else
    local gone = why_gone(w, g)
    -- A session never began if the job that was to create it has not started.
    local unstarted = record and record.a == 1 and not record.d
    local existed = a or (c and not (c == job and unstarted))
    if gone and (existed or gone ~= 'lost') and ARGV[13] == 'fail' then return { 'session_gone', gone } end
    if gone then
      anew = true
    else
      worker, create = w, (not c or c == job) and not a
    end
  end
  if anew then
    if not candidate then return { 'no_session_worker' } end
    worker, create = candidate, true
  end
end

-- Commit.
local attempt, is_repeat = 1, 0
if record then
  attempt, is_repeat = record.a, 1
else
  make(key, 1, ARGV[7], optional(ARGV[8]), optional(ARGV[9]), ARGV[10])
  set_assigned(key, 1)
  -- During the first epoch, a message is older than the epoch only if it says so itself.
  local earliest, said = optional(ARGV[15]), optional(ARGV[20])
  local submitted = earliest
  if optional(ARGV[21]) == epoch then submitted = said end
  if submitted and tonumber(submitted) <= tonumber(began) then redis.call('HSET', key, 'd', '1') end
end
redis.call('HSET', key, 't', ARGV[16], 'p', pool)
if session then redis.call('HSET', key, 'v', session) else redis.call('HDEL', key, 'v') end
keep(key, ARGV[17])
if place then
  redis.call('HSET', place, 'd', ARGV[10], 'j', job)
  keep(place, ARGV[17])
end
take_credit(pool, tenant, job, now + tonumber(ARGV[16]))
if create then
  redis.call('DEL', at)
  redis.call('HSET', at, 'w', worker, 'c', job)
  redis.call('SADD', P .. 'ws:' .. worker, at)
end
if session then
  keep(at, ARGV[19])
  keep(P .. 'ws:' .. worker, ARGV[19])
end
return { 'assigned', attempt, epoch, worker or '', create and 1 or 0, is_repeat }
